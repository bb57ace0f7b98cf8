"""Results of a comparison: the measures of every sequence under every target, their means and their changes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from harness.audits.compare.inputs import SCHEMES, ComparedPairs, CompareParams
from harness.audits.leakage.tokens import TOKENS, tokens_by_sequence
from harness.audits.probabilities import Scheme, leaked_probability, log_esp
from harness.core.arrays import Bools, Floats, Ints
from harness.core.audit import RowsOf
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

Values = Mapping[Measure, Floats]
"""The measures of sequences under all targets, [targets, n] each."""


@dataclass(frozen=True)
class Group:
    """The sequences of a comparison, or those of the control."""

    side: str
    sequences: Ints
    """Their numbers, [n]."""
    values: Values
    clusters: int
    """The number of clusters of near-copies."""


@dataclass(frozen=True)
class CompareResults:
    """All results."""

    params: CompareParams
    pairs: ComparedPairs
    names: Sequence[str]
    """The targets that were measured, the first one being the reference."""
    completions: Sequence[Mapping[int, Ints]]
    """The greedy completion of each sequence under each target."""
    groups: list[Group]
    """The sequences, and the control if there is one."""
    measured: MeasureTable
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
        return self.measured.get(measure, model=model, side=side).value

    def change(self, measure: Measure, model: str, side: str = TEXT) -> Estimate:
        """Return the change of a measure from the first target to another one."""
        return self.measured.get(CHANGE, model=model, side=side, case=label_of(measure, self.params))


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
    values = {measure: np.array([of_target[measure] for of_target in of_targets]) for measure in MEMORIZATION}
    measured = [names[model] for model in targets]
    completions = [_completions(rows, model) for model in targets]
    groups: list[Group] = []
    means: list[MeasureRow] = []
    changes: list[MeasureRow] = []
    for side, is_chosen in ((TEXT, ~is_control), (CONTROL, is_control)):
        if is_chosen.any():
            chosen = common[is_chosen]
            clusters = pairs.clusters(chosen)
            group = Group(side, chosen, _chosen(values, is_chosen), len(np.unique(clusters)))
            groups.append(group)
            replicates = _replicates(group.values, clusters)
            means += _means(params, group, replicates, measured)
            changes += _changes(params, group, replicates, measured)
    copies = _by_copies(params, pairs.copies[common], values, measured)
    is_complete = len(targets) == len(names) and all(
        len(sequences) == len(pairs) and (len(pairs.targets) > 0 or len(completed) == len(pairs))
        for (sequences, _), completed in zip(tokens, completions, strict=True)
    )
    everything = MeasureTable([*means, *changes, *copies])
    return CompareResults(params, pairs, measured, completions, groups, everything, is_complete)


def _completions(rows: RowsOf, model: int) -> dict[int, Ints]:
    """Return the greedy completion of each sequence under a target."""
    completed = rows(COMPLETIONS.name)
    return {
        int(completed["sequence"][place]): completed["tokens"][place].astype(np.int64)
        for place in np.flatnonzero(np.asarray(completed["model"]) == model).tolist()
    }


def most_changed(results: CompareResults, target: int, limit: int) -> Ints:
    """Return the places in the subject of the sequences that changed most from the first target to number `target`."""
    values = results.subject.values
    strength = np.abs(values[STRENGTH][target] - values[STRENGTH][0])
    esp = np.abs(values[ESP][target] - values[ESP][0])
    order = np.lexsort((results.subject.sequences, -esp, -strength))
    return np.asarray(order[(strength + esp)[order] > 0][:limit])


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


def _values(params: CompareParams, measured: Ints, logprobs: Floats, sequences: Ints) -> dict[Measure, Floats]:
    """Return the measures of some of the `measured` sequences under one target, [n] each.

    logprobs: [schemes, measured, length].
    """
    by_scheme = dict(zip(SCHEMES, logprobs[:, np.searchsorted(measured, sequences)], strict=True))
    predicted = is_predicted(by_scheme[Scheme.GREEDY])
    logs = log_esp(by_scheme[Scheme.TOP_K])
    return {
        EXACT: exact_memorization(predicted),
        STRENGTH: extraction_strength(predicted),
        GREEDY: predicted.all(axis=1).astype(np.float64),
        ESP: np.exp(logs),
        LEAKED: leaked_probability(logs, params.queries),
        LIKELIHOOD: by_scheme[Scheme.PLAIN].mean(axis=1),
    }


def _chosen(values: Values, is_chosen: Bools) -> Values:
    return {measure: of_measure[:, is_chosen] for measure, of_measure in values.items()}


def _replicates(values: Values, clusters: Ints) -> Values:
    """Return the mean of each measure in each replicate, [targets, REPLICATES]; all share the draws of clusters."""
    stacked = np.array(list(values.values()))  # [measures, targets, n]
    measures, targets, number = stacked.shape
    means = bootstrap_means(stacked.reshape(-1, number), clusters).T.reshape(measures, targets, -1)
    return dict(zip(values, means, strict=True))


def _estimate(values: Floats, replicates: Floats | None = None) -> Estimate:
    """Return the mean of values [n] with the percentiles of its replicates [REPLICATES].

    The interval is NaN if all replicates are equal but for rounding, and the values are not.
    """
    mean, number = float(values.mean()), len(values)
    if replicates is None or np.ptp(replicates) < 1e-12 < np.ptp(values):
        return Estimate(mean, of=number)
    low, high = percentiles(replicates)
    return Estimate(mean, float(low), float(high), number)


def _mean_row(params: CompareParams, measure: Measure, mean: Estimate, model: str, side: str) -> MeasureRow:
    # The others are of greedy decoding and plain sampling.
    case = params.label if measure in (ESP, LEAKED) else ""
    return MeasureRow(measure, mean, model, side, case, params.queries if measure is LEAKED else None)


def _means(params: CompareParams, group: Group, replicates: Values, names: Sequence[str]) -> Iterator[MeasureRow]:
    for place, name in enumerate(names):
        for measure, values in group.values.items():
            yield _mean_row(params, measure, _estimate(values[place], replicates[measure][place]), name, group.side)


def _changes(params: CompareParams, group: Group, replicates: Values, names: Sequence[str]) -> Iterator[MeasureRow]:
    """Yield the paired difference of each measure from the first target, and in how many sequences it fell and rose."""
    for place, name in enumerate(names[1:], 1):
        for measure, values in group.values.items():
            change = values[place] - values[0]
            for of_change, estimate in (
                (CHANGE, _estimate(change, replicates[measure][place] - replicates[measure][0])),
                (LOWER, _estimate(change < 0)),
                (HIGHER, _estimate(change > 0)),
            ):
                yield MeasureRow(of_change, estimate, name, group.side, label_of(measure, params))


def _by_copies(params: CompareParams, copies: Ints, values: Values, names: Sequence[str]) -> Iterator[MeasureRow]:
    """Yield the means by number of copies, if it is known. copies: [n], -1 if unknown."""
    group = np.searchsorted(list(COPIES.values()), copies, side="right") - 1
    for number in np.unique(group[group >= 0]).tolist():
        chosen = _chosen(values, group == number)
        for place, name in enumerate(names):
            for measure, of_measure in chosen.items():
                yield _mean_row(params, measure, _estimate(of_measure[place]), name, BY_COPIES + list(COPIES)[number])
