"""Two submissions against each other, on a round or a part of it: what each solves, and how sure the difference is."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.core.arrays import Bools, Ints
from harness.core.intervals import Difference, Walk, paired_difference
from harness.core.scoring import Score, score_rows

MCNEMAR_CAVEAT = "ignores overlap between examples"


@dataclass(frozen=True)
class Part:
    """The examples that walks are compared on, and the cap on errors there.

    ids: [examples] int64, ascending, as the round numbers them; clusters: [examples] int64, or None.
    """

    ids: Ints
    cap: int
    clusters: Ints | None

    @classmethod
    def whole(cls, examples: int, *, cap: int, clusters: Ints | None = None) -> "Part":
        """All examples, 0..examples-1."""
        return cls(np.arange(examples), cap, clusters)

    def __len__(self) -> int:
        return len(self.ids)

    def where(self, is_member: Bools) -> "Part":
        """The examples that `is_member` [examples] picks, with the cap in proportion to them, at least 1."""
        ids = self.ids[is_member]
        cap = max(1, round(self.cap * len(ids) / len(self)))
        return Part(ids, cap, None if self.clusters is None else self.clusters[is_member])

    def walk(self, walk: Walk) -> Walk:
        """The rows of `walk`, whose ids are the round's, that are for these examples, numbered by their place here."""
        is_member = np.isin(walk.example_ids, self.ids)
        return Walk(walk.is_correct[is_member], np.searchsorted(self.ids, walk.example_ids[is_member]))

    def score(self, walk: Walk) -> Score:
        """What `walk`, whose ids are the round's, scores on these examples alone."""
        is_correct, ids = self.walk(walk)
        return score_rows(is_correct, ids, cap=self.cap, examples=len(self), clusters=self.clusters)

    def solved(self, walk: Walk) -> Bools:
        """Which of these examples `walk`, whose ids are the round's, solves before the cap ends it, [examples]."""
        is_correct, ids = self.walk(walk)
        counts = is_correct & (np.cumsum(~is_correct) < self.cap)
        return np.bincount(ids[counts], minlength=len(self)) > 0


@dataclass(frozen=True)
class Contrast:
    """A first submission against a second one, on the same examples.

    only_first, only_second: [any] int64, ascending, the examples that this one alone solves within the cap, as the
    round numbers them; mcnemar_p: two-sided, as if examples were independent.
    """

    difference: Difference
    only_first: Ints
    only_second: Ints
    mcnemar_p: float

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON has them."""
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


def contrast(first: Walk, second: Walk, part: Part) -> Contrast:
    """`first` against `second` on `part`; the ids of both walks are the round's."""
    by_first, by_second = part.solved(first), part.solved(second)
    only_first, only_second = part.ids[by_first & ~by_second], part.ids[by_second & ~by_first]
    difference = paired_difference(
        part.walk(first), part.walk(second), cap=part.cap, examples=len(part), clusters=part.clusters
    )
    return Contrast(difference, only_first, only_second, mcnemar_exact(len(only_first), len(only_second)))


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """The two-sided p-value of as uneven a split, were each such example as likely to be the one's as the other's.

    McNemar (Psychometrika 12, 1947) by the exact binomial: twice the lesser tail of Binomial(n, 1/2), at most 1.
    """
    disagreements = only_first + only_second
    term = tail = 1  # binomial coefficients, as integers of any size
    for successes in range(min(only_first, only_second)):
        term = term * (disagreements - successes) // (successes + 1)
        tail += term
    return min(1.0, 2 * tail / (1 << disagreements))
