"""Scoring, compared with a literal implementation of the rules."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.scoring import correct_rows, recall_at_errors, scaled_cap, score_rows

EXAMPLES = 6
ROWS = st.lists(st.tuples(st.integers(0, EXAMPLES - 1), st.booleans()), max_size=40)
CAPS = st.integers(1, 12)


def columns(rows):
    ids = np.array([example for example, _ in rows], np.int64)
    is_correct = np.array([is_right for _, is_right in rows], np.bool_)
    return is_correct, ids


def scored_by_hand(rows, cap):
    """Return (solved examples, wrong rows read, rows read), following the rules row by row."""
    solved, errors = set(), 0
    for place, (example, is_right) in enumerate(rows):
        if is_right:
            solved.add(example)
        else:
            errors += 1
            if errors == cap:
                return len(solved), errors, place + 1
    return len(solved), errors, len(rows)


def official_recall(rows, cap):
    """Return the recall as the organizers' script computes it: the last mean before the `cap`-th error."""
    solved, errors, recall = [False] * EXAMPLES, 0, 0.0
    for example, is_right in rows:
        if is_right:
            solved[example] = True
            if errors < cap:
                recall = sum(solved) / EXAMPLES
        else:
            errors += 1
    return recall


@given(ROWS, CAPS)
def test_recall_equals_the_official_script(rows, cap):
    assert recall_at_errors(*columns(rows), cap=cap, examples=EXAMPLES) == pytest.approx(official_recall(rows, cap))


@given(ROWS, CAPS)
@settings(max_examples=40, deadline=None)  # each score draws 2,000 replicates
def test_a_score_equals_a_slow_implementation(rows, cap):
    score = score_rows(*columns(rows), cap=cap, examples=EXAMPLES)
    solved, wrong, read = scored_by_hand(rows, cap)
    assert (score.solved, score.wrong_rows_read, score.rows_read) == (solved, wrong, read)
    assert score.rows_ignored == len(rows) - read
    assert score.recall_at_cap == solved / EXAMPLES
    assert score.precision_at_cap == (solved / (solved + wrong) if rows else 0)


@given(ROWS, CAPS)
@settings(max_examples=40, deadline=None)  # each score draws 2,000 replicates
def test_each_point_of_the_curve_is_the_recall_at_that_cap(rows, errors):
    is_correct, ids = columns(rows)
    at = score_rows(is_correct, ids, cap=3, examples=EXAMPLES).at_errors(errors)
    solved, wrong, _ = scored_by_hand(rows, errors)
    assert at.recall == recall_at_errors(is_correct, ids, cap=errors, examples=EXAMPLES)
    assert at.precision == (solved / (solved + wrong) if rows else 0)


@given(ROWS)
@settings(max_examples=25, deadline=None)  # each score draws 2,000 replicates
def test_recall_and_precision_at_every_error_are_those_of_a_walk_that_ends_there(rows):
    score = score_rows(*columns(rows), cap=3, examples=EXAMPLES)
    curve = score.recall_curve()
    assert curve.errors.tolist() == list(range(1, 2 + sum(not is_right for _, is_right in rows)))
    for errors, recall, precision in zip(*curve, strict=True):
        solved, wrong, _ = scored_by_hand(rows, errors)
        assert (recall, precision) == (solved / EXAMPLES, solved / (solved + wrong) if rows else 0)
    assert curve.as_json()["precision"] == curve.precision.tolist()


@given(ROWS)
@settings(max_examples=25, deadline=None)  # each score draws 2,000 replicates
def test_precision_vs_recall_has_the_point_of_every_row(rows):
    recall, precision = score_rows(*columns(rows), cap=3, examples=EXAMPLES).precision_recall_curve()
    solved, wrong, walked = set(), 0, []
    for example, is_right in rows:
        if is_right and example in solved:
            continue
        solved |= {example} if is_right else set()
        wrong += not is_right
        walked.append((len(solved) / EXAMPLES, len(solved) / (len(solved) + wrong)))
    assert list(zip(recall.tolist(), precision.tolist(), strict=True)) == walked


def test_a_row_is_correct_only_if_every_token_is():
    answers = np.array([[1, 2], [3, 4]])
    suffixes = np.array([[1, 2], [3, 5], [3, 4], [1, 2]], np.uint16)
    assert correct_rows(np.array([0, 1, 1, 1]), suffixes, answers).tolist() == [True, False, True, False]


def test_a_scaled_cap_is_rounded_and_at_least_1():
    assert [scaled_cap(100, part, 1000) for part in (1000, 333, 16, 1, 0)] == [100, 33, 2, 1, 1]


def test_the_json_object_names_every_figure():
    figures = score_rows(*columns([(0, True), (1, False), (2, True)]), cap=1, examples=EXAMPLES).as_json()
    low, high = figures.pop("recall_interval")
    assert 0 <= low < 1 / EXAMPLES < high <= 1
    table = figures.pop("at_errors")
    assert [row["errors"] for row in table] == [1, 10, 50, 100, 1000]
    assert table[1] == {"errors": 10, "recall": 2 / EXAMPLES, "precision": 2 / 3}
    assert figures == {
        "recall_at_cap": 1 / EXAMPLES,
        "recall_interval_unit": "example",
        "precision_at_cap": 0.5,
        "error_cap": 1,
        "examples": EXAMPLES,
        "solved": 1,
        "rows": 3,
        "rows_read": 2,
        "rows_ignored": 1,
        "wrong_rows_read": 1,
    }
