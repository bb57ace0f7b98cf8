"""The live score equals the score of a submission of all guesses."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.guesses import Guesses
from harness.core.live_score import Figures, LiveScore
from harness.core.scoring import correct_rows, recall_at_errors, solved_curve
from harness.core.submission import submission_order

EXAMPLES, CAP = 6, 3
ANSWERS = np.tile(np.array([[1, 0]], np.uint16), (EXAMPLES, 1))
INFINITY = float("inf")


class Row(NamedTuple):
    example: int
    suffix: tuple[int, int]
    score: float


rows = st.builds(
    Row,
    st.integers(0, EXAMPLES - 1),
    st.tuples(st.integers(0, 2), st.integers(0, 1)),
    st.sampled_from([-INFINITY, -2.5, 0.0, 0.5, 1.0, INFINITY]),
)
chunked = st.lists(st.lists(rows, max_size=8), max_size=6)
limits = st.tuples(st.sampled_from([0, 1, 3]), st.sampled_from([1, 2, 5, 1000]))


def guesses_of(all_rows: list[Row]) -> Guesses:
    ids = np.array([row.example for row in all_rows], np.int64)
    suffixes = np.array([row.suffix for row in all_rows], np.uint16).reshape(-1, 2)
    return Guesses(ids, suffixes, np.array([row.score for row in all_rows], np.float64))


def live_score(per_example: int, row_cap: int, *, is_blind: bool = False) -> LiveScore:
    answers = None if is_blind else ANSWERS
    return LiveScore(answers, examples=EXAMPLES, error_cap=CAP, row_cap=row_cap, per_example=per_example)


def live_score_of(chunks: list[list[Row]], per_example: int, row_cap: int) -> LiveScore:
    live = live_score(per_example, row_cap)
    for chunk in chunks:
        live.add(guesses_of(chunk))
    return live


def submitted(all_rows: list[Row], per_example: int, row_cap: int) -> Guesses:
    guesses = guesses_of(all_rows)
    return guesses.part(
        submission_order(guesses.ids, guesses.suffixes, guesses.score, per_example=per_example, row_cap=row_cap)
    )


def without_lowered_scores(chunks: list[list[Row]]) -> list[list[Row]]:
    """Return the chunks with scores raised so that no (example, suffix) gets a lower score later."""
    highest: dict[tuple[int, tuple[int, int]], float] = {}
    raised = []
    for chunk in chunks:
        raised.append([])
        for row in chunk:
            key = (row.example, row.suffix)
            highest[key] = max(row.score, highest.get(key, -INFINITY))
            raised[-1].append(row._replace(score=highest[key]))
    return raised


def assert_is_score_of(figures: Figures, all_rows: list[Row], submission: Guesses) -> None:
    guesses = guesses_of(all_rows)
    is_correct = correct_rows(submission.ids, submission.suffixes, ANSWERS)
    guessed, first = np.unique(submission.ids, return_index=True)
    is_right = correct_rows(guesses.ids, guesses.suffixes, ANSWERS)
    recall = recall_at_errors(is_correct, submission.ids, cap=CAP, examples=EXAMPLES)
    assert figures.recall_at_cap == pytest.approx(recall)
    assert figures.exact_at_1 == pytest.approx(is_correct[first].sum() / EXAMPLES)
    assert figures.any_guess_correct == pytest.approx(len(np.unique(guesses.ids[is_right])) / EXAMPLES)
    assert (figures.guessed, figures.rows) == (len(guessed), len(submission))
    if len(submission):
        assert figures.errors is not None and figures.recall is not None
        assert figures.recall == pytest.approx(solved_curve(is_correct, submission.ids)[figures.errors - 1] / EXAMPLES)


@given(chunked, limits)
def test_chunks_of_guesses_score_like_all_guesses_at_once(chunks: list[list[Row]], limits: tuple[int, int]) -> None:
    chunks = without_lowered_scores(chunks)
    everything = [row for chunk in chunks for row in chunk]
    live = live_score_of(chunks, *limits)
    assert not live.is_stale
    assert_is_score_of(live.figures(), everything, submitted(everything, *limits))


@given(chunked, limits)
def test_figures_are_exact_or_stale_until_they_are_replaced(chunks: list[list[Row]], limits: tuple[int, int]) -> None:
    everything = [row for chunk in chunks for row in chunk]
    exact = submitted(everything, *limits)
    live = live_score_of(chunks, *limits)
    if live.is_stale:
        live.replace(guesses_of(everything))
        assert not live.is_stale
    assert_is_score_of(live.figures(), everything, exact)


@given(chunked, chunked, limits)
def test_guesses_after_a_replacement_are_merged_by_score(
    before: list[list[Row]], after: list[list[Row]], limits: tuple[int, int]
) -> None:
    everything = [row for chunk in before for row in chunk]
    live = live_score_of(before, *limits)
    live.replace(guesses_of(everything))
    for chunk in after:
        live.add(guesses_of(chunk))
        everything += chunk
    if not live.is_stale:
        assert_is_score_of(live.figures(), everything, submitted(everything, *limits))


def test_a_lower_score_for_a_submitted_guess_makes_the_figures_stale() -> None:
    live = live_score_of([[Row(0, (1, 0), 1.0)], [Row(0, (2, 0), 0.5)]], 1, 10)
    assert not live.is_stale
    live.add(guesses_of([Row(0, (1, 0), 0.0)]))
    assert live.is_stale


def test_an_equal_score_does_not_make_the_figures_stale() -> None:
    assert not live_score_of([[Row(0, (1, 0), 1.0)], [Row(0, (1, 0), 1.0)]], 1, 10).is_stale


@given(chunked, limits)
def test_memory_is_bounded_by_the_submission(chunks: list[list[Row]], limits: tuple[int, int]) -> None:
    live = live_score_of(chunks, *limits)
    live.figures()
    sizes = [len(value) for value in vars(live).values() if isinstance(value, np.ndarray | Guesses | list | dict)]
    assert max(sizes) <= max(limits[1], EXAMPLES)


def test_guesses_after_a_final_order_do_not_change_the_score() -> None:
    all_rows = [Row(0, (1, 0), 9.0), Row(1, (2, 0), 5.0), Row(2, (2, 0), 4.0), Row(3, (2, 0), 3.0)]
    live = live_score_of([all_rows], 1, 10)
    assert live.figures().recall_at_cap == pytest.approx(1 / EXAMPLES)
    reordered = guesses_of(all_rows[::-1])
    live.set_final(Guesses(reordered.ids, reordered.suffixes, np.zeros(len(reordered))))
    figures = live.figures()
    assert figures.recall_at_cap == 0.0 and figures.rows == 4
    live.add(guesses_of([Row(4, (1, 0), 8.0)]))
    assert live.figures().recall_at_cap == 0.0
    assert live.point() == (4, 0, 3, 0.0)


@given(chunked, limits)
def test_a_blind_round_has_only_counts(chunks: list[list[Row]], limits: tuple[int, int]) -> None:
    live = live_score(*limits, is_blind=True)
    for chunk in without_lowered_scores(chunks):
        live.add(guesses_of(chunk))
    everything = [row for chunk in without_lowered_scores(chunks) for row in chunk]
    figures = live.figures()
    assert (figures.errors, figures.recall, figures.recall_at_cap, figures.exact_at_1, figures.any_guess_correct) == (
        None,
    ) * 5
    assert figures.rows == len(submitted(everything, *limits))


def test_a_thinned_curve_keeps_both_ends() -> None:
    live = LiveScore(ANSWERS, examples=EXAMPLES, error_cap=CAP, row_cap=5000, per_example=0)
    suffixes = np.stack([np.arange(3000) + 2, np.zeros(3000, np.int64)], axis=1).astype(np.uint16)
    live.add(Guesses(np.zeros(3000, np.int64), suffixes, np.zeros(3000)))
    figures = live.figures()
    assert figures.errors is not None and len(figures.errors) <= 160
    assert (figures.errors[0], figures.errors[-1]) == (1, 3001)


def test_guesses_that_became_void_solve_nothing() -> None:
    right, wrong = Row(0, (1, 0), 1.0), Row(1, (0, 0), 0.5)
    live = live_score_of([[right], [wrong]], 1, 1000)
    live.void()
    live.replace(guesses_of([wrong]))
    assert live.figures().any_guess_correct == 0
    live.add(guesses_of([Row(2, (1, 0), 0.1)]))
    assert live.figures().any_guess_correct == 1 / EXAMPLES
