"""The score of a submission: recall, precision and their curve, read off the walk down its rows."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from harness.core.arrays import Bools, Floats, Ints, Tokens
from harness.core.intervals import Interval, recall_interval, rows_read, solutions

ERROR_COUNTS = (1, 10, 50, 100, 1000)
DRAWN_POINTS = 160
"""Points of a curve on a screen: about as many as a terminal has columns."""


class AtErrors(NamedTuple):
    """Recall and precision, both in [0, 1], when the walk ends at wrong row number `errors`."""

    errors: int
    """Number of wrong rows."""
    recall: float
    """Recall, in [0, 1]."""
    precision: float
    """Precision, in [0, 1]."""


class ScoreCurve(NamedTuple):
    """Recall and precision when the walk ends at each wrong row."""

    errors: Ints
    """Numbers of wrong rows, ascending from 1, [points]."""
    recall: Floats
    """Recall at each of `errors`, in [0, 1], [points]."""
    precision: Floats
    """Precision at each, in [0, 1], [points]. It counts wrong row number `errors`, if there is one."""

    def as_json(self) -> dict[str, list[Any]]:
        """Return each field as a list."""
        return {name: values.tolist() for name, values in self._asdict().items()}


@dataclass(frozen=True)
class Score:
    """The score of a submission of `rows` rows against the answers of `examples` examples.

    solved: distinct examples solved before the walk ended.
    wrong_rows_read: at most `cap`.
    rows_read: includes the row that ended the walk.
    curve: as `solved_curve` returns it.
    """

    cap: int
    examples: int
    rows: int
    rows_read: int
    solved: int
    wrong_rows_read: int
    interval: Interval
    curve: Ints

    @property
    def recall_at_cap(self) -> float:
        return self.solved / self.examples

    @property
    def precision_at_cap(self) -> float:
        """Return the share of solved examples among solved examples and wrong rows read, 0 if there are neither."""
        return _precision(self.solved, self.wrong_rows_read)

    @property
    def rows_ignored(self) -> int:
        return self.rows - self.rows_read

    def at_errors(self, errors: int) -> AtErrors:
        """Return recall and precision with `errors` (>= 1) as the cap, or of all rows if fewer are wrong."""
        solved = solved_at(self.curve, errors)
        return AtErrors(errors, solved / self.examples, _precision(solved, min(errors, len(self.curve) - 1)))

    def recall_curve(self, points: int | None = None) -> ScoreCurve:
        """Return recall and precision at no more than `points` error counts; all of them without `points`.

        They are evenly spread on a log scale, and the cap is among them.
        """
        longest = len(self.curve)
        max_points = longest if points is None else points - 1
        errors = np.union1d(log_spaced(longest, max_points=max_points), min(self.cap, longest))
        solved = self.curve[errors - 1]
        rows = solved + np.minimum(errors, longest - 1)
        return ScoreCurve(errors, solved / self.examples, solved / np.maximum(rows, 1))

    def precision_recall_curve(self) -> tuple[Floats, Floats]:
        """Return recall and precision after each row of the whole submission, [rows] each.

        Repeated correct rows, which change neither, are left out.
        """
        is_wrong = np.zeros(int(self.curve[-1]) + len(self.curve) - 1, np.int64)
        is_wrong[self.curve[:-1] + np.arange(len(self.curve) - 1)] = 1
        rows = np.arange(1, len(is_wrong) + 1)
        solved = rows - is_wrong.cumsum()
        return solved / self.examples, solved / rows

    def as_json(self) -> dict[str, Any]:
        """Return all fields except the curve as a JSON object.

        Keys:
            recall_at_cap (number): Recall at the error cap, in [0, 1].
            recall_interval (number[]): 95 % interval of the recall: low, high.
            recall_interval_unit (string): Unit that the bootstrap draws: `cluster` or `example`.
            precision_at_cap (number): Precision at the error cap, in [0, 1].
            error_cap (number): Number of wrong rows at which scoring stops.
            examples (number): Examples of the round, or of the answers.
            solved (number): Distinct examples solved.
            rows (number): Rows of the submission.
            rows_read (number): Rows until scoring stopped.
            rows_ignored (number): Rows after scoring stopped.
            wrong_rows_read (number): Wrong rows until scoring stopped.
            at_errors (AtErrors[]): Recall and precision at several error counts.
        """
        return {
            "recall_at_cap": self.recall_at_cap,
            "recall_interval": [self.interval.low, self.interval.high],
            "recall_interval_unit": str(self.interval.unit),
            "precision_at_cap": self.precision_at_cap,
            "error_cap": self.cap,
            "examples": self.examples,
            "solved": self.solved,
            "rows": self.rows,
            "rows_read": self.rows_read,
            "rows_ignored": self.rows_ignored,
            "wrong_rows_read": self.wrong_rows_read,
            "at_errors": [self.at_errors(errors)._asdict() for errors in ERROR_COUNTS],
        }


def scaled_cap(cap: int, part: int, whole: int) -> int:
    """Return the error cap for `part` of `whole` examples: `cap` in proportion to them, rounded, and at least 1."""
    return max(1, round(cap * part / whole))


def correct_rows(ids: Ints, suffixes: Tokens, answers: Tokens) -> Bools:
    """Return which rows hold the answer of their example, [rows].

    `ids` [rows] index `answers` [examples, suffix length]; `suffixes` has shape [rows, suffix length].
    """
    return np.asarray((suffixes == answers[ids]).all(axis=1))


def exact_at_1(ids: Ints, suffixes: Tokens, answers: Tokens) -> float:
    """Return the share of examples whose first row is correct.

    `ids` [rows] and `suffixes` [rows, length] are in submission order.
    """
    _, first = np.unique(ids, return_index=True)
    return float(correct_rows(ids[first], suffixes[first], answers).sum()) / len(answers)


def recall_at_errors(is_correct: Bools, example_ids: Ints, *, cap: int, examples: int) -> float:
    """Return recall in [0, 1] when wrong row number `cap` ends the walk (`harness.core.intervals` states the rules).

    `is_correct` and `example_ids` have shape [rows], in submission order.
    """
    return len(solutions(is_correct, example_ids).within(cap)) / examples


def solved_curve(is_correct: Bools, example_ids: Ints) -> Ints:
    """Return the number of examples solved with at most w wrong rows before, for each w, [wrong rows + 1] int64.

    So recall at E errors is `curve[E - 1] / examples`.
    """
    wrong_before = solutions(is_correct, example_ids).wrong_before
    return np.cumsum(np.bincount(wrong_before, minlength=int((~is_correct).sum()) + 1))


def solved_at(curve: Ints, errors: int) -> int:
    """Return the number of examples solved when wrong row number `errors` (>= 1) ends the walk.

    `curve` is what `solved_curve` returns.
    """
    return int(curve[min(errors, len(curve)) - 1])


def log_spaced(longest: int, *, max_points: int) -> Ints:
    """Return error counts from 1 to `longest`, ascending: all of them, or `max_points` evenly spread on a log scale."""
    if longest <= max_points:
        return np.arange(1, longest + 1)
    return np.unique(np.geomspace(1, longest, max_points).round().astype(np.int64))


def score_rows(is_correct: Bools, example_ids: Ints, *, cap: int, examples: int, clusters: Ints | None = None) -> Score:
    """Return the score of a submission whose rows, [rows] in submission order, are known to be correct or wrong.

    `example_ids` are in 0..examples-1. With `clusters`, [examples], the interval draws clusters instead of examples.
    """
    rows = rows_read(is_correct, cap)
    curve = solved_curve(is_correct, example_ids)
    return Score(
        cap=cap,
        examples=examples,
        rows=len(is_correct),
        rows_read=rows,
        solved=solved_at(curve, cap),
        wrong_rows_read=int((~is_correct[:rows]).sum()),
        interval=recall_interval(is_correct, example_ids, cap=cap, examples=examples, clusters=clusters),
        curve=curve,
    )


def _precision(solved: int, wrong: int) -> float:
    return solved / (solved + wrong) if solved + wrong else 0.0
