"""M-MEM equals counting all pairs, Cochran's Q its definition, and the bootstrap keeps its level."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.audits.entities.measures import (
    chance_error,
    cochran_q,
    correlation_ratio,
    count_votes,
    majority_vote,
    means_by_group,
    placements,
    property_correlations,
    rank_correlation,
    score_pairs,
    spread_over_names,
)

# Few distinct values, so that ties are common.
confidences = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 1.0]) | st.floats(0, 1), min_size=1, max_size=30)


@given(confidences, confidences)
def test_scores_by_ranks_equal_scores_by_pairs(inside, outside):
    inside, outside = np.array(inside), np.array(outside)
    score = score_pairs(inside, outside)
    assert score.wins == sum((inside[:, None] > outside).ravel())
    assert score.ties == sum((inside[:, None] == outside).ravel())
    assert score.pairs == len(inside) * len(outside)


@given(confidences, confidences)
def test_the_mean_placement_is_m_mem(inside, outside):
    placed = placements(np.array(inside), np.array(outside))
    m_mem = score_pairs(np.array(inside), np.array(outside)).m_mem
    assert placed.of_inside.mean() == pytest.approx(m_mem)
    assert placed.of_outside.mean() == pytest.approx(m_mem)


@given(st.integers(1, 12), st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_votes_count_every_pair_and_prompt(prompts, inside, outside, seed):
    generator = np.random.default_rng(seed)
    of_inside = generator.integers(0, 4, (prompts, inside)).astype(float)
    of_outside = generator.integers(0, 4, (prompts, outside)).astype(float)
    counters = count_votes(of_inside, of_outside)
    wins = np.array(
        [
            [sum(x[i] > y[j] for x, y in zip(of_inside, of_outside, strict=True)) for j in range(outside)]
            for i in range(inside)
        ]
    )
    assert counters.dtype == np.uint16
    assert (counters == wins).all()
    score = majority_vote(counters, prompts)
    assert score.wins == (wins > prompts / 2).sum()
    assert score.ties == (wins == prompts / 2).sum()


def test_ties_are_not_wins():
    score = score_pairs(np.array([0.5, 0.5]), np.array([0.5, 0.25]))
    assert (score.wins, score.ties, score.pairs, score.m_mem) == (2, 2, 4, 0.5)


def test_a_name_without_a_confidence_is_in_no_pair():
    score = score_pairs(np.array([0.9, np.nan]), np.array([0.1, np.nan, 0.95]))
    assert (score.wins, score.pairs) == (1, 2)
    assert np.isnan(score_pairs(np.array([np.nan]), np.array([0.1])).m_mem)


def test_the_standard_error_of_chance():
    generator = np.random.default_rng(5)
    drawn = [score_pairs(generator.random(30), generator.random(40)).m_mem for _ in range(4000)]
    assert np.mean(drawn) == pytest.approx(0.5, abs=0.01)
    assert np.std(drawn) == pytest.approx(chance_error(30, 40), rel=0.05)


def test_the_interval_covers_the_truth_in_95_percent():
    generator = np.random.default_rng(6)
    # P(x + 1 > y) of two standard normals is Φ(1/√2) = 0.7602.
    covered = 0
    for _ in range(1000):
        score = score_pairs(generator.normal(1, 1, 60), generator.normal(0, 1, 60))
        covered += score.low <= 0.7602 <= score.high
    assert 0.93 <= covered / 1000 <= 0.97


def sampled_confidences(seed: int, *, lift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Six prompts; 14 and 12 names with a common part each; the last prompt lifts the inside names."""
    generator = np.random.default_rng(seed)
    inside = generator.normal(0.5, 1, (6, 14)) + generator.normal(0, 1, 14)
    outside = generator.normal(0, 1, (6, 12)) + generator.normal(0, 1, 12)
    inside[-1] += lift
    return inside, outside


def q_of(inside: np.ndarray, outside: np.ndarray) -> tuple[float, float]:
    """Return Cochran's Q of the prompts over all pairs and its p. inside: [prompts, n]; outside: [prompts, m]."""
    wins = [score_pairs(*sides).wins for sides in zip(inside, outside, strict=True)]
    return cochran_q(count_votes(inside, outside), wins)


def test_q_equals_its_definition():
    from scipy.stats import chi2

    inside, outside = sampled_confidences(1)
    is_won = (inside[:, :, None] > outside[:, None, :]).reshape(6, -1)  # [prompts, pairs]
    wins, votes = is_won.sum(axis=1), is_won.sum(axis=0)
    expected = 6 * 5 * ((wins - wins.mean()) ** 2).sum() / (votes * (6 - votes)).sum()
    assert q_of(inside, outside) == (pytest.approx(expected), pytest.approx(chi2.sf(expected, 5)))


def test_q_of_two_prompts_is_mcnemars():
    inside, outside = (side[:2] for side in sampled_confidences(2))
    first, second = inside[:, :, None] > outside[:, None, :]
    only_first, only_second = (first & ~second).sum(), (second & ~first).sum()
    assert q_of(inside, outside)[0] == pytest.approx((only_first - only_second) ** 2 / (only_first + only_second))


def test_equal_prompts_have_no_q():
    same = np.tile(np.arange(5.0), (3, 1))
    assert np.isnan(q_of(same, same - 0.5)[1])


def test_the_bootstrap_keeps_its_level_and_cochrans_q_does_not():
    samples = [sampled_confidences(seed) for seed in range(200)]
    assert np.mean([spread_over_names(*sample, seed=0)[1] < 0.05 for sample in samples[:100]]) < 0.16
    assert np.mean([q_of(*sample)[1] < 0.05 for sample in samples]) > 0.3


def test_the_bootstrap_detects_a_better_prompt():
    lead, p = spread_over_names(*sampled_confidences(3, lift=3.0), seed=0)
    assert p < 0.01
    assert 0 < lead.low < lead.value < lead.high


def test_the_rank_correlation_of_equal_orders_is_one():
    assert rank_correlation(np.array([0.5, 0.6, 0.9]), np.array([0.1, 0.2, 0.3]))[0] == pytest.approx(1.0)
    assert np.isnan(rank_correlation(np.array([0.5]), np.array([0.1]))[0])


def test_correlations_with_properties_equal_their_definitions():
    m_mem, kinds = np.array([0.5, 0.8, 0.6, 0.9, 0.55]), ["a", "b", "a", "b", "c"]
    lengths = np.array([3, 7, 4, 7, 9])
    measured = dict(property_correlations(kinds, {"length": lengths, "position": np.ones(5, int)}, m_mem))
    ranks = np.array([1, 3.5, 2, 3.5, 5]), np.array([1, 4, 3, 5, 2])
    assert measured["length, Pearson's r"] == pytest.approx(np.corrcoef(lengths, m_mem)[0, 1])
    assert measured["length, Spearman's ρ"] == pytest.approx(np.corrcoef(*ranks)[0, 1])
    assert np.isnan(measured["position, Pearson's r"])
    mean = m_mem.mean()
    between = 2 * (0.55 - mean) ** 2 + 2 * (0.85 - mean) ** 2 + (0.55 - mean) ** 2
    assert measured["type, η"] == pytest.approx((between / ((m_mem - mean) ** 2).sum()) ** 0.5)
    assert np.isnan(correlation_ratio(["a", "b", "b"], np.full(3, 0.1)))


def test_groups_come_in_order_with_their_means():
    means = means_by_group([10, 2, 10], np.array([0.5, 0.7, 0.9]))
    assert list(means) == [2, 10]
    assert (means[2].value, means[2].of) == (0.7, 1) and np.isnan(means[2].low)
    assert means[10].of == 2 and means[10].value == pytest.approx(0.7)
    assert means[10].low < 0.7 < means[10].high
