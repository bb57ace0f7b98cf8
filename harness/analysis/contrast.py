"""Compare two submissions on a round or on a part of it: which examples each solves, and the paired difference."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.core.arrays import Bools, Ints
from harness.core.intervals import Difference, paired_difference
from harness.core.scoring import Score, scaled_cap, score_rows
from harness.core.walk import JudgedRows, solutions

MCNEMAR_CAVEAT = "ignores overlap between examples"


@dataclass(frozen=True)
class Part:
    """The examples that submissions are compared on, with the cap on errors there.

    ids: [examples] int64, ascending, as the round numbers them; clusters: [examples] int64, or None. All submissions
    passed to the methods are numbered by the round.
    """

    ids: Ints
    cap: int
    clusters: Ints | None

    @classmethod
    def whole(cls, examples: int, *, cap: int, clusters: Ints | None = None) -> "Part":
        """Return the part with all examples, 0..examples-1."""
        return cls(np.arange(examples), cap, clusters)

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, is_member: Bools) -> "Part":
        """Return the part with the examples selected by `is_member` [examples] and the cap in proportion to them."""
        ids = self.ids[is_member]
        cap = scaled_cap(self.cap, len(ids), len(self))
        return Part(ids, cap, None if self.clusters is None else self.clusters[is_member])

    def rows_of(self, submission: JudgedRows) -> JudgedRows:
        """Return the rows for these examples, numbered by their position in this part."""
        is_member = np.isin(submission.example_ids, self.ids)
        return JudgedRows(
            submission.is_correct[is_member], np.searchsorted(self.ids, submission.example_ids[is_member])
        )

    def score(self, submission: JudgedRows) -> Score:
        """Return the score on these examples alone."""
        return score_rows(*self.rows_of(submission), cap=self.cap, examples=len(self), clusters=self.clusters)

    def solved(self, submission: JudgedRows) -> Bools:
        """Return which of these examples are solved before the cap ends the walk, [examples]."""
        return np.isin(np.arange(len(self)), solutions(*self.rows_of(submission)).within(self.cap))


@dataclass(frozen=True)
class Contrast:
    """The comparison of a first submission with a second one on the same examples.

    only_first, only_second: [any] int64, ascending, the examples that only this submission solves within the cap, as
    the round numbers them; mcnemar_p: two-sided, under the assumption that examples are independent.
    """

    difference: Difference
    only_first: Ints
    only_second: Ints
    mcnemar_p: float

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object."""
        difference, (low, high, unit) = self.difference
        return {
            "difference": difference,
            "difference_interval": [low, high],
            "difference_interval_unit": str(unit),
            "mcnemar_p": self.mcnemar_p,
            "mcnemar_caveat": MCNEMAR_CAVEAT,
            "only_first": self.only_first.tolist(),
            "only_second": self.only_second.tolist(),
        }


def contrast(first: JudgedRows, second: JudgedRows, part: Part) -> Contrast:
    """Compare `first` with `second` on `part`; both are numbered by the round."""
    first_solves, second_solves = part.solved(first), part.solved(second)
    only_first, only_second = part.ids[first_solves & ~second_solves], part.ids[second_solves & ~first_solves]
    difference = paired_difference(
        part.rows_of(first), part.rows_of(second), cap=part.cap, examples=len(part), clusters=part.clusters
    )
    return Contrast(difference, only_first, only_second, mcnemar_exact(len(only_first), len(only_second)))


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Return the two-sided p-value of McNemar's test (Psychometrika 12, 1947) by the exact binomial distribution.

    The null hypothesis is that an example solved by only one submission is equally likely to be solved by either.
    """
    from scipy.stats import binomtest  # imported here because the screen imports this module and scipy loads slowly

    disagreements = only_first + only_second
    return float(binomtest(only_first, disagreements).pvalue) if disagreements else 1.0
