"""Cochran's Q equals its definition, and the bootstrap keeps its level."""

import numpy as np
import pytest
from scipy.stats import chi2

from harness.audits.entities.ranking import count_votes, score_pairs
from harness.audits.entities.statistics import (
    CochranQ,
    cochran_q,
    means_by_group,
    rank_correlation,
    spread_over_names,
)


def confidences(seed: int, *, lift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Six prompts; 14 and 12 names with a common part each; the last prompt lifts the inside names."""
    generator = np.random.default_rng(seed)
    inside = generator.normal(0.5, 1, (6, 14)) + generator.normal(0, 1, 14)
    outside = generator.normal(0, 1, (6, 12)) + generator.normal(0, 1, 12)
    inside[-1] += lift
    return inside, outside


def q_of(inside: np.ndarray, outside: np.ndarray) -> CochranQ:
    """Return Cochran's Q of the prompts over all pairs. inside: [prompts, n]; outside: [prompts, m]."""
    wins = [score_pairs(*sides).wins for sides in zip(inside, outside, strict=True)]
    counters = count_votes(zip(inside, outside, strict=True), inside.shape[1], outside.shape[1])
    return cochran_q(counters, wins)


def test_q_equals_its_definition():
    inside, outside = confidences(1)
    is_won = (inside[:, :, None] > outside[:, None, :]).reshape(6, -1)  # [prompts, pairs]
    wins, votes = is_won.sum(axis=1), is_won.sum(axis=0)
    expected = 6 * 5 * ((wins - wins.mean()) ** 2).sum() / (votes * (6 - votes)).sum()
    q, degrees_of_freedom, p = q_of(inside, outside)
    assert (q, degrees_of_freedom, p) == (pytest.approx(expected), 5, pytest.approx(chi2.sf(expected, 5)))


def test_q_of_two_prompts_is_mcnemars():
    inside, outside = (side[:2] for side in confidences(2))
    first, second = inside[:, :, None] > outside[:, None, :]
    only_first, only_second = (first & ~second).sum(), (second & ~first).sum()
    assert q_of(inside, outside).q == pytest.approx((only_first - only_second) ** 2 / (only_first + only_second))


def test_equal_prompts_have_no_q():
    same = np.tile(np.arange(5.0), (3, 1))
    assert np.isnan(q_of(same, same - 0.5).p)


def test_the_bootstrap_keeps_its_level_and_cochrans_q_does_not():
    samples = [confidences(seed) for seed in range(200)]
    assert np.mean([spread_over_names(*sample, seed=0).p < 0.05 for sample in samples[:100]]) < 0.16
    assert np.mean([q_of(*sample).p < 0.05 for sample in samples]) > 0.3


def test_the_bootstrap_detects_a_better_prompt():
    spread = spread_over_names(*confidences(3, lift=3.0), seed=0)
    assert spread.p < 0.01
    assert 0 < spread.low < spread.lead < spread.high


def test_the_rank_correlation_of_equal_orders_is_one():
    assert rank_correlation(np.array([0.5, 0.6, 0.9]), np.array([0.1, 0.2, 0.3])).tau == pytest.approx(1.0)
    assert np.isnan(rank_correlation(np.array([0.5]), np.array([0.1])).tau)


def test_groups_come_in_order_with_their_means():
    found = means_by_group([10, 2, 10], np.array([0.5, 0.7, 0.9]))
    assert [(group.group, group.prompts) for group in found] == [(2, 1), (10, 2)]
    assert (found[0].low, found[0].value, found[0].high) == (0.7, 0.7, 0.7)
    assert found[1].value == pytest.approx(0.7)
    assert found[1].low < 0.7 < found[1].high
