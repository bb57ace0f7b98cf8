"""Results of a comparison as numbers, shared by its tables, charts, sentences and JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from harness.audits.compare.inputs import Sequences
from harness.audits.compare.measures import exact_memorization, extraction_strength, is_predicted
from harness.audits.compare.params import SCHEMES, CompareParams
from harness.audits.compare.rows import TargetRows
from harness.audits.probabilities import leaked_probability, log_esp
from harness.audits.schemes import Scheme
from harness.core.arrays import Bools, Floats, Ints
from harness.core.clusters import WINDOW, cluster_ids
from harness.core.measures import Estimate

REPLICATES = 2000
_SEED = 20240601
_REPLICATES_AT_ONCE = 100
FEW_CLUSTERS = 10
"""With fewer clusters, intervals of a bootstrap are too narrow for a conclusion."""
COPIES = (0, 1, 2, 4, 8, 16, 32, 64, 128)
"""The smallest number of copies of each group of sequences."""
MEASURES = ("exact_memorization", "extraction_strength", "greedy", "esp", "leaked", "log_likelihood")
STRENGTH, LEAKED = MEASURES.index("extraction_strength"), MEASURES.index("leaked")


class Change(NamedTuple):
    """The change of one measure from the first target to another.

    difference: after - before, with its paired interval. lower, higher: the shares of sequences in which it fell and
    rose.
    """

    measure: str
    before: float
    after: float
    difference: Estimate
    lower: float
    higher: float


@dataclass(frozen=True)
class Group:
    """The sequences of a comparison, or those of the control.

    sequences: [n], their numbers. values: [targets, measures, n]. means: by target and measure. changes: by target, the
    first one excluded, and measure. clusters: how many.
    """

    is_control: bool
    sequences: Ints
    values: Floats
    means: list[list[Estimate]]
    changes: list[list[Change]]
    clusters: int


class Dose(NamedTuple):
    """The sequences with at least `copies` copies, and fewer than the next group has. means: [targets, measures]."""

    copies: int
    sequences: int
    means: Floats


@dataclass(frozen=True)
class CompareResults:
    """All results. names: of the targets that were measured, the first one being the reference."""

    params: CompareParams
    given: Sequences
    names: Sequence[str]
    targets: Sequence[TargetRows]
    subject: Group
    control: Group | None
    doses: list[Dose]
    is_complete: bool

    @property
    def groups(self) -> list[Group]:
        """The sequences, and the control if there is one."""
        return [self.subject, *([self.control] if self.control is not None else [])]

    def label(self, measure: str) -> str:
        """Return the name of a measure in reports."""
        return {
            "exact_memorization": "exact memorization",
            "extraction_strength": "extraction strength",
            "greedy": "greedy extraction",
            "esp": f"ESP, {self.params.label}",
            "leaked": f"leaked in {self.params.queries:,} queries",
            "log_likelihood": "log-likelihood per token",
        }[measure]


def compare_results(
    params: CompareParams, given: Sequences, targets: Sequence[TargetRows], names: Sequence[str]
) -> CompareResults | None:
    """Return all results, or None before two targets have sequences in common. names: of all targets."""
    if len(targets) < 2:
        return None
    common = targets[0].sequences
    for other in targets[1:]:
        common = np.intersect1d(common, other.sequences)
    if not len(common):
        return None
    values = np.array([_values(params, one, common) for one in targets])  # [targets, measures, n]
    is_control = given.is_control[common]
    groups = [
        _group(given, common[chosen], values[:, :, chosen], is_control=control)
        for control, chosen in ((False, ~is_control), (True, is_control))
        if chosen.any()
    ]
    if groups[0].is_control:
        return None
    number = len(given.pairs)
    is_complete = len(targets) == len(names) and all(len(one.sequences) == number for one in targets)
    measured = [one for one in targets if one.target >= len(given.stored)]
    is_complete = is_complete and all(len(one.completions) == number for one in measured)
    return CompareResults(
        params,
        given,
        [names[one.target] for one in targets],
        targets,
        groups[0],
        groups[1] if len(groups) > 1 else None,
        _doses(given, common, values),
        is_complete,
    )


def bootstrap_means(values: Floats, clusters: Ints) -> Floats:
    """Return the means of values [measures, n] in each replicate, [REPLICATES, measures].

    A replicate draws as many clusters as there are, with replacement.
    """
    _, cluster = np.unique(clusters, return_inverse=True)
    number = int(cluster.max()) + 1
    rows = np.concatenate([np.ones((1, values.shape[1])), values])
    sums = np.array([np.bincount(cluster, weights=row, minlength=number) for row in rows])  # [1 + measures, clusters]
    generator = np.random.default_rng(_SEED)
    parts = []
    for _ in range(0, REPLICATES, _REPLICATES_AT_ONCE):
        drawn = generator.multinomial(number, np.full(number, 1 / number), size=_REPLICATES_AT_ONCE)
        totals = drawn @ sums.T
        parts.append(totals[:, 1:] / totals[:, :1])
    return np.concatenate(parts)


def most_changed(results: CompareResults, target: int, most: int) -> Ints:
    """Return the places in the subject of the sequences that changed most from the first target to number `target`."""
    values = results.subject.values
    strength = np.abs(values[target, STRENGTH] - values[0, STRENGTH])
    esp = MEASURES.index("esp")
    leaked = np.abs(values[target, esp] - values[0, esp])
    order = np.lexsort((results.subject.sequences, -leaked, -strength))
    return np.asarray(order[(strength + leaked)[order] > 0][:most])


def _values(params: CompareParams, rows: TargetRows, sequences: Ints) -> Floats:
    """Return the measures of some sequences under one target, [measures, n]."""
    places = np.searchsorted(rows.sequences, sequences)
    by_scheme = dict(zip(SCHEMES, rows.logprobs[:, places], strict=True))
    predicted: Bools = is_predicted(by_scheme[Scheme.GREEDY])
    logs = log_esp(by_scheme[params.main])
    return np.array(
        [
            exact_memorization(predicted),
            extraction_strength(predicted),
            predicted.all(axis=1),
            np.exp(logs),
            leaked_probability(logs, params.queries),
            by_scheme[Scheme.PLAIN].mean(axis=1),
        ],
        np.float64,
    )


def _group(given: Sequences, sequences: Ints, values: Floats, *, is_control: bool) -> Group:
    pairs = given.pairs
    whole = np.concatenate([pairs.prefixes[sequences], pairs.suffixes[sequences]], axis=1)
    clusters = cluster_ids([whole], window=min(WINDOW, whole.shape[1]))
    targets, measures, number = values.shape
    replicates = bootstrap_means(values.reshape(-1, number), clusters).reshape(-1, targets, measures)
    means = [_estimates(values[target], replicates[:, target]) for target in range(targets)]
    changes = []
    for target, after in enumerate(values[1:], 1):
        differences = _estimates(after - values[0], replicates[:, target] - replicates[:, 0])
        changes.append(
            [
                Change(
                    measure,
                    float(before.mean()),
                    float(now.mean()),
                    difference,
                    float((now < before).mean()),
                    float((now > before).mean()),
                )
                for measure, before, now, difference in zip(MEASURES, values[0], after, differences, strict=True)
            ]
        )
    return Group(is_control, sequences, values, means, changes, len(np.unique(clusters)))


def _estimates(values: Floats, replicates: Floats) -> list[Estimate]:
    """Return the mean of each row of values [measures, n] with the percentiles of its replicates [any, measures].

    The interval is NaN if all replicates are equal but for rounding, and the values are not.
    """
    low, high = np.quantile(replicates, (0.025, 0.975), axis=0)
    unknown = (np.ptp(replicates, axis=0) < 1e-12) & (np.ptp(values, axis=1) > 1e-12)
    low, high = np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)
    return [Estimate(float(row.mean()), float(low[place]), float(high[place])) for place, row in enumerate(values)]


def _doses(given: Sequences, common: Ints, values: Floats) -> list[Dose]:
    """Return the means by number of copies, if it is known."""
    copies = given.copies[common]
    group = np.searchsorted(COPIES, copies, side="right") - 1
    return [
        Dose(COPIES[number], int(chosen.sum()), values[:, :, chosen].mean(axis=2))
        for number in range(len(COPIES))
        if (chosen := group == number).any()
    ]
