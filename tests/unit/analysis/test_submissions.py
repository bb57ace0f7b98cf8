"""Which rows of a file of answers a submission is scored against."""

from pathlib import Path

import numpy as np
import pytest

from harness.analysis.submissions import AnsweredSubmission, find_submission
from harness.core.submission import write_submission

ANSWERS = np.arange(1500, dtype=np.uint16)[:, None]


def answered(folder: Path, ids: list[int], answers: np.ndarray, *, last: int | None = None) -> AnsweredSubmission:
    """Return the submission whose suffix for each id is that of the last 1,000 answers."""
    np.save(folder / "answers.npy", answers)
    ids_ = np.array(ids)
    write_submission(folder / "guess.csv", ids_, ids_[:, None] + max(0, len(answers) - 1000))
    return find_submission(
        str(folder / "guess.csv"), answers=folder / "answers.npy", last=last, cap=None, round_name=None
    )


def test_ids_of_the_challenge_count_from_the_last_thousand_answers(tmp_path: Path) -> None:
    submission = answered(tmp_path, [0, 5, 999], ANSWERS)
    assert submission.score().solved == 3 and submission.score().examples == 1000
    assert submission.note.startswith("Scored against the last 1,000 of 1,500 answers, as the official scorer does")
    assert "Use --last 1500 to count" in submission.note


@pytest.mark.parametrize(
    ("ids", "answers", "last", "examples"),
    [([0, 1000], ANSWERS, None, 1500), ([0, 5], ANSWERS, 1500, 1500), ([0, 5], ANSWERS[:900], None, 900)],
    ids=["an id beyond the challenge", "as asked", "few answers"],
)
def test_other_ids_count_from_the_first_answer(
    tmp_path: Path, ids: list[int], answers: np.ndarray, last: int | None, examples: int
) -> None:
    submission = answered(tmp_path, ids, answers, last=last)
    assert not submission.note and len(submission.answers) == examples
    assert (submission.answers == answers).all()
