"""M-MEM by ranks equals M-MEM by pairs; ties, intervals and the standard error of chance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.audits.entities.ranking import chance_error, count_votes, majority_vote, placements, score_pairs

# Few distinct values, so that ties are common.
confidences = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 1.0]) | st.floats(0, 1), min_size=1, max_size=30)


@given(confidences, confidences)
def test_scores_by_ranks_equal_scores_by_pairs(inside, outside):
    inside, outside = np.array(inside), np.array(outside)
    found = score_pairs(inside, outside)
    assert found.wins == sum(one > other for one in inside for other in outside)
    assert found.ties == sum(one == other for one in inside for other in outside)
    assert found.pairs == len(inside) * len(outside)


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
    counters = count_votes(zip(of_inside, of_outside, strict=True), inside, outside)
    wins = np.array(
        [
            [sum(row[i] > other[j] for row, other in zip(of_inside, of_outside, strict=True)) for j in range(outside)]
            for i in range(inside)
        ]
    )
    assert counters.dtype == np.uint16
    assert (counters == wins).all()
    found = majority_vote(counters, prompts)
    assert found.wins == (wins > prompts / 2).sum()
    assert found.ties == (wins == prompts / 2).sum()


def test_ties_are_not_wins():
    found = score_pairs(np.array([0.5, 0.5]), np.array([0.5, 0.25]))
    assert (found.wins, found.ties, found.pairs, found.m_mem) == (2, 2, 4, 0.5)


def test_a_name_without_a_confidence_is_in_no_pair():
    found = score_pairs(np.array([0.9, np.nan]), np.array([0.1, np.nan, 0.95]))
    assert (found.wins, found.pairs) == (1, 2)
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
        found = score_pairs(generator.normal(1, 1, 60), generator.normal(0, 1, 60))
        covered += found.low <= 0.7602 <= found.high
    assert 0.93 <= covered / 1000 <= 0.97
