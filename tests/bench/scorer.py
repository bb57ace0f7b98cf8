"""Compare the time of scoring with a plain loop over csv rows like the organizers': `python -m tests.bench.scorer`."""

import csv
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.intervals import recall_interval
from harness.core.scoring import correct_rows, recall_at_errors, solved_curve
from harness.core.submission import write_submission
from harness.core.submission_reader import SubmissionRules, read_submission
from tests.bench.measuring import in_turns, median_seconds, print_measured

ROWS, EXAMPLES, LENGTH, VOCABULARY, CAP, REPEATS = 100_000, 1000, 50, 50257, 100, 5


def measure() -> dict[str, Any]:
    """Return median seconds, and the time relative to the loop."""
    generator = np.random.default_rng(1)
    answers = generator.integers(0, VOCABULARY, (EXAMPLES, LENGTH)).astype(np.uint16)
    ids = generator.integers(0, EXAMPLES, ROWS)
    suffixes = generator.integers(0, VOCABULARY, (ROWS, LENGTH)).astype(np.uint16)
    # A third of the rows are correct, as in a good attack.
    is_correct = generator.random(ROWS) < 1 / 3
    suffixes[is_correct] = answers[ids[is_correct]]
    rules = SubmissionRules(EXAMPLES, LENGTH, VOCABULARY)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "submission.csv"
        write_submission(path, ids, suffixes)
        taken = in_turns(
            {
                "ours": lambda turn: _score(path, rules, answers),
                "loop": lambda turn: _score_row_by_row(path, answers),
                "alone": lambda turn: _score_known_rows(is_correct, ids),
                "interval": lambda turn: recall_interval(is_correct, ids, cap=CAP, examples=EXAMPLES),
            },
            REPEATS,
        )
    assert taken["ours"][0].result == taken["loop"][0].result
    seconds = {name: median_seconds(times) for name, times in taken.items()}
    return {
        "rows": ROWS,
        "read_and_score_s": seconds["ours"],
        "csv_loop_s": seconds["loop"],
        "relative_time": seconds["ours"] / seconds["loop"],
        "score_alone_s": seconds["alone"],
        "interval_s": seconds["interval"],
    }


def _score(path: Path, rules: SubmissionRules, answers: Any) -> float:
    rows = read_submission(path, rules)
    is_correct = correct_rows(rows.ids, rows.suffixes, answers)
    return recall_at_errors(is_correct, rows.ids, cap=CAP, examples=EXAMPLES)


def _score_known_rows(is_correct: Any, ids: Any) -> None:
    recall_at_errors(is_correct, ids, cap=CAP, examples=EXAMPLES)
    solved_curve(is_correct, ids)


def _score_row_by_row(path: Path, answers: Any) -> float:
    """Return the recall as a direct implementation of the rules computes it, one row at a time."""
    solved = np.zeros(len(answers))
    errors = 0
    recall = 0.0
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            example = int(row["Example ID"])
            guess = np.array(list(map(int, row["Suffix Guess"][1:-1].split(","))))
            if not np.all(answers[example] == guess):
                errors += 1
                continue
            solved[example] = 1
            if errors < CAP:
                recall = float(np.mean(solved))
    return recall


if __name__ == "__main__":
    print_measured(measure)
