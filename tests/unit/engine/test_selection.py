import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.engine.selection import logsumexp, most_likely


def _by_sorting(scores: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    found = scores.sort(dim=1, descending=True, stable=True)
    return found.values[:, :count], found.indices[:, :count]


@settings(deadline=None, max_examples=60)
@given(
    columns=st.sampled_from([5, 95, 96, 97, 2000, 9601, 50257]),
    count=st.integers(1, 40),
    distinct=st.sampled_from([1, 3, 40, 10**9]),
    seed=st.integers(0, 10**6),
)
def test_most_likely_equals_a_stable_sort(columns, count, distinct, seed):
    scores = torch.randint(0, distinct, (4, columns), generator=torch.Generator().manual_seed(seed)).float()
    values, ids = most_likely(scores, min(count, columns))
    wanted = _by_sorting(scores, min(count, columns))
    assert torch.equal(values, wanted[0]) and torch.equal(ids, wanted[1])


@pytest.mark.parametrize("where", [0, 95, 96, 50_000, 50_207, 50_208, 50_256])
def test_a_single_high_score_is_found_at_any_position(where):
    scores = torch.zeros(2, 50_257)
    scores[1, where] = 1
    values, ids = most_likely(scores, 3)
    others = [column for column in range(4) if column != where]
    assert values.tolist() == [[0, 0, 0], [1, 0, 0]]
    assert ids.tolist() == [[0, 1, 2], [where, *others[:2]]]


def test_impossible_tokens_come_last_and_contribute_nothing():
    scores = torch.full((1, 5000), -torch.inf)
    scores[0, [7, 4321]] = torch.tensor([0.0, 1.0])
    values, ids = most_likely(scores, 3)
    assert ids.tolist() == [[4321, 7, 0]] and values.tolist() == [[1, 0, -torch.inf]]
    assert logsumexp(scores).item() == pytest.approx(1.3132617)
