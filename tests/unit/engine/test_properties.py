"""Property-based tests of the engine. They alone need hypothesis, which a machine with a GPU may lack."""

import numpy as np
import pytest
import torch

from harness.core.policy import Policy
from harness.engine.shaping import apply_policy, most_likely
from harness.engine.tree import prefix_keys, uniforms

pytest.importorskip("hypothesis", reason="hypothesis is not installed (pip install hypothesis)")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# All examples of a test share its target and its device, which none of them changes.
SHARED = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}
LOGITS = st.lists(st.lists(st.integers(-3, 3), min_size=9, max_size=9), min_size=1, max_size=4)
POLICIES = st.builds(
    Policy,
    temperature=st.floats(0.3, 3),
    top_k=st.none() | st.integers(1, 12),
    top_p=st.just(1.0) | st.floats(0.05, 1),
    typical_p=st.just(1.0) | st.floats(0.05, 1),
    repetition_penalty=st.just(1.0) | st.floats(0.5, 2),
)


@settings(max_examples=15, **SHARED)
@given(
    rows=st.integers(1, 5),
    width=st.integers(1, 20),
    trials=st.integers(1, 7),
    at_once=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_calls_of_any_shape_keep_the_laws(neo, rows, width, trials, at_once, seed):
    neo.rows_at_once = at_once
    prefixes = np.random.default_rng(seed).integers(0, 61, (rows, width))
    found = neo.sample(prefixes, Policy(top_k=3), trials=trials, seed=seed, length=3)
    assert (np.bincount(found.row, found.count, rows) == trials).all()
    scored = neo.score(prefixes[found.row], found.suffixes)
    assert np.allclose(found.token_logprobs, scored.token_logprobs, atol=1e-4)
    assert (scored.rank < 3).all()


@settings(max_examples=15, **SHARED)
@given(
    rows=st.integers(1, 4),
    width=st.integers(1, 7),
    prefix=st.integers(1, 20),
    at_once=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_searches_of_any_shape_keep_the_laws(neo, rows, width, prefix, at_once, seed):
    neo.rows_at_once = at_once
    prefixes = np.random.default_rng(seed).integers(0, 61, (rows, prefix))
    found = neo.search(prefixes, width=width, length=3)
    scored = neo.score(prefixes[found.row], found.suffixes)
    assert np.allclose(found.token_logprobs, scored.token_logprobs, atol=1e-4)
    assert (np.bincount(found.row, minlength=rows) == width).all()


def _by_sorting(scores: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    found = scores.sort(dim=1, descending=True, stable=True)
    return found.values[:, :count], found.indices[:, :count]


@settings(max_examples=60, **SHARED)
@given(
    columns=st.sampled_from([5, 95, 96, 97, 2000, 9601, 50257]),
    count=st.integers(1, 40),
    distinct=st.sampled_from([1, 3, 40, 10**9]),
    seed=st.integers(0, 10**6),
)
def test_most_likely_equals_a_stable_sort(device, columns, count, distinct, seed):
    scores = torch.randint(0, distinct, (4, columns), generator=torch.Generator().manual_seed(seed)).float().to(device)
    values, ids = most_likely(scores, min(count, columns))
    wanted = _by_sorting(scores, min(count, columns))
    assert torch.equal(values, wanted[0]) and torch.equal(ids, wanted[1])


@settings(**SHARED)
@given(logits=LOGITS, policy=POLICIES)
def test_a_support_is_normalised_and_ordered(device, logits, policy):
    scores = torch.tensor(logits, dtype=torch.float32, device=device)
    support = apply_policy(scores, policy, torch.zeros(len(logits), 2, dtype=torch.int64, device=device))
    assert support.logprobs.double().exp().sum(1).tolist() == pytest.approx([1] * len(logits), abs=1e-6)
    if support.ids is None:
        return
    values, ids = support.logprobs.cpu(), support.ids.cpu()
    assert ((values[:, :-1] > values[:, 1:]) | ((values[:, :-1] == values[:, 1:]) & (ids[:, :-1] < ids[:, 1:])))[
        ~values[:, 1:].isinf()
    ].all()


@given(
    seed=st.integers(-(2**70), 2**70), row=st.integers(0, 199), draw=st.integers(0, 2**40), position=st.integers(0, 99)
)
def test_a_uniform_depends_only_on_its_arguments(seed, row, draw, position):
    keys = prefix_keys(np.arange(200 * 3).reshape(200, 3))
    alone = uniforms(seed, keys[row : row + 1], np.array([draw]), position)
    among = uniforms(seed, keys[:, None], np.array([draw, draw + 1]), position)
    assert alone.shape == (1,) and among.shape == (200, 2)
    assert alone[0] == among[row, 0] != among[row, 1]
