"""One example of a run: every candidate that counts, best first, and whether it is correct."""

from pathlib import Path

import pytest

from harness.analysis.candidates import load_example
from harness.core.errors import HarnessError
from tests.records import EXAMPLES, recorded_run


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
    assert example.as_json()["candidates"][0]["score"] == "inf"


def test_an_example_without_a_guess_has_no_candidates(home: Path) -> None:
    assert load_example(recorded_run(home).folder, 1).candidates == ()


@pytest.mark.parametrize("id_", [-1, EXAMPLES])
def test_an_unknown_example_is_refused(home: Path, id_: int) -> None:
    with pytest.raises(HarnessError, match="0 to 15"):
        load_example(recorded_run(home).folder, id_)
