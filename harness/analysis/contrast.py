"""Compare two submissions on a part of a round: the examples that each solves, and the paired difference."""

from dataclasses import dataclass
from typing import Any

from harness.analysis.parts import Part
from harness.core.arrays import Ints
from harness.core.intervals import JudgedRows
from harness.core.multiple_comparisons import Difference, paired_difference

MCNEMAR_CAVEAT = "ignores overlap between examples"


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
        difference, (low, high, unit), p_value = self.difference
        return {
            "difference": difference,
            "difference_interval": [low, high],
            "difference_interval_unit": str(unit),
            "difference_p": p_value,
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
