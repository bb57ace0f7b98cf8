"""Cochran's Q equals that of statsmodels, and the bootstrap keeps its level."""

import numpy as np
import pytest
from statsmodels.stats.contingency_tables import cochrans_q

from harness.audits.entities.ranking import count_votes, score_pairs
from harness.audits.entities.statistics import (
    cochran_over_all_pairs,
    cochran_over_disjoint_pairs,
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


def test_q_over_all_pairs_equals_statsmodels():
    inside, outside = confidences(1)
    is_won = (inside[:, :, None] > outside[:, None, :]).reshape(6, -1).T  # [pairs, prompts]
    wanted = cochrans_q(is_won.astype(float))
    counters = count_votes(zip(inside, outside, strict=True), 14, 12)
    found = cochran_over_all_pairs(counters, [score_pairs(*of).wins for of in zip(inside, outside, strict=True)])
    assert found.q == pytest.approx(wanted.statistic)
    assert (found.degrees_of_freedom, found.p) == (wanted.df, pytest.approx(wanted.pvalue))


def test_equal_prompts_have_no_q():
    same = np.tile(np.arange(5.0), (3, 1))
    counters = count_votes(zip(same, same - 0.5, strict=True), 5, 5)
    assert np.isnan(cochran_over_all_pairs(counters, [15, 15, 15]).p)
    assert np.isnan(cochran_over_disjoint_pairs(same, same - 0.5, seed=0).p)


def test_tests_over_names_keep_their_level_and_all_pairs_do_not():
    found = [confidences(seed) for seed in range(200)]
    disjoint = np.mean([cochran_over_disjoint_pairs(*of, seed=0).p < 0.05 for of in found])
    spread = np.mean([spread_over_names(*of, seed=0).p < 0.05 for of in found[:100]])
    all_pairs = []
    for inside, outside in found:
        wins = [score_pairs(*of).wins for of in zip(inside, outside, strict=True)]
        counters = count_votes(zip(inside, outside, strict=True), 14, 12)
        all_pairs.append(cochran_over_all_pairs(counters, wins).p < 0.05)
    assert disjoint < 0.12
    assert spread < 0.16
    assert np.mean(all_pairs) > 0.3


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
