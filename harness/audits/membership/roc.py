"""Receiver operating characteristics: area under the curve, rates at few false positives, and their intervals.

A replicate of the bootstrap draws members and non-members separately, with replacement, each document as one unit.
"""

from typing import NamedTuple

import numpy as np

from harness.core.arrays import Floats, Ints

REPLICATES = 1000
_SEED = 20241111
_AT_ONCE = 50


class Rate(NamedTuple):
    """An area or a rate and its 95 % interval."""

    value: float
    low: float
    high: float


class Roc(NamedTuple):
    """The curve of one score: rates of false and of true positives, [points] each, and what is reported of it.

    at: the rate of true positives at each of the given rates of false positives, None if there are too few non-members.
    """

    false_positives: Floats
    true_positives: Floats
    auc: Rate
    at: list[Rate | None]


def roc_of(scores: Floats, is_member: Floats, rates: tuple[float, ...]) -> Roc:
    """Return the curve of scores [n]; is_member: [n] 0 or 1. A larger score speaks for membership."""
    # Equal scores are one step of the curve.
    _, step = np.unique(-scores, return_inverse=True)
    members, others = is_member == 1, is_member == 0
    weights = np.ones((1, len(scores)))
    auc, at = _measures(weights, step, members, others, rates)
    generator = np.random.default_rng(_SEED)
    parts = []
    for _ in range(0, REPLICATES, _AT_ONCE):
        drawn = np.zeros((_AT_ONCE, len(scores)))
        for chosen in (members, others):
            number = int(chosen.sum())
            drawn[:, chosen] = generator.multinomial(number, np.full(number, 1 / number), size=_AT_ONCE)
        parts.append(np.column_stack(_measures(drawn, step, members, others, rates)))
    low, high = np.quantile(np.concatenate(parts), (0.025, 0.975), axis=0)
    true, false = _curve(weights, step, members), _curve(weights, step, others)
    found = [Rate(float(at[0, place]), float(low[1 + place]), float(high[1 + place])) for place in range(len(rates))]
    enough = [int(others.sum()) * rate >= 1 for rate in rates]
    return Roc(
        false[0],
        true[0],
        Rate(float(auc[0]), float(low[0]), float(high[0])),
        [one if is_enough else None for one, is_enough in zip(found, enough, strict=True)],
    )


def _curve(weights: Floats, step: Ints, chosen: Floats) -> Floats:
    """Return the share of the chosen documents up to each step, from 0 on, [replicates, steps + 1]."""
    steps = int(step.max()) + 1
    sums = np.zeros((len(weights), steps + 1))
    places = np.flatnonzero(chosen)
    np.add.at(sums.T, step[places] + 1, weights[:, places].T)
    total = np.cumsum(sums, axis=1)
    return total / np.maximum(total[:, -1:], 1)


def _measures(
    weights: Floats, step: Ints, members: Floats, others: Floats, rates: tuple[float, ...]
) -> tuple[Floats, Floats]:
    """Return the area, [replicates], and the rates of true positives at `rates`, [replicates, rates]."""
    true, false = _curve(weights, step, members), _curve(weights, step, others)
    area = ((true[:, 1:] + true[:, :-1]) / 2 * np.diff(false, axis=1)).sum(axis=1)
    # The largest rate of true positives whose rate of false positives does not exceed the given one.
    at = np.stack([np.where(false <= rate + 1e-12, true, 0).max(axis=1) for rate in rates], axis=1)
    return area, at
