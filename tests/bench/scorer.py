"""Compare the time of scoring with a plain loop over csv rows like the organizers': `python -m tests.bench.scorer`."""

import csv
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.intervals import recall_interval
from harness.core.scoring import correct_rows, recall_at_errors, solved_curve
from harness.core.submission import write_submission
from harness.core.submission_reader import SubmissionRules, read_submission

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
        ours, loop = [], []
        for _ in range(REPEATS):
            our_recall, seconds = _timed(lambda: _score(path, rules, answers))
            ours.append(seconds)
            loop_recall, seconds = _timed(lambda: _score_row_by_row(path, answers))
            loop.append(seconds)
            assert our_recall == loop_recall
    alone = [_timed(lambda: _score_known_rows(is_correct, ids))[1] for _ in range(REPEATS)]
    interval = [_timed(lambda: recall_interval(is_correct, ids, cap=CAP, examples=EXAMPLES))[1] for _ in range(REPEATS)]
    our_median, loop_median = statistics.median(ours), statistics.median(loop)
    return {
        "rows": ROWS,
        "read_and_score_s": our_median,
        "csv_loop_s": loop_median,
        "relative_time": our_median / loop_median,
        "score_alone_s": statistics.median(alone),
        "interval_s": statistics.median(interval),
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


def _timed(function: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = function()
    return result, time.perf_counter() - start


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:20} {value:.4g}")
