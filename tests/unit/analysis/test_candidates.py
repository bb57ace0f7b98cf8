"""One example of a run: every candidate that counts, best first, and whether it is correct."""

from pathlib import Path

import pytest

from harness.analysis.candidates import load_example, right_guess_of
from harness.core.errors import HarnessError
from harness.core.text import json_value
from tests.records import EXAMPLES, change_spec, recorded_run


def test_candidates_are_listed_best_first_with_last_score_and_count(home: Path) -> None:
    run = recorded_run(home)
    run.guess(run.batch("a"), [(3, False, 0.9), (3, True, 0.1), (4, True, 0.5), (3, True, 0.2)])
    example = load_example(run.folder, 3)
    assert [(c.is_right, c.score, c.times) for c in example.candidates] == [(False, 0.9, 1), (True, 0.2, 2)]
    assert example.answer is not None and (example.candidates[1].suffix == example.answer).all()


def test_void_guesses_of_a_repeated_batch_are_no_candidates(home: Path) -> None:
    run = recorded_run(home)
    run.guess(run.batch("a"), [(3, False, 0.9)])
    run.guess(run.batch("a"), [(3, True, 0.1)])
    assert [c.is_right for c in load_example(run.folder, 3).candidates] == [True]


def test_candidates_of_a_blind_round_have_no_verdict(home: Path) -> None:
    run = recorded_run(home, is_blind=True)
    run.guess(run.batch("a"), [(0, True, float("inf"))])
    example = load_example(run.folder, 0)
    assert example.answer is None and [c.is_right for c in example.candidates] == [None]
    assert json_value(example.as_json())["candidates"][0]["score"] == "Infinity"


def test_an_example_without_a_guess_has_no_candidates(home: Path) -> None:
    assert load_example(recorded_run(home).folder, 1).candidates == ()


@pytest.mark.parametrize("id_", [-1, EXAMPLES])
def test_an_unknown_example_is_refused(home: Path, id_: int) -> None:
    with pytest.raises(HarnessError, match="0 to 15"):
        load_example(recorded_run(home).folder, id_)


@pytest.mark.parametrize(
    ("guesses", "example", "words"),
    [
        ([(0, False, 0.9), (1, True, 0.8)], 1, "solved at row 2, after 1 error"),
        ([(0, False, 0.9), (1, False, 0.9), (2, False, 0.9), (5, True, 0.1)], 5, "row 4 is after 3 errors (cap 3)"),
        ([(0, True, 0.1), (0, False, 0.9)], 0, "not in the submission, which has 1 per example"),
        ([(0, False, 0.9)], 0, ""),
    ],
    ids=["before the cap", "after the cap", "replaced by a better one", "no right guess"],
)
def test_the_place_of_the_right_guess_is_told(
    home: Path, guesses: list[tuple[int, bool, float]], example: int, words: str
) -> None:
    run = recorded_run(home)
    change_spec(run.folder, round={"error_cap": 3})
    run.guess(run.batch("0"), guesses)
    told = right_guess_of(run.folder, load_example(run.folder, example))
    assert told.words.endswith(words) and bool(told.words) is bool(words)
    assert told.counts is words.startswith("solved")
