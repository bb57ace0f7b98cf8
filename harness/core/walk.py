"""The walk down a submission: which rows count before the cap on errors ends it.

The rules are the organizers' (SaTML 2023 challenge, "Evaluation Metric"): a correct row counts while fewer than `cap`
wrong rows came before it. A repeated correct row adds nothing and costs nothing. Each wrong row costs one error, also
for an example that is already solved.
"""

from typing import NamedTuple

import numpy as np

from harness.core.arrays import Bools, Ints


class JudgedRows(NamedTuple):
    """The rows of a submission in its order. is_correct: [rows]; example_ids: [rows] int64."""

    is_correct: Bools
    example_ids: Ints


class Solutions(NamedTuple):
    """The examples that a submission solves, ordered by their first correct row; every array is [solved] int64.

    examples: example ids. rows: the first correct row of each. wrong_before: the number of wrong rows before that row.
    """

    examples: Ints
    rows: Ints
    wrong_before: Ints

    def within(self, cap: int) -> Ints:
        """Return the examples solved before wrong row number `cap` ends the walk, [any] int64."""
        return self.examples[self.wrong_before < cap]


def solutions(is_correct: Bools, example_ids: Ints) -> Solutions:
    """Return what a submission solves; `is_correct` and `example_ids` have shape [rows], in submission order."""
    correct = np.flatnonzero(is_correct)
    _, first = np.unique(example_ids[correct], return_index=True)
    rows = correct[np.sort(first)]
    return Solutions(example_ids[rows], rows, np.cumsum(~is_correct, dtype=np.int64)[rows])


def rows_read(is_correct: Bools, cap: int) -> int:
    """Return the number of rows up to and including wrong row number `cap`, or all rows if fewer are wrong."""
    wrong = np.flatnonzero(~is_correct)
    return int(wrong[cap - 1]) + 1 if len(wrong) >= cap else len(is_correct)
