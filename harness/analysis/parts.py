"""The parts of a submission that are scored alone, contrasts between them, and the band of a curve."""

import contextlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from harness.core.arrays import Bools, Floats, Ints
from harness.core.errors import HarnessError
from harness.core.examples import Overlap, load_clusters, overlap
from harness.core.intervals import JudgedRows, recall_interval, solutions
from harness.core.multiple_comparisons import Difference, paired_difference
from harness.core.scoring import Score, log_spaced, scaled_cap, score_rows
from harness.runs.specs import AttackSpec

MCNEMAR_CAVEAT = "ignores overlap between examples"
_CAPS = 12
_REPLICATES = 200
"""Fewer than those of a score: the band is drawn in characters, and again while the run goes on."""


@dataclass(frozen=True)
class Part:
    """Examples that submissions are scored on, with the error cap for them.

    All submissions passed to the methods are numbered by the round.
    """

    ids: Ints
    """[examples] int64, ascending, as the round numbers them."""
    cap: int
    clusters: Ints | None
    """[examples] int64, None if they are unknown."""

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

    def solved_examples(self, submission: JudgedRows) -> Bools:
        """Return which of these examples are solved before the cap ends the walk, [examples]."""
        return np.isin(np.arange(len(self)), solutions(*self.rows_of(submission)).within(self.cap))


class AttackedParts(NamedTuple):
    """All attacked examples, and those whose answers the training rows do not contain."""

    whole: Part
    not_in_train: Part | None
    """The part, or None for the reason in `not_in_train_absent_because`."""
    not_in_train_absent_because: str
    overlap: Overlap | None
    """None if the round has no training rows or they cannot be read."""


def attacked_parts(spec: AttackSpec) -> AttackedParts:
    """Return the parts of the examples that a run attacked."""
    of_round, clusters, reason = None, None, "the answers are unknown."
    try:
        of_round = overlap(spec.round)
        clusters = of_round.clusters
    except HarnessError as error:
        reason = str(error)
        # Without readable training rows there are no clusters either, but a round may have none.
        with contextlib.suppress(HarnessError):
            clusters = load_clusters(spec.round)
    attacked = slice(0, spec.examples)
    whole = Part.whole(spec.examples, cap=spec.error_cap, clusters=None if clusters is None else clusters[attacked])
    if of_round is None or of_round.is_in_train is None:
        return AttackedParts(whole, None, reason, of_round)
    not_in_train = whole.where(~of_round.is_in_train[attacked])
    if len(not_in_train) in (0, len(whole)):
        contained = "no answer" if len(not_in_train) else "every answer"
        reason = f"the training rows contain {contained}."
        return AttackedParts(whole, None, reason, of_round)
    return AttackedParts(whole, not_in_train, "", of_round)


@dataclass(frozen=True)
class Contrast:
    """The comparison of a first submission with a second one on the same examples."""

    difference: Difference
    only_first: Ints
    """Examples that only the first run solves within the cap, ascending, [any]."""
    only_second: Ints
    """Examples that only the second run solves within the cap, ascending, [any]."""
    mcnemar_p: float
    """p-value of McNemar's test, two-sided, under the assumption that examples are independent."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields as a JSON object.

        Keys:
            difference (number): Recall of the first run minus the recall of the second.
            difference_interval (number[]): 95 % interval of the difference: low, high.
            difference_interval_unit (string): Unit that the bootstrap draws: `cluster` or `example`.
            difference_p (number): p-value of no difference, two-sided. It agrees with the interval.
            mcnemar_p
            mcnemar_caveat (string): Limits of McNemar's test.
            only_first, only_second
        """
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
    first_solves, second_solves = part.solved_examples(first), part.solved_examples(second)
    only_first, only_second = part.ids[first_solves & ~second_solves], part.ids[second_solves & ~first_solves]
    difference = paired_difference(
        part.rows_of(first), part.rows_of(second), cap=part.cap, examples=len(part), clusters=part.clusters
    )
    return Contrast(difference, only_first, only_second, mcnemar_exact(len(only_first), len(only_second)))


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Return the two-sided p-value of McNemar's test (Psychometrika 12, 1947) by the exact binomial distribution.

    The null hypothesis is that an example solved by only one submission is equally likely to be solved by either.
    """
    from scipy.stats import binomtest  # imported here because the TUI imports this module and scipy loads slowly

    disagreements = only_first + only_second
    return float(binomtest(only_first, disagreements).pvalue) if disagreements else 1.0


class CurveBand(NamedTuple):
    """low, high: [points] the bounds of recall at each of `errors` [points], with 200 replicates."""

    errors: Ints
    low: Floats
    high: Floats


def curve_band(submission: JudgedRows, part: Part) -> CurveBand:
    """Return the pointwise 95 % intervals of recall at a few error caps from 1 to all wrong rows; the cap is one."""
    rows = part.rows_of(submission)
    wrong = int((~rows.is_correct).sum())
    errors = np.union1d(log_spaced(wrong + 1, max_points=_CAPS), min(part.cap, wrong + 1))
    bounds = [
        recall_interval(*rows, cap=int(cap), examples=len(part), clusters=part.clusters, replicates=_REPLICATES)[:2]
        for cap in errors
    ]
    low, high = np.array(bounds, np.float64).T
    return CurveBand(errors, low, high)
