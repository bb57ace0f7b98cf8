"""The walk down a submission, bootstrap intervals of recall, and Wilson's interval of a proportion.

The rules of the walk are the organizers' (SaTML 2023 challenge, "Evaluation Metric"): a correct row counts while fewer
than `cap` wrong rows came before it. A repeated correct row adds nothing and costs nothing. Each wrong row costs one
error, even for an example that is already solved.

A bootstrap replicate draws as many units (examples or clusters) as there are, with replacement, and walks the
submission again. The weight of a row is how often its example was drawn. A wrong row of weight m costs m errors, as m
copies of it would. A correct row adds its weight while the errors before it are fewer than the cap scaled to the size
of the replicate, cap x drawn examples / examples, which is not rounded here.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.core.arrays import Bools, Floats, Ints, place_among_equals

REPLICATES = 2000
_SEED, _MEANS_SEED = 20230201, 20240601
_REPLICATES_AT_ONCE = 100
NORMAL_975 = 1.959963984540054
_BLOCK_WEIGHTS = 1 << 18  # weights of the replicates that are walked together, so that they fit the processor's cache
_CHUNK = 512  # wrong rows walked between two checks whether every replicate has ended


class JudgedRows(NamedTuple):
    """The rows of a submission in its order. is_correct: [rows]; example_ids: [rows] int64."""

    is_correct: Bools
    example_ids: Ints


class Solutions(NamedTuple):
    """The examples that a submission solves, ordered by their first correct row; every array is [solved] int64.

    examples: example ids.
    rows: the first correct row of each.
    wrong_before: the number of wrong rows before that row.
    """

    examples: Ints
    rows: Ints
    wrong_before: Ints

    def within(self, cap: int) -> Ints:
        """Return the examples solved before wrong row number `cap` ends the walk, [any] int64."""
        return self.examples[self.wrong_before < cap]


def solutions(is_correct: Bools, example_ids: Ints) -> Solutions:
    """Return the solved examples; `is_correct` and `example_ids` have shape [rows], in submission order."""
    correct = np.flatnonzero(is_correct)
    _, first = np.unique(example_ids[correct], return_index=True)
    rows = correct[np.sort(first)]
    return Solutions(example_ids[rows], rows, np.cumsum(~is_correct, dtype=np.int64)[rows])


def rows_read(is_correct: Bools, cap: int) -> int:
    """Return the number of rows up to and including wrong row number `cap`, or all rows if fewer are wrong."""
    wrong = np.flatnonzero(~is_correct)
    return int(wrong[cap - 1]) + 1 if len(wrong) >= cap else len(is_correct)


class Unit(StrEnum):
    """The unit that a replicate draws, which is assumed to be independent of other units."""

    EXAMPLE = "example"
    CLUSTER = "cluster"


class Interval(NamedTuple):
    """A 95 % interval, both ends included, and the unit that it assumes to be independent."""

    low: float
    high: float
    unit: Unit


def recall_interval(
    is_correct: Bools,
    example_ids: Ints,
    *,
    cap: int,
    examples: int,
    clusters: Ints | None = None,
    replicates: int = REPLICATES,
) -> Interval:
    """Return the 95 % percentile interval of recall at `cap` errors (Efron 1979).

    `is_correct` and `example_ids` have shape [rows], in submission order; `clusters`, [examples], numbers the cluster
    of each example. Replicates draw clusters if they are given, otherwise examples. If all replicates agree, the
    interval is Wilson's (1927) with one observation per unit.
    """
    sample = _Sample.of(examples, clusters)
    (recalls,) = _replicated_recalls([JudgedRows(is_correct, example_ids)], sample, cap, replicates)
    if np.ptp(recalls) == 0:
        low, high = wilson(float(recalls[0]), sample.units)
    else:
        low, high = map(float, percentiles(recalls))
    return Interval(low, high, sample.unit)


class SharedReplicates(NamedTuple):
    """The recall of each submission in each replicate, [submissions][replicates], and how many units of which kind."""

    recalls: list[Floats]
    unit: Unit
    units: int


def shared_replicates(
    submissions: Sequence[JudgedRows], *, cap: int, examples: int, clusters: Ints | None, replicates: int
) -> SharedReplicates:
    """Return the recall of each submission in replicates that they share, so that the recalls can be subtracted.

    The arguments are those of `recall_interval`.
    """
    sample = _Sample.of(examples, clusters)
    return SharedReplicates(_replicated_recalls(submissions, sample, cap, replicates), sample.unit, sample.units)


def wilson(proportion: float, observations: int, *, z: float = NORMAL_975) -> tuple[float, float]:
    """Return the score interval of a proportion in [0, 1] (Wilson 1927).

    z: the normal quantile of the upper end, by default for 95 %.
    """
    z2 = z**2 / observations
    centre = (proportion + z2 / 2) / (1 + z2)
    half = np.sqrt(proportion * (1 - proportion) * z2 + z2**2 / 4) / (1 + z2)
    return max(0.0, float(centre - half)), min(1.0, float(centre + half))


def newcombe(left: float, right: float, observations: int, *, z: float = NORMAL_975) -> tuple[float, float]:
    """Return the interval of left - right for two uncorrelated proportions (Newcombe 1998, method 10).

    z: as in `wilson`.
    """
    ends = (wilson(share, observations, z=z) for share in (left, right))
    return difference_interval(left, next(ends), right, next(ends))


def difference_interval(
    left: float, left_ends: tuple[float, float], right: float, right_ends: tuple[float, float]
) -> tuple[float, float]:
    """Return the interval of left - right from the intervals of two independent estimates (Zou and Donner 2008)."""
    difference = left - right
    return (
        difference - math.hypot(left - left_ends[0], right_ends[1] - right),
        difference + math.hypot(left_ends[1] - left, right - right_ends[0]),
    )


def draw_units(
    units: Sequence[int], *, seed: int | Sequence[int], replicates: int, at_once: int
) -> Iterator[list[NDArray[np.int64]]]:
    """Yield how often each unit is drawn in some replicates of a bootstrap, [at_once, units] for each side.

    units: the number of units of each side. As many as there are are drawn from a side, with replacement.
    at_once: a divisor of `replicates`. Equal arguments give equal draws.
    """
    generator = np.random.default_rng(seed)
    for _ in range(0, replicates, at_once):
        yield [generator.multinomial(number, np.full(number, 1 / number), size=at_once) for number in units]


def bootstrap_means(values: Floats | Bools, clusters: Ints) -> Floats:
    """Return the means of values [measures, n] in each replicate of a bootstrap, [REPLICATES, measures].

    A replicate draws as many clusters as there are, with replacement. All measures share the draws.

    clusters: [n], the cluster of each value.
    """
    _, cluster = np.unique(clusters, return_inverse=True)
    number = int(cluster.max()) + 1
    rows = np.concatenate([np.ones((1, values.shape[1])), values])
    sums = np.array([np.bincount(cluster, weights=row, minlength=number) for row in rows])  # [1 + measures, clusters]
    parts = []
    for (drawn,) in draw_units([number], seed=_MEANS_SEED, replicates=REPLICATES, at_once=_REPLICATES_AT_ONCE):
        totals = drawn @ sums.T
        parts.append(totals[:, 1:] / totals[:, :1])
    return np.concatenate(parts)


def percentiles(values: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the 95 % percentile interval (Efron 1979) of replicates, [replicates, ...], each [...]."""
    low, high = np.quantile(values, (0.025, 0.975), axis=0)
    return low, high


@dataclass(frozen=True)
class _Sample:
    """The units that replicates draw. unit_of_example: [examples], in 0..units-1; None if each is its own unit."""

    examples: int
    units: int
    unit: Unit
    unit_of_example: Ints | None

    @classmethod
    def of(cls, examples: int, clusters: Ints | None) -> "_Sample":
        if clusters is None:
            return cls(examples, examples, Unit.EXAMPLE, None)
        names, unit_of_example = np.unique(clusters, return_inverse=True)
        return cls(examples, len(names), Unit.CLUSTER, unit_of_example)

    def weights(self, replicates: int) -> Iterator[NDArray[np.int32]]:
        """Yield how often each example was drawn, [block, examples], for one block of replicates after the other."""
        generator = np.random.default_rng(_SEED)
        block = max(1, _BLOCK_WEIGHTS // self.examples)
        for start in range(0, replicates, block):
            count = min(block, replicates - start)
            units = generator.integers(self.units, size=(count, self.units), dtype=np.uint32)
            # The units of each replicate get numbers of their own, so that they are all counted at once.
            places = units + self.units * np.arange(count)[:, None]
            drawn = np.bincount(places.ravel(), minlength=places.size).astype(np.int32).reshape(places.shape)
            yield drawn if self.unit_of_example is None else drawn[:, self.unit_of_example]


@dataclass(frozen=True)
class _Order:
    """The part of a submission that a weighted walk reads.

    wrong: [wrong rows] the example of each wrong row, in order.
    solved: [solved] each example solved, ordered by its first correct row.
    wrong_before: [solved] how many of `wrong` come before that row.
    """

    wrong: Ints
    solved: Ints
    wrong_before: Ints

    @classmethod
    def of(cls, rows: JudgedRows, max_errors: float) -> "_Order":
        """Return the order of `rows` without the wrong rows that change no walk whose cap is at most `max_errors`.

        These are the wrong rows of an example after its first `max_errors`. If the example was drawn, its earlier wrong
        rows have ended the walk.
        """
        wrong = np.flatnonzero(~rows.is_correct)
        wrong = wrong[place_among_equals(rows.example_ids[wrong]) < max_errors]
        solved = solutions(*rows)
        return cls(rows.example_ids[wrong], solved.examples, np.searchsorted(wrong, solved.rows))


def _replicated_recalls(submissions: Sequence[JudgedRows], sample: _Sample, cap: int, replicates: int) -> list[Floats]:
    """Return the recall of each submission in each replicate, [replicates]; all submissions share the replicates."""
    # A replicate is at most `units` copies of the largest cluster.
    largest = 1 if sample.unit_of_example is None else int(np.bincount(sample.unit_of_example).max())
    orders = [_Order.of(rows, cap * largest * sample.units / sample.examples) for rows in submissions]
    recalls: list[list[Floats]] = [[] for _ in submissions]
    for weights in sample.weights(replicates):
        for order, parts in zip(orders, recalls, strict=True):
            parts.append(_weighted_recalls(order, weights, cap))
    return [np.concatenate(parts) for parts in recalls]


def _weighted_recalls(order: _Order, weights: NDArray[np.int32], cap: int) -> Floats:
    """Return recall in each replicate, [replicates], for weights [replicates, examples]."""
    sizes = weights.sum(axis=1)
    # `errors < allowed` with integers is the same as errors < cap x size / examples, without rounding errors.
    allowed = -(-cap * sizes // weights.shape[1])
    survived = _wrong_rows_survived(order.wrong, weights, allowed)
    counted = np.searchsorted(order.wrong_before, survived, side="right")
    by_all, by_any = int(counted.min()), int(counted.max())
    solved = weights.take(order.solved[:by_all], axis=1).sum(axis=1)
    disputed = weights.take(order.solved[by_all:by_any], axis=1)
    solved += (disputed * (np.arange(by_all, by_any) < counted[:, None])).sum(axis=1)
    return np.asarray(solved / sizes)


def _wrong_rows_survived(wrong: Ints, weights: NDArray[np.int32], allowed: Ints) -> Ints:
    """Return how many leading wrong rows cost fewer than `allowed` [replicates] errors together, [replicates]."""
    errors = np.zeros((len(weights), 1), np.int64)
    survived = np.zeros(len(weights), np.int64)
    walking = np.arange(len(weights))  # the replicates that are still in `weights`, `allowed` and `errors`
    for start in range(0, len(wrong), _CHUNK):
        cost = weights.take(wrong[start : start + _CHUNK], axis=1)
        errors_after = errors + np.cumsum(cost, axis=1)
        survived[walking] += (errors_after < allowed[:, None]).sum(axis=1)
        goes_on = errors_after[:, -1] < allowed
        if not goes_on.all():
            walking, weights, allowed = walking[goes_on], weights[goes_on], allowed[goes_on]
        errors = errors_after[goes_on, -1:]
        if not len(walking):
            break
    return survived
