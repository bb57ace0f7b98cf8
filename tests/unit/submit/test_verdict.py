"""Laws of the comparison of two submissions."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.submission_reader import SubmissionRows
from harness.submit.verdict import Agreement, Likeness, compare_submissions

Row = tuple[int, int, int]
row = st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 65535))
rows = st.lists(row, max_size=12)
scores = st.sampled_from([0.0, 0.5, 1.0, -np.inf, np.inf])


def _submission(of: list[Row]) -> SubmissionRows:
    table = np.array(of, np.int64).reshape(len(of), 3)
    return SubmissionRows(table[:, 0], table[:, 1:].astype(np.uint16))


def _agree(submitted: list[Row], produced: list[Row], its_scores: list[float] | None = None) -> Agreement:
    found = None if its_scores is None else np.array(its_scores, np.float64)
    return compare_submissions(_submission(submitted), _submission(produced), found)


@given(rows, rows)
@settings(deadline=None)
def test_submissions_are_identical_exactly_if_they_are_equal(one: list[Row], other: list[Row]) -> None:
    assert (_agree(one, other).likeness is Likeness.IDENTICAL) is (one == other)
    assert _agree(one, one).likeness is Likeness.IDENTICAL
    assert _agree(one, one).first_difference is None


@given(rows, rows)
@settings(deadline=None)
def test_common_and_other_rows_add_up(one: list[Row], other: list[Row]) -> None:
    found = _agree(one, other)
    in_both = sum((Counter(one) & Counter(other)).values())
    assert (found.rows_submitted, found.rows_produced) == (len(one), len(other))
    assert found.only_submitted == len(one) - in_both and found.only_produced == len(other) - in_both
    assert 0 <= found.elsewhere <= in_both
    back = _agree(other, one)
    assert (back.only_submitted, back.only_produced, back.elsewhere) == (
        found.only_produced,
        found.only_submitted,
        found.elsewhere,
    )


@given(rows, rows)
@settings(deadline=None)
def test_the_first_difference_is_found(one: list[Row], other: list[Row]) -> None:
    first = _agree(one, other).first_difference
    if first is not None:
        assert one[: first - 1] == other[: first - 1]
        assert one[first - 1 : first] != other[first - 1 : first]


@given(st.lists(st.tuples(row, scores), max_size=12), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_rows_that_move_among_equal_scores_are_ties(pairs, random) -> None:
    # Distinct rows: a row that comes twice may stand anywhere between its scores.
    produced = sorted({pair[0]: pair for pair in pairs}.values(), key=lambda pair: -pair[1])
    shuffled = produced[:]
    random.shuffle(shuffled)
    shuffled.sort(key=lambda pair: -pair[1])
    found = _agree([pair[0] for pair in shuffled], [pair[0] for pair in produced], [pair[1] for pair in produced])
    assert found.likeness is (Likeness.IDENTICAL if shuffled == produced else Likeness.TIES)


@given(st.lists(row, min_size=2, max_size=8, unique=True), st.data())
@settings(deadline=None)
def test_rows_that_move_across_scores_are_different(produced: list[Row], data: st.DataObject) -> None:
    first, second = sorted(data.draw(st.sets(st.integers(0, len(produced) - 1), min_size=2, max_size=2)))
    moved = produced[:]
    moved[first], moved[second] = moved[second], moved[first]
    falling = [float(-place) for place in range(len(produced))]
    assert _agree(moved, produced, falling).likeness is Likeness.DIFFERENT


@pytest.mark.parametrize("its_scores", [None, [float("nan"), 0.0]], ids=["none", "nan"])
def test_without_valid_scores_a_moved_row_is_different(its_scores: list[float] | None) -> None:
    found = _agree([(0, 1, 1), (1, 1, 1)], [(1, 1, 1), (0, 1, 1)], its_scores)
    assert found.likeness is Likeness.DIFFERENT and found.elsewhere == 2


def test_token_width_does_not_matter() -> None:
    one, other = _submission([(0, 5, 7)]), _submission([(0, 5, 7)])
    assert (
        compare_submissions(one, SubmissionRows(other.ids, other.suffixes.astype(np.uint32)), None).likeness
        is Likeness.IDENTICAL
    )


def test_each_likeness_has_a_summary() -> None:
    one, other = (0, 1, 1), (1, 1, 1)
    assert _agree([one], [one]).summary == "all 1 rows are equal and in the same order"
    assert _agree([one, other], [other, one], [1, 1]).summary.endswith("2 moved among rows with equal scores")
    words = _agree([one, other], [one], [1]).summary
    assert words.startswith(
        "the submissions differ from row 2 on: 1 of 2 submitted rows were not produced, 0 of 1 produced"
    )
