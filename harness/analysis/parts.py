"""The examples that a run is scored on: all attacked ones, and those whose answers its training rows lack."""

import contextlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from harness.core.arrays import Bools, Ints
from harness.core.errors import HarnessError
from harness.core.examples import Overlap, load_clusters, overlap
from harness.core.intervals import JudgedRows, solutions
from harness.core.scoring import Score, scaled_cap, score_rows
from harness.runs.specs import AttackSpec


@dataclass(frozen=True)
class Part:
    """Examples that submissions are scored on, with the error cap for them.

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


class AttackedParts(NamedTuple):
    """All attacked examples, and those whose answers the training rows do not contain.

    unreachable: None for the reason in `no_unreachable_because`; overlap: None if the round has no training rows or
    they cannot be read.
    """

    whole: Part
    unreachable: Part | None
    no_unreachable_because: str
    overlap: Overlap | None


def attacked_parts(spec: AttackSpec) -> AttackedParts:
    """Return the parts of the examples that a run attacked."""
    found, clusters, reason = None, None, "the answers are unknown."
    try:
        found = overlap(spec.round)
        clusters = found.clusters
    except HarnessError as error:
        reason = str(error)
        # Without readable training rows there are no clusters either, but a round may have none.
        with contextlib.suppress(HarnessError):
            clusters = load_clusters(spec.round)
    attacked = slice(0, spec.examples)
    whole = Part.whole(spec.examples, cap=spec.error_cap, clusters=None if clusters is None else clusters[attacked])
    if found is None or found.is_reachable is None:
        return AttackedParts(whole, None, reason, found)
    unreachable = whole.where(~found.is_reachable[attacked])
    if len(unreachable) in (0, len(whole)):
        contained = "no answer, so all examples are unreachable" if len(unreachable) else "every answer"
        reason = f"the training rows contain {contained}."
        return AttackedParts(whole, None, reason, found)
    return AttackedParts(whole, unreachable, "", found)
