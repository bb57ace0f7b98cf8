import math

import pytest
import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from harness.core.policy import Policy
from harness.engine.shaping import Support, apply_policy, sample_tokens, top_tokens

VOCABULARY = 700  # more than top-p examines first


def _dense(support: Support, vocabulary: int) -> torch.Tensor:
    """The support's log-probabilities at their tokens, [rows, vocabulary], -inf elsewhere."""
    if support.ids is None:
        return support.logprobs.double()
    empty = support.logprobs.new_full((len(support.logprobs), vocabulary), -math.inf, dtype=torch.float64)
    return empty.scatter(1, support.ids, support.logprobs)


def test_a_decaying_temperature_is_linear_and_ends_at_one():
    carlini = Policy(temperature=10, decay_tokens=20)
    temperatures = [carlini.at(step).temperature for step in range(22)]
    assert temperatures == pytest.approx([*(10 - 9 * step / 19 for step in range(20)), 1, 1])
    assert temperatures[19:] == [1, 1, 1] and carlini.at(3).decay_tokens == 0
    assert Policy(temperature=0.5, decay_tokens=1).at(0).temperature == 0.5
    assert Policy(temperature=0.5, top_k=3).at(7) == Policy(temperature=0.5, top_k=3)


def _by_hugging_face(logits: torch.Tensor, policy: Policy, seen: torch.Tensor | None) -> torch.Tensor:
    processors = LogitsProcessorList()
    if policy.repetition_penalty != 1:
        processors.append(RepetitionPenaltyLogitsProcessor(policy.repetition_penalty))
    if policy.temperature != 1:
        processors.append(TemperatureLogitsWarper(policy.temperature))
    if policy.top_k is not None:
        processors.append(TopKLogitsWarper(policy.top_k))
    if policy.top_p < 1:
        processors.append(TopPLogitsWarper(policy.top_p))
    if policy.typical_p < 1:
        processors.append(TypicalLogitsWarper(policy.typical_p))
    return torch.log_softmax(processors(seen, logits.double()), dim=1)


@pytest.mark.parametrize(
    "policy",
    [
        Policy(),
        Policy(temperature=0.58),
        Policy(top_k=1),
        Policy(top_k=10),
        Policy(top_k=VOCABULARY),
        Policy(top_k=10 * VOCABULARY, temperature=2.5),
        Policy(top_p=0.8),
        Policy(top_p=0.999, temperature=3),
        Policy(top_k=24, top_p=0.8),
        Policy(typical_p=0.9),
        Policy(top_k=24, typical_p=0.6),
        Policy(top_p=0.9, typical_p=0.5, temperature=1.3),
        Policy(repetition_penalty=1.04),
        Policy(top_k=24, top_p=0.8, typical_p=0.9, temperature=0.58, repetition_penalty=1.04),
        Policy(repetition_penalty=3, temperature=0.7, top_p=0.95),
    ],
    ids=repr,
)
def test_supports_equal_hugging_face_without_ties(device, policy):
    generator = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(40, VOCABULARY, generator=generator)
    seen = torch.randint(0, VOCABULARY, (40, 60), generator=generator)
    logits, seen = logits.to(device), seen.to(device)
    before = logits.clone()
    found, wanted = _dense(apply_policy(logits, policy, seen), VOCABULARY), _by_hugging_face(logits, policy, seen)
    assert torch.equal(found.isinf(), wanted.isinf())
    assert torch.allclose(found, wanted, atol=1e-5, rtol=0)
    assert torch.equal(logits, before)


def test_top_k_keeps_exactly_k_of_equal_tokens(device):
    logits = torch.zeros(1, 8, device=device)
    assert apply_policy(logits, Policy(top_k=3)).ids.tolist() == [[0, 1, 2]]
    assert (~_by_hugging_face(logits, Policy(top_k=3), None).isinf()).sum() == 8


def test_typical_p_keeps_the_fewest_of_equal_tokens(device):
    logits = torch.zeros(1, 8, device=device)
    assert apply_policy(logits, Policy(typical_p=0.3)).ids.tolist() == [[0, 1, 2]]
    assert (~_by_hugging_face(logits, Policy(typical_p=0.3), None).isinf()).sum() == 8


@pytest.mark.parametrize(
    "policy",
    [{}, {"repetition_penalty": 1.5}, {"top_k": 40}, {"top_p": 1 - 1e-12}, {"typical_p": 1 - 1e-12}],
    ids=str,
)
def test_a_probability_just_below_1_is_not_rounded_at_a_low_temperature(device, policy):
    logits = torch.arange(50, 0, -1, dtype=torch.float32).reshape(1, -1).mul(1.9).to(device)
    seen = torch.tensor([[49]], device=device) if "repetition_penalty" in policy else None
    support = top_tokens(logits, Policy(temperature=0.1, **policy), 5, seen, torch.logsumexp(logits, dim=1))
    # Each token has e^-19 times the probability of the one before it.
    assert support.ids[0, 0] == 0
    assert float(support.logprobs[0, 0]) == pytest.approx(-math.exp(-19), rel=1e-5)


def test_a_draw_is_inverse_cdf_sampling(device):
    ids = torch.tensor([[1, 2, 4], [7, 3, 5]], device=device)
    logprobs = torch.tensor([[0, 0, 1], [0.5, 0.5, 0.0]], dtype=torch.float64, device=device).log()
    uniform = torch.tensor([0, 0.25, 0.5 - 2**-53, 0.5, 0.75, 1 - 2**-53], dtype=torch.float64, device=device)
    tokens, logprobs = sample_tokens(Support(ids, logprobs), torch.ones(6, dtype=torch.long, device=device), uniform)
    assert tokens.tolist() == [7, 7, 7, 3, 3, 3]
    assert logprobs.tolist() == pytest.approx([math.log(0.5)] * 6)


@pytest.mark.parametrize("vocabulary", [3, 1000, 50257])
def test_the_largest_uniform_draws_no_impossible_token(device, vocabulary):
    logits = torch.randn(16, vocabulary, generator=torch.Generator().manual_seed(0))
    logits[:, -1] = -math.inf
    logits, largest = logits.to(device), torch.full((16,), 1 - 2**-53, dtype=torch.float64, device=device)
    tokens, logprobs = sample_tokens(apply_policy(logits, Policy()), torch.arange(16, device=device), largest)
    assert (tokens < vocabulary - 1).all() and logprobs.isfinite().all()


@pytest.mark.parametrize("policy", [Policy(), Policy(top_k=3), Policy(top_p=0.5), Policy(typical_p=0.5)], ids=str)
def test_a_draw_from_nan_logits_has_log_probability_nan(device, policy):
    support = apply_policy(torch.full((2, 7), torch.nan, device=device), policy)
    row, uniform = torch.tensor([0, 0, 1], device=device), torch.tensor([0.1, 0.9, 0.5], device=device)
    tokens, logprobs = sample_tokens(support, row, uniform)
    assert ((tokens >= 0) & (tokens < 7)).all() and torch.isnan(logprobs).all()
