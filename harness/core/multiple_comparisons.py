"""Paired differences of recall: bootstrap p-values, Holm's correction, and the intervals that belong to it.

The test of one difference inverts its interval: the p-value is the smallest error rate at which the percentile
interval excludes 0, with one replicate added to each tail (Davison and Hinkley 1997, section 4.2). So both always say
the same. McNemar's exact test would be an alternative for one seed without clusters, but it belongs to no interval of
the recall at an error cap, and it has no form for the mean of several seeds. `tests/bench/sweep_intervals.py` measures
how often these tests are wrong.

Holm's step-down procedure (1979) rejects the k-th smallest of m p-values if it and all smaller ones are at most
alpha / (m - k + 1). Its probability of any false rejection is at most alpha, whatever the dependence. The interval of
a rejected difference has the level 1 - alpha / (m - k + 1), and that of the others 1 - alpha / (number not rejected),
so an interval excludes 0 exactly if Holm's test rejects. These intervals do not cover all true differences jointly:
intervals that do, and that agree with Holm's test, say no more than "not 0" about rejected differences as long as one
is not rejected (Guilbaud 2008, Strassburger and Bretz 2008).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from harness.core.arrays import Floats, Ints
from harness.core.intervals import REPLICATES, Interval, JudgedRows, Unit, newcombe, shared_replicates
from harness.core.scoring import recall_at_errors

ALPHA = 0.05
_INVERSE_ALPHA = 20
_MAX_REPLICATES = 20_000
_MIN_IN_TAIL = 10
_DECIMALS = 12


class Holm(NamedTuple):
    """The result of Holm's procedure. adjusted: [comparisons] p-values, rejected if at most ALPHA.

    divisors: [comparisons] the number that divides ALPHA for the interval of each comparison.
    """

    adjusted: Floats
    divisors: Ints


def holm(p_values: Floats) -> Holm:
    """Correct p-values, [comparisons], for their number (Holm 1979). Equal p-values are treated alike.

    Corrections of libraries do not return the divisors, which the intervals need.
    """
    at_least = (p_values[None, :] >= p_values[:, None]).sum(axis=1)
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate((at_least * p_values)[order]))
    is_rejected = adjusted <= ALPHA
    return Holm(adjusted, np.where(is_rejected, at_least, (~is_rejected).sum()))


def replicates_for(comparisons: int) -> int:
    """Return an even number of replicates: ten or more beyond each end of the widest interval, at most 20,000."""
    return int(np.clip(2 * _INVERSE_ALPHA * _MIN_IN_TAIL * comparisons, REPLICATES, _MAX_REPLICATES))


@dataclass(frozen=True)
class PairedBootstrap:
    """A difference of two recalls, each the mean over the same seeds, with its bootstrap replicates.

    replicates: [replicates] the difference in each, ascending.
    constant: the two recalls if neither varies over the replicates, else None. The replicates then say nothing, and the
    interval is Newcombe's (1998, method 10).
    """

    difference: float
    replicates: Floats
    constant: tuple[float, float] | None
    unit: Unit
    units: int

    @classmethod
    def of(
        cls, difference: float, firsts: Sequence[Floats], seconds: Sequence[Floats], *, unit: Unit, units: int
    ) -> "PairedBootstrap":
        """Return the difference of two sides whose recalls in shared replicates are known, [replicates] per seed."""
        first, second = np.mean(firsts, axis=0), np.mean(seconds, axis=0)
        is_constant = np.ptp(first) == 0 and np.ptp(second) == 0
        # Equal recalls that were added up in another order must not differ by a rounding error.
        replicates = np.sort(np.round(first - second, _DECIMALS))
        return cls(difference, replicates, (float(first[0]), float(second[0])) if is_constant else None, unit, units)

    @cached_property
    def p_value(self) -> float:
        """The two-sided p-value of no difference, at least 2 / (replicates + 1) if the recalls vary."""
        if self.constant is not None:
            return _newcombe_p_value(*self.constant, self.units)
        beyond = min((self.replicates <= 0).sum(), (self.replicates >= 0).sum())
        return min(1.0, 2 * (int(beyond) + 1) / (len(self.replicates) + 1))

    def interval(self, divisor: int = 1) -> tuple[float, float] | None:
        """Return the interval at level 1 - ALPHA / `divisor`, or None if there are too few replicates for it."""
        if self.constant is not None:
            z = NormalDist().inv_cdf(1 - ALPHA / (2 * divisor))
            return newcombe(*self.constant, self.units, z=z)
        # The number of replicates is even, so this never divides without a remainder, and p is never exactly alpha.
        rank = (len(self.replicates) + 1) // (2 * _INVERSE_ALPHA * divisor)
        if rank == 0:
            return None
        return float(self.replicates[rank - 1]), float(self.replicates[-rank])


class Difference(NamedTuple):
    """Recall of the first submission minus that of the second, its 95 % interval, and the p-value of no difference."""

    difference: float
    interval: Interval
    p_value: float


def paired_difference(
    first: JudgedRows, second: JudgedRows, *, cap: int, examples: int, clusters: Ints | None = None
) -> Difference:
    """Return the recall of `first` minus that of `second` over shared replicates.

    The arguments are those of `recall_interval`.
    """
    rows = (first, second)
    recalls, unit, units = shared_replicates(rows, cap=cap, examples=examples, clusters=clusters, replicates=REPLICATES)
    left, right = (recall_at_errors(*both, cap=cap, examples=examples) for both in rows)
    bootstrap = PairedBootstrap.of(left - right, recalls[:1], recalls[1:], unit=unit, units=units)
    interval = bootstrap.interval()
    assert interval is not None, "REPLICATES suffice for one interval"
    return Difference(bootstrap.difference, Interval(*interval, unit), bootstrap.p_value)


def _newcombe_p_value(left: float, right: float, observations: int) -> float:
    """Return the smallest error rate at which Newcombe's interval of left - right excludes 0."""
    excludes, includes = 0.0, 40.0
    if left == right:
        return 1.0
    for _ in range(60):
        z = (excludes + includes) / 2
        low, high = newcombe(left, right, observations, z=z)
        excludes, includes = (excludes, z) if low <= 0 <= high else (z, includes)
    return 2 * NormalDist().cdf(-excludes)
