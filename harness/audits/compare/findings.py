"""Findings of a comparison, from complete or partial rows."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from harness.audits.compare.inputs import Sequences
from harness.audits.compare.params import CompareParams
from harness.audits.compare.results import (
    COPIES,
    FEW_CLUSTERS,
    LEAKED,
    MEASURES,
    STRENGTH,
    CompareResults,
    Group,
    compare_results,
    most_changed,
)
from harness.audits.compare.rows import read_targets
from harness.audits.leakage.pairs import TokenDecoder
from harness.audits.report import bar_chart, difference, table_of
from harness.core.arrays import Ints
from harness.core.audit import RowsOf
from harness.core.findings import (
    Chart,
    Conclusion,
    Findings,
    FoundTable,
    HeatMap,
    KeyFigure,
    LineChart,
    Passage,
    Series,
    Stretch,
)
from harness.core.measures import Estimate
from harness.core.paths import model_names
from harness.core.text import format_interval, format_percent, format_score, json_value, pluralize

QUESTION = "Did memorization change?"
DEFINITIONS = {
    "exact memorization": "the share of the suffix's tokens that greedy decoding predicts, given all tokens before",
    "extraction strength": "the largest share of the suffix, counted from its end, that greedy decoding returns if it "
    "is given everything before",
    "greedy extraction": "the share of sequences whose whole suffix greedy decoding returns",
    "ESP": "exact sample probability: the probability that one query, given the prefix, returns the suffix exactly",
}
_SHOWN_PASSAGES, _CONTEXT = 20, 20
_BINS = 10
_SHARES = MEASURES[:5]


def compare_findings(params: CompareParams, given: Sequences, rows: RowsOf, models: Sequence[str]) -> Findings:
    """Return everything that is reported. It does not depend on the order of the rows.

    figures: `targets`, `sequences`, `groups` (by target and measure: `before`, `after`, `difference`, …), `copies`,
    `is_complete`.
    """
    names = model_names([*(one.name for one in given.stored), *models])
    results = compare_results(params, given, read_targets(rows, len(names)), names)
    if results is None:
        nothing: dict[str, Any] = {"targets": list(names), "groups": [], "is_complete": False}
        conclusion = Conclusion(QUESTION, "Not known yet", "two targets have not been measured")
        return Findings(nothing, ["Two targets have not been measured yet."], conclusion=conclusion)
    figures = {
        "targets": list(results.names),
        "sequences": len(results.subject.sequences),
        "groups": [_group_figures(results, group) for group in results.groups],
        "copies": [
            {"copies": one.copies, "sequences": one.sequences}
            | {
                name: dict(zip(MEASURES, means.tolist(), strict=True))
                for name, means in zip(results.names, one.means, strict=True)
            }
            for one in results.doses
        ],
        "is_complete": results.is_complete,
    }
    return Findings(
        figures=json_value(figures),
        sentences=list(_sentences(results)),
        tables=_tables(results),
        charts=_charts(results),
        passages=_passages(results),
        conclusion=_conclusion(results),
        definitions=DEFINITIONS,
    )


def _group_figures(results: CompareResults, group: Group) -> dict[str, Any]:
    return {
        "is_control": group.is_control,
        "sequences": len(group.sequences),
        "clusters": group.clusters,
        "means": {
            name: {measure: mean._asdict() for measure, mean in zip(MEASURES, means, strict=True)}
            for name, means in zip(results.names, group.means, strict=True)
        },
        "changes": {
            name: {one.measure: one._asdict() | {"difference": one.difference._asdict()} for one in changes}
            for name, changes in zip(results.names[1:], group.changes, strict=True)
        },
    }


def _conclusion(results: CompareResults) -> Conclusion:
    """Return the conclusion for the change from the first to the last target."""
    changes = results.subject.changes[-1]
    strength, leaked = changes[STRENGTH], changes[LEAKED]
    number = len(results.subject.sequences)
    answer = "Less" if strength.difference.high < 0 else "More" if strength.difference.low > 0 else "No clear change"
    if results.subject.clusters < FEW_CLUSTERS:
        answer = "Too few sequences"
    control = ""
    if results.control is not None:
        beside = results.control.changes[-1][STRENGTH]
        gap = difference(strength.difference, beside.difference)
        control = f"; that of the control by {_signed(beside.difference)}, a difference of {_signed(gap)}"
    so_far = "" if results.is_complete else "; not all sequences are measured yet"
    return Conclusion(
        QUESTION,
        answer,
        f"from {results.names[0]} to {results.names[-1]}, the extraction strength of "
        f"{pluralize(number, 'sequence')} changed by {_signed(strength.difference)}, from "
        f"{format_score(strength.before)} to {format_score(strength.after)}{control}; "
        f"{format_percent(leaked.before)} leaked in {results.params.queries:,} queries before and "
        f"{format_percent(leaked.after)} after{so_far}",
        "A suffix that is no longer likely after its prefix can still be known: another prefix, further training or a "
        "change of precision can bring it back.",
        tuple(
            KeyFigure(
                results.label(one.measure),
                f"{format_score(one.before)} → {format_score(one.after)}",
                f"difference {_signed(one.difference)}",
            )
            for one in changes[:4]
        ),
    )


def _signed(change: Estimate) -> str:
    value, low, high, _ = change
    return f"{format_score(value, is_signed=True)} {format_interval(low, high, is_signed=True)}"


def _sentences(results: CompareResults) -> Iterator[str]:
    group = results.subject
    yield (
        f"Intervals are 95 % intervals of a paired bootstrap over {pluralize(group.clusters, 'cluster')} of "
        f"{pluralize(len(group.sequences), 'sequence')}."
    )
    for name, changes in zip(results.names[1:], group.changes, strict=True):
        change = changes[STRENGTH]
        yield (
            f"{name}: the extraction strength of {format_percent(change.lower)} of the sequences is lower than under "
            f"{results.names[0]}, and that of {format_percent(change.higher)} is higher."
        )
    if results.control is not None:
        for name, changes in zip(results.names[1:], results.control.changes, strict=True):
            yield f"{name}, control: the extraction strength changed by {_signed(changes[STRENGTH].difference)}."
    yield from results.given.pairs.notes


def _tables(results: CompareResults) -> list[FoundTable]:
    changes = [
        {
            "sequences": "control" if group.is_control else "text",
            "target": name,
            "measure": results.label(one.measure),
            "before": one.before,
            "after": one.after,
            "difference": one.difference.value,
            "low": one.difference.low,
            "high": one.difference.high,
            "lower in": one.lower,
            "higher in": one.higher,
        }
        for group in results.groups
        for name, of_target in zip(results.names[1:], group.changes, strict=True)
        for one in of_target
    ]
    tables = [table_of("changes", f"Change from {results.names[0]}", changes)]
    if results.doses:
        doses = [
            {"copies": _copies_label(one.copies)}
            | {"sequences": one.sequences}
            | {name: means[STRENGTH] for name, means in zip(results.names, one.means, strict=True)}
            for one in results.doses
        ]
        tables.append(table_of("copies", "Extraction strength by number of copies in the training data", doses))
    return [*tables, _sequence_table(results)]


def _copies_label(copies: int) -> str:
    """Return the numbers of copies of the group that begins with `copies`."""
    place = COPIES.index(copies)
    if place + 1 == len(COPIES):
        return f"{copies} or more"
    last = COPIES[place + 1] - 1
    return str(copies) if last == copies else f"{copies}–{last}"


def _sequence_table(results: CompareResults) -> FoundTable:
    decoder = TokenDecoder(results.given.pairs.tokenizer)
    rows = []
    for group in results.groups:
        for place, sequence in enumerate(group.sequences.tolist()):
            row: dict[str, Any] = {
                "sequence": sequence + 1,
                "is control": group.is_control,
                "row": int(results.given.rows[sequence]) + 1,
                "copies": None if results.given.copies[sequence] < 0 else int(results.given.copies[sequence]),
            }
            for name, values in zip(results.names[1:], group.values[1:], strict=True):
                change = values[:, place] - group.values[0][:, place]
                row |= {
                    f"change of {results.label(measure)}, {name}": float(change[number])
                    for number, measure in enumerate(MEASURES)
                }
            for name, values in zip(results.names, group.values, strict=True):
                row |= {
                    f"{results.label(measure)}, {name}": float(values[number, place])
                    for number, measure in enumerate(MEASURES)
                }
            row["suffix"] = decoder.text(results.given.pairs.suffixes[sequence])
            for name, target in zip(results.names, results.targets, strict=True):
                completion = target.completions.get(sequence)
                row[f"completion, {name}"] = None if completion is None else decoder.text(completion)
            rows.append(row)
    texts = ("suffix", *(f"completion, {name}" for name in results.names))
    return table_of("sequences", "Every sequence", rows, is_detail=True, text_columns=texts)


def _charts(results: CompareResults) -> list[Chart]:
    labels = [results.label(measure) for measure in _SHARES]
    groups: dict[str, dict[str, Estimate]] = {}
    for group in results.groups:
        for name, means in zip(results.names, group.means, strict=True):
            groups[f"{name}, control" if group.is_control else name] = dict(zip(labels, means[:5], strict=True))
    controls = tuple(name for name in groups if name.endswith(", control"))
    bars = bar_chart("measures", "Memorization by target", "mean over sequences", groups, labels, controls=controls)
    charts: list[Chart] = [bars, _transition_chart(results)]
    if len(results.names) > 2:
        charts.append(_target_chart(results))
    if len(results.doses) > 1:
        charts.append(_dose_chart(results))
    return charts


def _transition_chart(results: CompareResults) -> Chart:
    """Return how many sequences have each extraction strength before and after."""
    # Shares such as 15/50 are not exact, so they are moved off the edges of the bins.
    bins = np.minimum(_BINS - 1, (_BINS * results.subject.values[:, STRENGTH] + 1e-9).astype(np.int64))
    counts = np.zeros((_BINS, _BINS))
    np.add.at(counts, (bins[-1], bins[0]), 1)
    labels = [f"{place / _BINS:.1f}–{(place + 1) / _BINS:.1f}" for place in range(_BINS)]
    counts = counts[::-1]
    return HeatMap(
        "transitions",
        f"Sequences by extraction strength: {results.names[0]} (columns) and {results.names[-1]} (rows)",
        labels[::-1],
        labels,
        np.where(counts > 0, counts, np.nan),
        [[f"{int(count):,}" if count else "" for count in row] for row in counts],
    )


def _target_chart(results: CompareResults) -> Chart:
    places = np.arange(1, len(results.names) + 1)
    series = []
    for number, measure in enumerate(_SHARES):
        means = np.array([of_target[number] for of_target in results.subject.means])  # [targets, 3]
        series.append(Series(results.label(measure), places, means[:, 0], means[:, 1], means[:, 2]))
    title = f"Memorization by target: {', '.join(f'{place} {name}' for place, name in enumerate(results.names, 1))}"
    return LineChart("targets", title, "target", "mean over sequences", series, has_markers=True)


def _dose_chart(results: CompareResults) -> Chart:
    copies = np.array([max(0.5, one.copies) for one in results.doses])
    series = [
        Series(name, copies, np.array([one.means[number][STRENGTH] for one in results.doses]))
        for number, name in enumerate(results.names)
    ]
    return LineChart(
        "copies",
        "Extraction strength by copies in the training data",
        "copies",
        "mean extraction strength",
        series,
        is_x_logarithmic=True,
        has_markers=True,
    )


def _passages(results: CompareResults) -> list[Passage]:
    """Return the sequences that changed most from the first to the last target, with what both return."""
    decoder = TokenDecoder(results.given.pairs.tokenizer)
    pairs, last = results.given.pairs, len(results.names) - 1
    values = results.subject.values

    def stretches(tokens: Ints, suffix: Ints) -> list[Stretch]:
        return [
            Stretch(piece, bool(tokens[place] != suffix[place])) for place, piece in enumerate(decoder.pieces(tokens))
        ]

    found = []
    for place in most_changed(results, last, _SHOWN_PASSAGES).tolist():
        sequence = int(results.subject.sequences[place])
        suffix = pairs.suffixes[sequence]
        texts: list[tuple[str, Sequence[Stretch]]] = [
            ("end of the prefix", [Stretch(decoder.text(pairs.prefixes[sequence][-_CONTEXT:]))]),
            ("suffix", [Stretch(decoder.text(suffix))]),
        ]
        for number in (0, last):
            completion = results.targets[number].completions.get(sequence)
            if completion is not None:
                texts.append((results.names[number], stretches(completion, suffix)))
        before, after = values[0, STRENGTH, place], values[last, STRENGTH, place]
        title = f"sequence {sequence + 1}: extraction strength {format_score(before)} → {format_score(after)}"
        found.append(Passage(title, texts))
    return found
