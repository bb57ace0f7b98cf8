"""Results of a comparison: the measures of every sequence under every target, their means and their changes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from harness.audits.compare.inputs import SCHEMES, ComparedPairs, CompareParams
from harness.audits.leakage.tokens import TOKENS, tokens_by_sequence
from harness.audits.probabilities import leaked_probability, log_esp
from harness.core.arrays import Bools, Floats, Ints
from harness.core.audit import RowsOf, last_rows
from harness.core.intervals import bootstrap_means, percentiles
from harness.core.measures import Estimate, Measure, MeasureRow, MeasureTable, Unit
from harness.core.rows import Kind, table

COMPLETIONS = table("completion", model=Kind.INTEGER, sequence=Kind.INTEGER, tokens=Kind.REALS)
"""The greedy completion of a prefix."""

EXACT = Measure(
    "exact_memorization",
    "exact memorization",
    "the share of the suffix's tokens that greedy decoding predicts, given all tokens before",
)
STRENGTH = Measure(
    "extraction_strength",
    "extraction strength",
    "the largest share of the suffix, counted from its end, that greedy decoding returns if it is given everything "
    "before",
)
GREEDY = Measure("greedy", "greedy extraction", "the share of sequences whose whole suffix greedy decoding returns")
ESP = Measure(
    "esp",
    "ESP",
    "exact sample probability: the probability that one query, given the prefix, returns the suffix exactly",
)
LEAKED = Measure(
    "leaked",
    "leaked in {at} queries",
    "the expected share of sequences that at least one of some queries returns",
    at_name="queries",
)
LIKELIHOOD = Measure(
    "log_likelihood",
    "log-likelihood per token",
    "the mean log-probability of the suffix's tokens under plain sampling",
    Unit.NUMBER,
)
SHARES = (EXACT, STRENGTH, GREEDY, ESP, LEAKED)
"""The measures that are shares, which one chart can show."""
MEMORIZATION = (*SHARES, LIKELIHOOD)
"""The measures of a sequence under a target."""
CHANGE = Measure("change", "difference", "the mean change of a measure from the first target", Unit.CHANGE)
LOWER = Measure("lower_in", "lower in", "the share of sequences whose measure is lower than under the first target")
HIGHER = Measure("higher_in", "higher in", "the share of sequences whose measure is higher than under the first target")
MEASURES = (*MEMORIZATION, CHANGE, LOWER, HIGHER)
FEW_CLUSTERS = 10
"""With fewer clusters, intervals of a bootstrap are too narrow for a conclusion."""
COPIES = {"0": 0, "1": 1, "2–3": 2, "4–7": 4, "8–15": 8, "16–31": 16, "32–63": 32, "64–127": 64, "128 or more": 128}
"""The smallest number of copies of each group of sequences."""
TEXT, CONTROL = "text", "control"
BY_COPIES = "copies: "
"""The beginning of the side of the sequences with a number of copies, which is a key of `COPIES`."""


@dataclass(frozen=True)
class Group:
    """The sequences of a comparison, or those of the control."""

    side: str
    sequences: Ints
    """Their numbers, [n]."""
    values: Floats
    """Each of `MEMORIZATION` of the sequences under all targets, [measures, targets, n]."""
    clusters: Ints
    """The cluster of near-copies of each, [n]."""

    @property
    def strength(self) -> Floats:
        """The extraction strength of the sequences, [targets, n]."""
        return np.asarray(self.values[MEMORIZATION.index(STRENGTH)])

    def most_changed(self, limit: int) -> Ints:
        """Return the places of the sequences that changed most from the first target to the last one."""
        esp = self.values[MEMORIZATION.index(ESP)]
        strength, esp = (np.abs(values[-1] - values[0]) for values in (self.strength, esp))
        order = np.lexsort((self.sequences, -esp, -strength))
        return np.asarray(order[(strength + esp)[order] > 0][:limit])


@dataclass(frozen=True)
class CompareResults:
    """The compared targets with their values, strengths and completions."""

    params: CompareParams
    pairs: ComparedPairs
    names: Sequence[str]
    """The targets that were measured, the first one being the reference."""
    completions: Sequence[Mapping[int, Ints]]
    """The greedy completion of each sequence under each target."""
    groups: list[Group]
    """The sequences, and the control if there is one."""
    measures: MeasureTable
    """The mean of each measure under each target, the changes from the first target, and the means by copies."""
    is_complete: bool

    @property
    def subject(self) -> Group:
        """The sequences that are compared."""
        return self.groups[0]

    @property
    def has_control(self) -> bool:
        """True if there is a control."""
        return len(self.groups) > 1

    def mean(self, measure: Measure, model: str, side: str = TEXT) -> float:
        """Return the mean of a measure under a target."""
        return self.measures.get(measure, model=model, side=side).value

    def change(self, measure: Measure, side: str = TEXT) -> Estimate:
        """Return the change of a measure from the first to the last target."""
        return self.measures.get(CHANGE, model=self.names[-1], side=side, case=label_of(measure, self.params))


def label_of(measure: Measure, params: CompareParams) -> str:
    """Return the name of a measure with its scheme and its parameter."""
    label = measure.label(params.queries if measure is LEAKED else None)
    return f"{label}, {params.label}" if measure is ESP else label


def compare_results(
    params: CompareParams, pairs: ComparedPairs, rows: RowsOf, names: Sequence[str]
) -> CompareResults | None:
    """Return all results, or None before anything is measured. names: of all targets."""
    tokens = [tokens_by_sequence(rows(TOKENS.name), model, pairs.prefix_length, SCHEMES) for model in range(len(names))]
    targets = [model for model, (sequences, _) in enumerate(tokens) if len(sequences)]
    common = reduce(np.intersect1d, [tokens[model][0] for model in targets], np.arange(len(pairs)))
    is_control = pairs.is_control[common]
    if not targets or is_control.all():
        return None
    of_targets = [_values(params, *tokens[model], common) for model in targets]
    values = np.moveaxis(np.array(of_targets), 0, 1)  # [measures, targets, n]
    groups = [
        Group(side, common[is_of_side], values[:, :, is_of_side], pairs.clusters(common[is_of_side]))
        for side, is_of_side in ((TEXT, ~is_control), (CONTROL, is_control))
        if is_of_side.any()
    ]
    target_names = [names[model] for model in targets]
    measures = [row for group in groups for row in _group_rows(params, group, target_names)]
    copies = np.searchsorted(list(COPIES.values()), pairs.copies[common], side="right") - 1  # -1 if unknown
    for number in np.unique(copies[copies >= 0]).tolist():
        side = BY_COPIES + list(COPIES)[number]
        measures += _mean_rows(params, side, values[:, :, copies == number], target_names)
    completions = [_completions(rows, model) for model in targets]
    is_complete = len(targets) == len(names) and all(
        len(sequences) == len(pairs) and (len(pairs.targets) > 0 or len(completed) == len(pairs))
        for (sequences, _), completed in zip(tokens, completions, strict=True)
    )
    return CompareResults(params, pairs, target_names, completions, groups, MeasureTable(measures), is_complete)


def _completions(rows: RowsOf, model: int) -> dict[int, Ints]:
    """Return the greedy completion of each sequence under a target."""
    completions = last_rows(rows(COMPLETIONS.name), model=model)
    return dict(zip(completions["sequence"].tolist(), completions["tokens"].astype(np.int64), strict=True))


def is_predicted(greedy_logprobs: Floats) -> Bools:
    """Return which tokens greedy decoding predicts, in the shape of greedy_logprobs: 0 for these, -inf for others."""
    return np.asarray(greedy_logprobs == 0)


def exact_memorization(predicted: Bools) -> Floats:
    """Return the share of the suffix's tokens that the target predicts, given all tokens before each, [n].

    predicted: [n, length]. Tirumala et al. 2022; `exact_memorization` of open-unlearning.
    """
    return np.asarray(predicted.mean(axis=1))


def extraction_strength(predicted: Bools) -> Floats:
    """Return 1 - k / length, [n], for the fewest suffix tokens k after which the target predicts all others.

    predicted: [n, length]. Carlini et al. 2021; `extraction_strength` of open-unlearning, whose loop ends at k =
    length - 1, so that it gives 1 / length where this is 0.
    """
    length = predicted.shape[1]
    tail = np.cumprod(predicted[:, ::-1], axis=1).sum(axis=1)
    return np.asarray(tail / length)


def _values(params: CompareParams, of_target: Ints, logprobs: Floats, sequences: Ints) -> Floats:
    """Return each of `MEMORIZATION` of some `sequences` under one target, [measures, n].

    of_target: all sequences that were measured, [m].
    logprobs: [schemes, m, length].
    """
    greedy, plain, top_k = logprobs[:, np.searchsorted(of_target, sequences)]
    predicted, logs = is_predicted(greedy), log_esp(top_k)
    values = {
        EXACT: exact_memorization(predicted),
        STRENGTH: extraction_strength(predicted),
        GREEDY: predicted.all(axis=1),
        ESP: np.exp(logs),
        LEAKED: leaked_probability(logs, params.queries),
        LIKELIHOOD: plain.mean(axis=1),
    }
    return np.array([values[measure] for measure in MEMORIZATION])


def _estimate(values: Floats, replicates: Floats | None = None) -> Estimate:
    """Return the mean of values [n] with the percentiles of its replicates [REPLICATES].

    The interval is NaN if all replicates are equal but for rounding, and the values are not.
    """
    mean, number = float(values.mean()), len(values)
    if replicates is None or np.ptp(replicates) < 1e-12 < np.ptp(values):
        return Estimate(mean, of=number)
    low, high = percentiles(replicates)
    return Estimate(mean, float(low), float(high), number)


def _mean_rows(
    params: CompareParams, side: str, values: Floats, names: Sequence[str], replicates: Floats | None = None
) -> Iterator[MeasureRow]:
    """Yield the mean of each measure under each target. replicates: [measures, targets, REPLICATES]."""
    for target, name in enumerate(names):
        for place, measure in enumerate(MEMORIZATION):
            # The others are of greedy decoding and plain sampling.
            case = params.label if measure in (ESP, LEAKED) else ""
            at = params.queries if measure is LEAKED else None
            mean = _estimate(values[place, target], None if replicates is None else replicates[place, target])
            yield MeasureRow(measure, mean, name, side, case, at)


def _group_rows(params: CompareParams, group: Group, names: Sequence[str]) -> Iterator[MeasureRow]:
    """Yield the means, and the paired differences from the first target, with the shares that fell and rose."""
    shape, side = group.values.shape, group.side
    # All measures and targets share the draws of clusters.
    means = bootstrap_means(group.values.reshape(-1, shape[2]), group.clusters)
    replicates = means.T.reshape(*shape[:2], -1)
    yield from _mean_rows(params, side, group.values, names, replicates)
    for target, name in enumerate(names[1:], 1):
        for measure, values, drawn in zip(MEMORIZATION, group.values, replicates, strict=True):
            change, case = values[target] - values[0], label_of(measure, params)
            yield MeasureRow(CHANGE, _estimate(change, drawn[target] - drawn[0]), name, side, case)
            yield MeasureRow(LOWER, _estimate(change < 0), name, side, case)
            yield MeasureRow(HIGHER, _estimate(change > 0), name, side, case)
