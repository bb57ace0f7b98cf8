"""The score of a submission: the walk down its rows to the cap on errors, and every figure read off it.

The rules are the organizers' (SaTML 2023 challenge, "Evaluation Metric"): a correct row counts while fewer than `cap`
wrong rows came before it; a repeated correct row adds nothing and costs nothing; each wrong row costs one, also for an
example that is solved already.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from harness.core.arrays import Bools, Ints, Tokens
from harness.core.intervals import Interval, recall_interval

ERROR_COUNTS = (1, 10, 50, 100, 1000)
DRAWN_POINTS = 160
"""Points of a curve that a screen draws: about as many as it has columns."""


class AtErrors(NamedTuple):
    """Recall and precision, both in [0, 1], when the walk ends at wrong row number `errors`."""

    errors: int
    recall: float
    precision: float


@dataclass(frozen=True)
class Score:
    """What a submission of `rows` rows scores against the answers of `examples` examples.

    solved: distinct examples solved before the walk ended; wrong_rows_read: at most `cap`; rows_read: up to and with
    the row that ended the walk; curve: [all wrong rows + 1] int64, where `curve[w]` examples are solved with at most w
    wrong rows before, so that recall at E errors is `curve[E - 1] / examples`.
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
        """Distinct examples solved over solved and wrong rows read; 0 when there are neither."""
        return _precision(self.solved, self.wrong_rows_read)

    @property
    def rows_ignored(self) -> int:
        return self.rows - self.rows_read

    def at_errors(self, errors: int) -> AtErrors:
        """Recall and precision with `errors` (>= 1) as the cap; of the whole list when it has fewer wrong rows."""
        wrong_rows = len(self.curve) - 1
        solved = int(self.curve[min(errors - 1, wrong_rows)])
        return AtErrors(errors, solved / self.examples, _precision(solved, min(errors, wrong_rows)))

    def as_json(self) -> dict[str, Any]:
        """The figures without the curve, as JSON has them."""
        return {
            "recall_at_cap": self.recall_at_cap,
            "recall_interval": [self.interval.low, self.interval.high],
            "recall_interval_unit": str(self.interval.unit),
            "precision_at_cap": self.precision_at_cap,
            "cap": self.cap,
            "examples": self.examples,
            "solved": self.solved,
            "rows": self.rows,
            "rows_read": self.rows_read,
            "rows_ignored": self.rows_ignored,
            "wrong_rows_read": self.wrong_rows_read,
            "at_errors": [self.at_errors(errors)._asdict() for errors in ERROR_COUNTS],
        }


def correct_rows(ids: Ints, suffixes: Tokens, answers: Tokens) -> Bools:
    """Which rows hold their example's answer, [rows].

    `ids` [rows] index `answers` [examples, suffix length]; `suffixes` [rows, suffix length].
    """
    return np.asarray((suffixes == answers[ids]).all(axis=1))


def exact_at_1(ids: Ints, suffixes: Tokens, answers: Tokens) -> float:
    """Return the share of examples whose first row is correct.

    `ids` [rows] and `suffixes` [rows, length] are in submission order.
    """
    _, first = np.unique(ids, return_index=True)
    return float(correct_rows(ids[first], suffixes[first], answers).sum()) / len(answers)


def recall_at_errors(is_correct: Bools, example_ids: Ints, *, cap: int, examples: int) -> float:
    """Recall when the `cap`-th wrong row ends the walk (SaTML 2023 challenge, "Evaluation Metric").

    `is_correct` and `example_ids` have shape [rows], in submission order. A repeated correct row adds nothing and costs
    nothing; each wrong row costs one. Returns a fraction of `examples`, in [0, 1].
    """
    read = _rows_read(is_correct, cap)
    return len(np.unique(example_ids[:read][is_correct[:read]])) / examples


def solved_curve(is_correct: Bools, example_ids: Ints) -> Ints:
    """Distinct examples solved with at most w wrong rows before, for w = 0 .. all wrong rows, [wrong rows + 1]."""
    correct = np.flatnonzero(is_correct)
    _, first = np.unique(example_ids[correct], return_index=True)
    wrong_before = np.cumsum(~is_correct)[correct[first]]
    return np.cumsum(np.bincount(wrong_before, minlength=int((~is_correct).sum()) + 1))


def log_spaced(longest: int, *, most: int) -> Ints:
    """Error counts from 1 to `longest`, ascending: all of them, or `most` at the most, evenly spread on a log scale."""
    if longest <= most:
        return np.arange(1, longest + 1)
    return np.unique(np.geomspace(1, longest, most).round().astype(np.int64))


def score_rows(is_correct: Bools, example_ids: Ints, *, cap: int, examples: int, clusters: Ints | None = None) -> Score:
    """The score of a submission whose rows, [rows] in submission order, are known to be right or wrong.

    `example_ids` are in 0..examples-1; `clusters`, [examples], makes the interval one by clusters.
    """
    read = _rows_read(is_correct, cap)
    curve = solved_curve(is_correct, example_ids)
    wrong = int((~is_correct[:read]).sum())
    return Score(
        cap=cap,
        examples=examples,
        rows=len(is_correct),
        rows_read=read,
        solved=int(curve[min(cap - 1, len(curve) - 1)]),
        wrong_rows_read=wrong,
        interval=recall_interval(is_correct, example_ids, cap=cap, examples=examples, clusters=clusters),
        curve=curve,
    )


def _rows_read(is_correct: Bools, cap: int) -> int:
    """Rows up to and with the `cap`-th wrong one; all when there are fewer."""
    wrong = np.flatnonzero(~is_correct)
    return int(wrong[cap - 1]) + 1 if len(wrong) >= cap else len(is_correct)


def _precision(solved: int, wrong: int) -> float:
    return solved / (solved + wrong) if solved + wrong else 0.0


def scaled_cap(cap: int, part: int, whole: int) -> int:
    """Return the error cap for `part` of `whole` examples: `cap` in proportion to them, rounded, and at least 1."""
    return max(1, round(cap * part / whole))
