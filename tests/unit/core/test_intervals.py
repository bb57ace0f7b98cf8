"""Bootstrap intervals, compared with a slow implementation that copies the rows of each replicate."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core import intervals
from harness.core.intervals import JudgedRows, Unit, recall_interval, wilson
from harness.core.multiple_comparisons import paired_difference

EXAMPLES = 5
ROWS = st.lists(st.tuples(st.integers(0, EXAMPLES - 1), st.booleans()), max_size=25)
CLUSTERS = st.none() | st.lists(st.integers(0, 3), min_size=EXAMPLES, max_size=EXAMPLES).map(np.array)


def columns(rows):
    return np.array([is_right for _, is_right in rows], np.bool_), np.array([example for example, _ in rows], np.int64)


def recall_of_copies(rows, weights, cap):
    """Return the recall of one replicate, in which each row occurs as often as its example was drawn."""
    allowed = Fraction(cap * sum(weights), len(weights))
    solved, errors = set(), 0
    for example, is_right in rows:
        for copy in range(weights[example]):
            if not is_right:
                errors += 1
            elif errors < allowed:
                solved.add((example, copy))
    return len(solved) / sum(weights)


@given(ROWS, CLUSTERS, st.integers(1, 8))
@settings(deadline=None)
def test_a_replicate_equals_a_walk_over_copied_rows(rows, clusters, cap):
    sample = intervals._Sample.of(EXAMPLES, clusters)
    (recalls,) = intervals._replicated_recalls([JudgedRows(*columns(rows))], sample, cap, 20)
    weights = np.concatenate(list(sample.weights(20)))
    assert recalls.tolist() == pytest.approx([recall_of_copies(rows, list(map(int, drawn)), cap) for drawn in weights])


@given(ROWS, st.integers(1, 8), st.integers(1, 4), st.integers(1, 300))
@settings(deadline=None)
def test_block_sizes_do_not_change_the_interval(rows, cap, chunk, block):
    before = recall_interval(*columns(rows), cap=cap, examples=EXAMPLES, replicates=60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "_CHUNK", chunk)
        patch.setattr(intervals, "_BLOCK_WEIGHTS", block)
        assert recall_interval(*columns(rows), cap=cap, examples=EXAMPLES, replicates=60) == before


def test_the_examples_of_a_cluster_are_drawn_together():
    clusters = np.array([4, 9, 4, 9, 9])
    weights = np.concatenate(list(intervals._Sample.of(5, clusters).weights(50)))
    assert (weights[:, 0] == weights[:, 2]).all()
    assert (weights[:, 1] == weights[:, 4]).all()
    assert (weights[:, 0] + weights[:, 1] == 2).all()


def half_right(examples, seed=3):
    generator = np.random.default_rng(seed)
    return generator.random(examples) < 0.5, generator.permutation(examples)


def test_without_a_cap_the_interval_is_near_wilson():
    is_correct, ids = half_right(1000)
    low, high, unit = recall_interval(is_correct, ids, cap=10_000, examples=1000)
    assert (low, high) == pytest.approx(wilson(is_correct.mean(), 1000), abs=0.004)
    assert unit is Unit.EXAMPLE


def test_correlated_examples_widen_the_interval():
    is_correct = np.repeat(half_right(100)[0], 10)
    clusters = np.repeat(np.arange(100), 10)
    by_example = recall_interval(is_correct, np.arange(1000), cap=10_000, examples=1000)
    by_cluster = recall_interval(is_correct, np.arange(1000), cap=10_000, examples=1000, clusters=clusters)
    assert by_cluster.unit is Unit.CLUSTER
    assert by_cluster.high - by_cluster.low == pytest.approx(np.sqrt(10) * (by_example.high - by_example.low), rel=0.15)


def test_wilson_intervals_match_textbook_values():
    assert wilson(0.0, 10) == pytest.approx((0, 0.27753), abs=1e-5)
    assert wilson(0.3, 10) == pytest.approx((0.10779, 0.60322), abs=1e-5)
    assert wilson(1.0, 10) == pytest.approx((0.72247, 1), abs=1e-5)


@pytest.mark.parametrize("is_right", [True, False])
def test_if_all_replicates_agree_the_interval_is_wilson(is_right):
    is_correct = np.full(50, is_right)
    interval = recall_interval(is_correct, np.arange(50), cap=100, examples=50)
    assert interval[:2] == wilson(float(is_right), 50)
    clusters = np.arange(50) // 5
    assert recall_interval(is_correct, np.arange(50), cap=100, examples=50, clusters=clusters)[:2] == wilson(
        is_right, 10
    )


def test_a_difference_is_antisymmetric():
    is_correct, ids = half_right(300)
    better = JudgedRows(is_correct | (np.arange(300) % 4 == 0), ids)
    worse = JudgedRows(is_correct, ids)
    forward = paired_difference(better, worse, cap=60, examples=300)
    backward = paired_difference(worse, better, cap=60, examples=300)
    assert forward.difference > 0
    assert forward.interval.low > 0
    assert backward.difference == -forward.difference
    assert backward.interval[:2] == pytest.approx((-forward.interval.high, -forward.interval.low))


def test_a_paired_interval_is_narrower_than_a_single_one():
    is_correct, ids = half_right(600)
    changed = is_correct.copy()
    changed[:6] = ~changed[:6]
    paired = paired_difference(JudgedRows(changed, ids), JudgedRows(is_correct, ids), cap=1000, examples=600).interval
    alone = recall_interval(is_correct, ids, cap=1000, examples=600)
    assert paired.high - paired.low < (alone.high - alone.low) / 3


def test_two_results_without_hits_have_an_interval_around_zero():
    walk = JudgedRows(np.zeros(50, np.bool_), np.arange(50))
    difference, interval, _ = paired_difference(walk, walk, cap=10, examples=50)
    assert difference == 0
    assert interval.low == pytest.approx(-interval.high)
    assert interval.high == pytest.approx(wilson(0, 50)[1])
