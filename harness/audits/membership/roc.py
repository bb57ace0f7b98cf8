"""ROC curves of scores, with intervals by a bootstrap.

A larger score speaks for membership. A replicate draws units of members and of non-members separately, with
replacement. A unit is the documents of one side in one cluster, which are not independent of each other.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from harness.core.arrays import Bools, Floats, Ints
from harness.core.intervals import draw_units, percentiles, wilson
from harness.core.measures import NO_ESTIMATE, Estimate

REPLICATES = 1000
_SEED = 20241111
_AT_ONCE = 50
_ROUNDING = 1e-12


class Roc(NamedTuple):
    """The curve of one score: rates of false and of true positives, [points] each, and what is reported of it."""

    false_positives: Floats
    true_positives: Floats
    auc: Estimate
    at: list[Estimate]
    """The rate of true positives at each of the given rates of false positives, NaN with too few non-members."""

    def steps(self, lowest_rate: float) -> tuple[Floats, Floats]:
        """Return the corners of the curve as steps from the rate of false positives `lowest_rate` to 1, as x and y.

        The height at x is the largest rate of true positives whose rate of false positives does not exceed x.
        """
        levels = np.unique(np.append(self.false_positives[self.false_positives > lowest_rate], lowest_rate))
        heights = self.true_positives[np.searchsorted(self.false_positives, levels + _ROUNDING, side="right") - 1]
        return np.repeat(levels, 2)[1:], np.repeat(heights, 2)[:-1]


def roc_of(scores: Floats, is_member: Bools, clusters: Ints, rates: tuple[float, ...]) -> Roc:
    """Return the curve of scores [n]. A larger score speaks for membership. clusters: [n].

    An interval that reaches 0 or 1, or has no width, is extended to Wilson's (1927), because the bootstrap has no width
    at 0 and 1. For a rate, the observations are the units of members. For an area, they are as many disjoint pairs of a
    member and a non-member as there are units on the smaller side: the area is the probability that a pair is in order.
    """
    # Equal scores are one step of the curve.
    _, step = np.unique(-scores, return_inverse=True)
    sides = [(side, np.unique(clusters[side], return_inverse=True)[1]) for side in (is_member, ~is_member)]
    units = [int(unit.max()) + 1 for _, unit in sides]

    def curves(weights: Floats) -> list[Floats]:
        return [_curve(weights, step, side) for side, _ in sides]

    parts = []
    for of_units in draw_units(units, seed=_SEED, replicates=REPLICATES, at_once=_AT_ONCE):
        drawn = np.zeros((_AT_ONCE, len(scores)))
        for (side, unit), times in zip(sides, of_units, strict=True):
            drawn[:, side] = times[:, unit]
        parts.append(_measures(curves(drawn), rates))
    true, false = curves(np.ones((1, len(scores))))
    bounds = np.array([_measures([true, false], rates)[0], *percentiles(np.concatenate(parts))]).T.tolist()
    area, *at = [
        _rate(value, low, high, units[0] if place else min(units)) for place, (value, low, high) in enumerate(bounds)
    ]
    non_members = int((~is_member).sum())
    at = [estimate if non_members * rate >= 1 else NO_ESTIMATE for estimate, rate in zip(at, rates, strict=True)]
    return Roc(false[0], true[0], area, at)


def _rate(value: float, low: float, high: float, observations: int) -> Estimate:
    if low <= 0 or high >= 1 or low == high:
        outer_low, outer_high = wilson(value, observations)
        low, high = min(low, outer_low), max(high, outer_high)
    # Rounding may put the end of Wilson's interval beyond the value.
    return Estimate(value, min(low, value), max(high, value))


def _curve(weights: Floats, step: Ints, is_of_side: Bools) -> Floats:
    """Return the share of the documents of a side up to each step, from 0 on, [replicates, steps + 1]."""
    steps = int(step.max()) + 1
    sums = np.zeros((len(weights), steps + 1))
    places = np.flatnonzero(is_of_side)
    np.add.at(sums.T, step[places] + 1, weights[:, places].T)
    total = np.cumsum(sums, axis=1)
    return total / np.maximum(total[:, -1:], 1)


def _measures(curves: Sequence[Floats], rates: tuple[float, ...]) -> Floats:
    """Return the area and the rates of true positives at `rates` of curves, [replicates, 1 + rates].

    curves: the rates of true and of false positives, [replicates, steps + 1] each.
    """
    true, false = curves
    area = ((true[:, 1:] + true[:, :-1]) / 2 * np.diff(false, axis=1)).sum(axis=1)
    # The largest rate of true positives whose rate of false positives does not exceed the given one.
    at = [np.where(false <= rate + _ROUNDING, true, 0).max(axis=1) for rate in rates]
    return np.stack([area, *at], axis=1)
