import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.audits.exact import exact_logprobs, target_logprobs, token_statistics
from harness.core.errors import HarnessError
from harness.core.policy import Policy
from harness.demo import ROUND_ARRAYS, WEIGHTS
from harness.engine import shaping
from harness.engine.loading import load_target
from harness.engine.shaping import apply_policy
from tests.unit.engine.conftest import configurations, load_on, save_model
from tests.unit.engine.reference import dense_probabilities, logits_of, to_device

POLICIES = (
    Policy(top_k=1),
    Policy(),
    Policy(temperature=0.7),
    Policy(top_k=10),
    Policy(top_p=0.9),
    Policy(typical_p=0.9),
    Policy(typical_p=0.2),
    Policy(temperature=1.6, top_p=0.99),
    Policy(temperature=0.5, typical_p=0.95),
    Policy(top_k=40, top_p=0.8, typical_p=0.7),
    Policy(repetition_penalty=1.3, top_k=20),
    Policy(temperature=0.5, top_k=10),
)


def _by_shaped(scores, targets, policy, before):
    support = apply_policy(scores, policy, before)
    if support.ids is None:
        return support.logprobs.double().gather(1, targets.unsqueeze(1)).squeeze(1)
    is_target = support.ids == targets.unsqueeze(1)
    return support.logprobs.double().masked_fill(~is_target, -torch.inf).amax(1)


@pytest.mark.parametrize("lead", [1.0, 2.0, 3.0, 5.0, 20.0])
def test_probabilities_just_below_one_differ_at_a_low_temperature(device, lead):
    """A prompt that makes a token a little surer is not a tie with one that does not."""
    scores = torch.randn(4, 500, generator=torch.Generator().manual_seed(2)).clamp(max=2.0) + 30
    scores[:, 7] = 32 + lead
    (found,) = target_logprobs(
        logits_of(scores.to(device)), torch.full((4,), 7, device=device), [Policy(temperature=0.1)]
    )
    logits = np.delete(scores.double().numpy(), 7, axis=1) - scores[:, 7:8].double().numpy()
    wanted = -np.log1p(np.exp(logits / 0.1).sum(axis=1))
    assert np.allclose(found.cpu().numpy(), wanted, rtol=1e-4, atol=1e-13)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("spread", [0.3, 2.0, 6.0])
def test_exact_probabilities_equal_those_of_apply_policy(device, policy, spread):
    generator = torch.Generator().manual_seed(5)
    scores = torch.randn(20, 3000, generator=generator) * spread
    likely = scores.topk(30, dim=1).indices.gather(1, torch.randint(30, (20, 1), generator=generator))[:, 0]
    targets = torch.where(torch.arange(20) % 4 == 3, torch.randint(3000, (20,), generator=generator), likely)
    before = torch.cat([likely.unsqueeze(1), torch.randint(3000, (20, 12), generator=generator)], 1)
    scores, targets, before = scores.to(device), targets.to(device), before.to(device)
    (found,) = target_logprobs(logits_of(scores), targets, [policy], before)
    wanted = _by_shaped(scores, targets, policy, before)
    assert (found.isneginf() == wanted.isneginf()).all()
    assert torch.allclose(found.exp(), wanted.exp(), atol=1e-6)
    possible = ~wanted.isneginf()
    assert torch.allclose(found[possible], wanted[possible], atol=1e-4)


@pytest.mark.parametrize("policy", [Policy(temperature=0.3), Policy(typical_p=0.6), *POLICIES], ids=str)
def test_no_probability_exceeds_one(device, policy):
    generator = torch.Generator().manual_seed(9)
    scores = torch.randn(400, 50, generator=generator) + 40 * torch.rand(400, 1, generator=generator)
    scores[:, 7] = scores.amax(1) + 60 * torch.rand(400, generator=generator)
    scores, targets = scores.to(device), torch.full((400,), 7, device=device)
    (found,) = target_logprobs(logits_of(scores), targets, [policy], targets.unsqueeze(1))
    assert float(found.max()) <= 0 and not found.isnan().any()
    # Dividing in two types would differ by the rounding of the scores.
    assert torch.allclose(found.exp(), _by_shaped(scores, targets, policy, targets.unsqueeze(1)).exp(), atol=1e-6)


def test_an_unlikely_suffix_is_not_followed_to_its_end(device):
    target = load_on(device, WEIGHTS)
    prefixes, suffixes = (np.load(ROUND_ARRAYS / f"{part}.npy")[:48].astype(np.int64) for part in ("prefix", "suffix"))
    suffixes[24:] = np.roll(suffixes[24:], 1, axis=0)
    policies = [Policy(top_k=40), Policy(), Policy(temperature=1.5, decay_tokens=5)]
    whole = exact_logprobs(target, prefixes, suffixes, policies).sum(axis=2)
    least = 1e-6
    found = exact_logprobs(target, prefixes, suffixes, policies, min_probability=least)
    bound = found.sum(axis=2)
    is_likely = (whole >= np.log(least)).any(axis=0)
    assert is_likely.any() and not is_likely.all()
    assert np.allclose(bound[:, is_likely], whole[:, is_likely], atol=1e-5)
    assert (bound[:, ~is_likely] >= whole[:, ~is_likely] - 1e-5).all()
    assert (bound[:, ~is_likely] < np.log(least)).all()
    # Some rows end after the first tokens, and what follows counts as certain.
    assert (found[:, ~is_likely, 8:] == 0).all(axis=(0, 2)).any()


@pytest.mark.parametrize("prefix_length", [1, 9])
@pytest.mark.parametrize("suffix_length", [3, 30])
def test_short_prefixes_and_models_in_one_piece_have_the_same_bound(folders, monkeypatch, prefix_length, suffix_length):
    target = load_target(folders["cohere2"], device="cpu", threads=1)
    assert target.runner.head is None
    target.runner.logit_bytes = 4 * target.vocabulary * 7
    rows = np.random.default_rng(2).integers(0, target.vocabulary, (5, prefix_length + suffix_length))
    prefixes, suffixes = rows[:, :prefix_length], rows[:, prefix_length:]
    whole = exact_logprobs(target, prefixes, suffixes, [Policy()]).sum(axis=2)
    found = exact_logprobs(target, prefixes, suffixes, [Policy()], min_probability=1e-4).sum(axis=2)
    assert (found >= whole - 1e-4).all()
    is_likely = whole >= np.log(1e-4)
    assert np.allclose(found[is_likely], whole[is_likely], atol=1e-4) and (found[~is_likely] < np.log(1e-4)).all()


def test_only_unsettled_rows_use_longer_heads(device, monkeypatch):
    sorted_counts = []
    whole = shaping.most_likely

    def watched(scores, count):
        sorted_counts.append((len(scores), count))
        return whole(scores, count)

    monkeypatch.setattr(shaping, "most_likely", watched)
    scores = torch.zeros(3, 5000, device=device)
    scores[0, :5] = 20.0  # five tokens hold everything
    scores[1, :600] = 20.0  # six hundred do
    (found,) = target_logprobs(logits_of(scores), torch.tensor([4, 10, 3], device=device), [Policy(top_p=0.9)])
    # The last row is not settled, and its vocabulary is ordered in one cheaper sort.
    assert sorted_counts == [(3, 16), (2, 128), (2, 1024)]
    assert found.exp().tolist() == pytest.approx([1 / 5, 1 / 540, 1 / 4500], rel=1e-2)


def test_equal_scores_are_kept_by_id_as_in_sampling(device):
    targets = torch.tensor([0, 9, 10, 299], device=device)
    (found,) = target_logprobs(logits_of(torch.zeros(4, 300, device=device)), targets, [Policy(top_k=10)])
    assert found.exp().tolist() == pytest.approx([0.1, 0.1, 0.0, 0.0])


@pytest.mark.parametrize("logit_bytes", [1, 61 * 4 * 9 * 5, 1 << 20])
@pytest.mark.parametrize("rows_at_once", [1, 32])
def test_each_token_has_the_policys_probability_given_its_context(
    target, prefixes, monkeypatch, logit_bytes, rows_at_once
):
    monkeypatch.setattr(target.runner, "logit_bytes", logit_bytes)
    target.rows_at_once = rows_at_once
    suffixes = np.random.default_rng(4).integers(0, 61, (9, 7)).astype(np.uint16)
    policies = [Policy(top_k=20), Policy(top_p=0.7), Policy(typical_p=0.8), Policy(repetition_penalty=1.5)]
    decaying = Policy(temperature=3, decay_tokens=3)
    by_position = [*([policy] * 7 for policy in policies), [Policy(temperature=t) for t in (3, 2, 1, 1, 1, 1, 1)]]
    found = exact_logprobs(target, prefixes, suffixes, [*policies, decaying])
    assert found.shape == (5, 9, 7) and found.dtype == np.float64
    for number, constant in enumerate(by_position):
        for position, policy in enumerate(constant):
            before = np.concatenate([prefixes, suffixes[:, :position]], axis=1)
            probabilities = dense_probabilities(target, before, policy)
            wanted = probabilities[np.arange(9), suffixes[:, position]]
            assert np.allclose(np.exp(found[number, :, position]), wanted, atol=1e-4)


def test_out_of_memory_halves_the_rows(neo, prefixes, fail_passes):
    wanted = exact_logprobs(neo, prefixes, prefixes, POLICIES[:3])
    fail_passes(lambda rows: len(rows) > 2 and rows.dtype == torch.int64)
    assert np.allclose(exact_logprobs(neo, prefixes, prefixes, POLICIES[:3]), wanted, atol=1e-5)
    assert neo.rows_at_once == 2


def test_invalid_input_is_refused(neo, prefixes):
    with pytest.raises(HarnessError, match="Pass one suffix per prefix"):
        exact_logprobs(neo, prefixes, prefixes[:2], [Policy()])
    with pytest.raises(HarnessError, match=r"0\.\.60"):
        exact_logprobs(neo, prefixes, prefixes + 50, [Policy()])
    with pytest.raises(HarnessError, match="shorter than"):
        exact_logprobs(neo, prefixes, np.zeros((9, 60), np.uint16), [Policy()])
    assert exact_logprobs(neo, prefixes[:0], prefixes[:0], [Policy()]).shape == (1, 0, 12)


@pytest.fixture(scope="module")
def plain_targets(tmp_path_factory):
    """Tiny random models: one that the engine decodes itself, and one with the model's own code and windows."""
    shapes = configurations(61, width=32, heads=4, window=8, spread=0.3)
    folder = tmp_path_factory.mktemp("plain")
    return [load_on(torch.device("cpu"), save_model(shapes[name], folder / name, 3)) for name in ("llama", "cohere2")]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1), st.integers(1, 6), st.integers(1, 20), st.integers(1, 20), st.integers(0, 1 << 30))
def test_a_plain_pass_equals_the_log_probabilities_of_every_audit(plain_targets, which, rows, before, length, seed):
    """Leakage, compare and book use `exact_logprobs`, membership uses `token_statistics`, attacks use `score`."""
    target = plain_targets[which]
    tokens = np.random.default_rng(seed).integers(1, 61, (rows, before + length))
    prefixes, suffixes = tokens[:, :before], tokens[:, before:]
    with torch.inference_mode():
        logits = target.model(to_device(target, tokens), use_cache=False).logits.double()
    plain = torch.log_softmax(logits[:, before - 1 : -1], -1).gather(2, to_device(target, suffixes)[..., None])
    wanted = plain[..., 0].numpy()
    (exactly,) = exact_logprobs(target, prefixes, suffixes, [Policy()])
    assert np.abs(exactly - wanted).max() < 1e-4
    assert np.abs(target.score(prefixes, suffixes).token_logprobs - wanted).max() < 1e-4
    assert np.abs(token_statistics(target, prefixes, suffixes)[0] - wanted).max() < 1e-4
