"""Submissions compared on a round and on parts of it, and McNemar's test against its definition."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analysis.parts import Part, contrast, curve_band, mcnemar_exact
from harness.core.intervals import JudgedRows
from harness.core.scoring import recall_at_errors, score_rows, solved_curve

EXAMPLES = 6
WALKS = st.lists(st.tuples(st.integers(0, EXAMPLES - 1), st.booleans()), max_size=25).map(
    lambda rows: JudgedRows(
        np.array([right for _, right in rows], np.bool_), np.array([example for example, _ in rows], np.int64)
    )
)
CAPS = st.integers(1, 8)
CLUSTERS = st.none() | st.lists(st.integers(0, 3), min_size=EXAMPLES, max_size=EXAMPLES).map(np.array)
SOME = st.lists(st.booleans(), min_size=EXAMPLES, max_size=EXAMPLES).map(np.array).filter(np.any)
COUNTS = st.integers(0, 40)


@given(COUNTS, COUNTS)
@settings(deadline=None)  # the first example imports scipy
def test_mcnemar_p_is_the_probability_of_a_split_as_uneven(only_first, only_second):
    n, gap = only_first + only_second, abs(only_first - only_second)
    as_uneven = sum(comb(n, k) for k in range(n + 1) if abs(n - 2 * k) >= gap)
    assert mcnemar_exact(only_first, only_second) == pytest.approx(float(Fraction(as_uneven, 2**n)))


def test_mcnemar_p_holds_for_thousands_of_examples():
    assert mcnemar_exact(5000, 5200) == pytest.approx(0.0487, abs=2e-4)
    assert mcnemar_exact(0, 5000) == pytest.approx(0.0)


@given(WALKS, CAPS)
def test_recall_is_the_share_of_solved_examples(walk, cap):
    recall = Part.whole(EXAMPLES, cap=cap).solved_examples(walk).sum() / EXAMPLES
    assert recall == recall_at_errors(*walk, cap=cap, examples=EXAMPLES)


@given(WALKS, WALKS, CAPS, CLUSTERS)
@settings(deadline=None, max_examples=10)
def test_a_part_with_every_example_equals_the_whole(first, second, cap, clusters):
    whole = Part.whole(EXAMPLES, cap=cap, clusters=clusters)
    part = whole.where(np.ones(EXAMPLES, np.bool_))
    assert part.cap == cap
    assert part.score(first).as_json() == whole.score(first).as_json()
    assert contrast(first, second, part).as_json() == contrast(first, second, whole).as_json()
    whole_score = score_rows(*first, cap=cap, examples=EXAMPLES, clusters=clusters)
    assert whole.score(first).as_json() == whole_score.as_json()


@given(WALKS, CAPS, SOME)
@settings(deadline=None, max_examples=30)
def test_a_part_ignores_the_rows_of_other_examples(walk, cap, is_member):
    part = Part.whole(EXAMPLES, cap=cap).where(is_member)
    solved, errors = set(), 0
    for right, example in zip(*walk, strict=True):
        if is_member[example] and right and errors < part.cap:
            solved.add(int(example))
        errors += int(is_member[example] and not right)
    assert part.ids[part.solved_examples(walk)].tolist() == sorted(solved)
    assert part.score(walk).solved == len(solved)


@given(WALKS, WALKS, CAPS, SOME, CLUSTERS)
@settings(deadline=None, max_examples=10)
def test_swapping_the_submissions_negates_the_contrast(first, second, cap, is_member, clusters):
    part = Part.whole(EXAMPLES, cap=cap, clusters=clusters).where(is_member)
    forth, back = contrast(first, second, part), contrast(second, first, part)
    assert forth.difference.difference == -back.difference.difference
    assert forth.only_first.tolist() == back.only_second.tolist()
    assert forth.only_second.tolist() == back.only_first.tolist()
    assert forth.mcnemar_p == back.mcnemar_p
    more = len(forth.only_first) - len(forth.only_second)
    assert forth.difference.difference == pytest.approx(more / len(part))


def test_a_part_scales_the_cap_but_not_below_1():
    whole = Part.whole(1000, cap=100, clusters=np.arange(1000) // 2)
    part = whole.where(np.arange(1000) % 3 == 1)
    assert (len(part), part.cap, part.ids[:3].tolist()) == (333, 33, [1, 4, 7])
    assert part.clusters[:3].tolist() == [0, 2, 3]
    assert whole.where(np.arange(1000) < 3).cap == 1


def test_an_example_solved_after_the_cap_is_not_solved():
    late = JudgedRows(np.array([False, False, True]), np.array([0, 1, 3]))
    early = JudgedRows(np.array([True, False, False]), np.array([3, 0, 1]))
    result = contrast(early, late, Part.whole(4, cap=2))
    assert (result.only_first.tolist(), result.only_second.tolist()) == ([3], [])
    assert result.difference.difference == 0.25


@given(st.lists(st.booleans(), min_size=20, max_size=60), st.integers(1, 30))
@settings(max_examples=20)
def test_the_bounds_of_a_curve_are_ordered_fractions_and_the_cap_has_one(verdicts, cap):
    rows = JudgedRows(np.array(verdicts, np.bool_), np.arange(len(verdicts)))
    band = curve_band(rows, Part.whole(len(verdicts), cap=cap))
    assert (np.diff(band.errors) > 0).all()
    assert min(cap, verdicts.count(False) + 1) in band.errors
    assert ((band.low >= 0) & (band.low <= band.high) & (band.high <= 1)).all()


def test_the_band_surrounds_the_curve():
    rows = JudgedRows(np.array([True, True, False] * 40), np.arange(120))
    band = curve_band(rows, Part.whole(120, cap=20))
    recall = solved_curve(*rows)[band.errors - 1] / 120
    middle = (band.errors > 2) & (band.errors < 40)
    assert ((band.low <= recall) & (recall <= band.high))[middle].all()
