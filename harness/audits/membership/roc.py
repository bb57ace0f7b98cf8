"""Receiver operating characteristics: area under the curve, rates at few false positives, and their intervals.

A replicate of the bootstrap draws units of members and of non-members separately, with replacement. A unit is the
documents of one side in one cluster, which are not independent of each other.
"""

from typing import NamedTuple

import numpy as np

from harness.core.arrays import Bools, Floats, Ints
from harness.core.intervals import draw_units, percentiles, wilson
from harness.core.measures import Estimate

REPLICATES = 1000
_SEED = 20241111
_AT_ONCE = 50
_ROUNDING = 1e-12


class Roc(NamedTuple):
    """The curve of one score: rates of false and of true positives, [points] each, and what is reported of it.

    at: the rate of true positives at each of the given rates of false positives, None if there are too few non-members.
    """

    false_positives: Floats
    true_positives: Floats
    auc: Estimate
    at: list[Estimate | None]

    def steps(self, least: float) -> tuple[Floats, Floats]:
        """Return the corners of the curve as steps from the rate of false positives `least` to 1, as x and y.

        The height at x is the largest rate of true positives whose rate of false positives does not exceed x.
        """
        levels = np.unique(np.append(self.false_positives[self.false_positives > least], least))
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
    members, others = is_member, ~is_member
    weights = np.ones((1, len(scores)))
    auc, at = _measures(weights, step, members, others, rates)
    sides = [(side, np.unique(clusters[side], return_inverse=True)[1]) for side in (members, others)]
    units = [int(unit.max()) + 1 for _, unit in sides]
    parts = []
    for of_units in draw_units(units, seed=_SEED, replicates=REPLICATES, at_once=_AT_ONCE):
        drawn = np.zeros((_AT_ONCE, len(scores)))
        for (side, unit), times in zip(sides, of_units, strict=True):
            drawn[:, side] = times[:, unit]
        parts.append(np.column_stack(_measures(drawn, step, members, others, rates)))
    low, high = percentiles(np.concatenate(parts))
    true, false = _curve(weights, step, members), _curve(weights, step, others)
    values = np.append(auc, at[0])
    observations = [min(units), *([units[0]] * len(rates))]
    area, *found = [
        _rate(float(values[place]), float(low[place]), float(high[place]), number)
        for place, number in enumerate(observations)
    ]
    enough = [int(others.sum()) * rate >= 1 for rate in rates]
    return Roc(
        false[0],
        true[0],
        area,
        [one if is_enough else None for one, is_enough in zip(found, enough, strict=True)],
    )


def _rate(value: float, low: float, high: float, observations: int) -> Estimate:
    if low <= 0 or high >= 1 or low == high:
        outer_low, outer_high = wilson(value, observations)
        low, high = min(low, outer_low), max(high, outer_high)
    # Rounding may put the end of Wilson's interval beyond the value.
    return Estimate(value, min(low, value), max(high, value))


def _curve(weights: Floats, step: Ints, chosen: Bools) -> Floats:
    """Return the share of the chosen documents up to each step, from 0 on, [replicates, steps + 1]."""
    steps = int(step.max()) + 1
    sums = np.zeros((len(weights), steps + 1))
    places = np.flatnonzero(chosen)
    np.add.at(sums.T, step[places] + 1, weights[:, places].T)
    total = np.cumsum(sums, axis=1)
    return total / np.maximum(total[:, -1:], 1)


def _measures(
    weights: Floats, step: Ints, members: Bools, others: Bools, rates: tuple[float, ...]
) -> tuple[Floats, Floats]:
    """Return the area, [replicates], and the rates of true positives at `rates`, [replicates, rates]."""
    true, false = _curve(weights, step, members), _curve(weights, step, others)
    area = ((true[:, 1:] + true[:, :-1]) / 2 * np.diff(false, axis=1)).sum(axis=1)
    # The largest rate of true positives whose rate of false positives does not exceed the given one.
    at = np.stack([np.where(false <= rate + _ROUNDING, true, 0).max(axis=1) for rate in rates], axis=1)
    return area, at
