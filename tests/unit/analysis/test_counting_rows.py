"""The right guess of an example, which counts in the submission or does not."""

from pathlib import Path

import pytest

from harness.analysis.candidates import load_example, right_guess_of
from tests.records import Recorded, change_spec, recorded_run


@pytest.fixture
def run(home: Path) -> Recorded:
    return recorded_run(home)


def words(run: Recorded, example: int) -> str:
    return right_guess_of(run.folder, load_example(run.folder, example)).words


def test_a_right_guess_before_the_cap_is_solved_at_its_row(run: Recorded) -> None:
    run.guess(run.batch("0"), [(0, False, 0.9), (1, True, 0.8)])
    assert words(run, 1) == "solved at row 2, after 1 errors"


def test_a_right_guess_behind_the_cap_does_not_count(run: Recorded) -> None:
    change_spec(run.folder, round={"error_cap": 3})
    run.guess(run.batch("0"), [*((example, False, 0.9) for example in range(3)), (5, True, 0.1)])
    assert "row 4 is after 3 errors (cap 3)" in words(run, 5)


def test_a_right_guess_that_a_better_one_replaced_is_not_in_the_submission(run: Recorded) -> None:
    run.guess(run.batch("0"), [(0, True, 0.1), (0, False, 0.9)])
    assert "not in the submission, which has 1 per example" in words(run, 0)


def test_an_example_without_a_right_guess_has_no_words(run: Recorded) -> None:
    run.guess(run.batch("0"), [(0, False, 0.9)])
    assert words(run, 0) == ""
