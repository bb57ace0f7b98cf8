"""Findings of a comparison, from complete or partial rows."""

from collections.abc import Iterator, Sequence

import numpy as np

from harness.audits.compare.inputs import ComparedPairs, CompareParams
from harness.audits.compare.results import (
    BY_COPIES,
    CHANGE,
    CONTROL,
    ESP,
    EXACT,
    FEW_CLUSTERS,
    GREEDY,
    HIGHER,
    LEAKED,
    LOWER,
    MEMORIZATION,
    SHARES,
    STRENGTH,
    TEXT,
    CompareResults,
    compare_results,
    label_of,
    most_changed,
)
from harness.audits.leakage.pairs import TokenDecoder
from harness.audits.report import Part, bars_of, difference, measure_table, table_of, wide_table
from harness.audits.smallest_result import clear_changes
from harness.core.arrays import Ints
from harness.core.audit import RowsOf
from harness.core.findings import Chart, Conclusion, Findings, FoundTable, HeatMap, KeyFigure, Passage, Stretch
from harness.core.measures import Estimate, Measure, MeasureRow, MeasureTable
from harness.core.paths import model_names
from harness.core.text import format_percent, format_score, pluralize

QUESTION = "Did memorization change?"
DEFINITIONS = {measure.title: measure.meaning for measure in (EXACT, STRENGTH, GREEDY, ESP)}
_BEFORE = Measure("before", "before", "the mean under the first target")
_AFTER = Measure("after", "after", "the mean under the target")
_SHOWN_PASSAGES, _CONTEXT = 20, 20
_BINS = 10


def compare_findings(params: CompareParams, pairs: ComparedPairs, rows: RowsOf, models: Sequence[str]) -> Findings:
    """Return everything that is reported. It does not depend on the order of the rows.

    figures: `targets`, `sequences`, `control_sequences`, `clusters`, `is_complete`.
    """
    names = model_names([*pairs.targets, *models])
    results = compare_results(params, pairs, rows, names)
    if results is None or len(results.names) < 2:
        conclusion = Conclusion(QUESTION, "Not known yet", "two targets have not been measured")
        return Findings(
            {"targets": list(names), "is_complete": False},
            ["Two targets have not been measured yet."],
            conclusion=conclusion,
            measures=MeasureTable() if results is None else results.measured,
        )
    return Findings(
        figures={
            "targets": list(results.names),
            "sequences": len(results.subject.sequences),
            "control_sequences": len(results.groups[1].sequences) if results.has_control else 0,
            "clusters": results.subject.clusters,
            "is_complete": results.is_complete,
        },
        sentences=list(_sentences(results)),
        tables=[*_tables(results), measure_table(results.measured), _sequence_table(results)],
        charts=_charts(results),
        passages=_passages(results),
        conclusion=_conclusion(results),
        definitions=DEFINITIONS,
        measures=results.measured,
    )


def _conclusion(results: CompareResults) -> Conclusion:
    """Return the conclusion for the change from the first to the last target."""
    first, last, params, text = results.names[0], results.names[-1], results.params, CHANGE.unit.format_estimate
    change = results.change(STRENGTH, last)
    answer = "Less" if change.high < 0 else "More" if change.low > 0 else "No clear change"
    smallest = ""
    if results.subject.clusters < FEW_CLUSTERS:
        answer = "Too few sequences"
        smallest = f"; with fewer than {pluralize(FEW_CLUSTERS, 'cluster')}, no change could have been clear"
    elif answer == "No clear change":
        before = results.mean(STRENGTH, first)
        smallest = f"; {clear_changes(change, -before, 1 - before, CHANGE.unit.format)}"
    control = ""
    if results.has_control:
        of_control = results.change(STRENGTH, last, CONTROL)
        gap = difference(change, of_control)
        control = f"; that of the control by {text(of_control)}, a difference of {text(gap)}"
    so_far = "" if results.is_complete else "; not all sequences are measured yet"

    def before_and_after(measure: Measure) -> list[str]:
        return [measure.unit.format(results.mean(measure, name)) for name in (first, last)]

    strengths = before_and_after(STRENGTH)
    leaked = [format_percent(results.mean(LEAKED, name)) for name in (first, last)]
    return Conclusion(
        QUESTION,
        answer,
        f"from {first} to {last}, the extraction strength of "
        f"{pluralize(len(results.subject.sequences), 'sequence')} changed by {text(change)}, from "
        f"{strengths[0]} to {strengths[1]}{control}; {leaked[0]} leaked in {params.queries:,} queries before and "
        f"{leaked[1]} after{smallest}{so_far}",
        "A suffix that is no longer likely after its prefix can still be known: another prefix, further training or a "
        "change of precision can bring it back.",
        [
            KeyFigure(
                label_of(measure, params),
                " → ".join(before_and_after(measure)),
                f"difference {text(results.change(measure, last))}",
            )
            for measure in (EXACT, STRENGTH, GREEDY, ESP)
        ],
    )


def _sentences(results: CompareResults) -> Iterator[str]:
    group, strength = results.subject, label_of(STRENGTH, results.params)
    yield (
        f"Intervals are 95 % intervals of a paired bootstrap over {pluralize(group.clusters, 'cluster')} of "
        f"{pluralize(len(group.sequences), 'sequence')}."
    )
    for name in results.names[1:]:
        lower, higher = (
            format_percent(results.measured.get(measure, model=name, side=TEXT, case=strength).value)
            for measure in (LOWER, HIGHER)
        )
        yield (
            f"{name}: the extraction strength of {lower} of the sequences is lower than under "
            f"{results.names[0]}, and that of {higher} is higher."
        )
    if results.has_control:
        for name in results.names[1:]:
            change = CHANGE.unit.format_estimate(results.change(STRENGTH, name, CONTROL))
            yield f"{name}, control: the extraction strength changed by {change}."
    yield from results.pairs.notes


def _tables(results: CompareResults) -> list[FoundTable]:
    rows, measures = list[MeasureRow](), {label_of(measure, results.params): measure for measure in MEMORIZATION}
    for change, lower, higher in zip(*map(results.measured.select, (CHANGE, LOWER, HIGHER)), strict=True):
        for column, name in ((_BEFORE, results.names[0]), (_AFTER, change.model)):
            mean = Estimate(results.mean(measures[change.case], name, change.side))
            rows.append(change._replace(measure=column, estimate=mean))
        rows += [change, lower, higher]
    by = {"sequences": "side", "target": "model", "measure": "case"}
    tables = [wide_table("changes", f"Change from {results.names[0]}", rows, by=by, intervals=(CHANGE,))]
    if by_copies := [row for row in results.measured.select(STRENGTH) if row.side.startswith(BY_COPIES)]:
        title = "Extraction strength by number of copies in the training data"
        of_copies: dict[str, Part] = {"copies": lambda row: row.side.removeprefix(BY_COPIES), "target": "model"}
        tables.append(wide_table("copies", title, by_copies, by=of_copies, number="sequences"))
    return tables


def _sequence_table(results: CompareResults) -> FoundTable:
    pairs, decoder = results.pairs, TokenDecoder(results.pairs.tokenizer)
    rows = []
    for group in results.groups:
        values = {label_of(measure, results.params): array for measure, array in group.values.items()}
        columns = {
            f"change of {label}, {name}": array[number] - array[0]
            for number, name in enumerate(results.names[1:], 1)
            for label, array in values.items()
        } | {
            f"{label}, {name}": array[number]
            for number, name in enumerate(results.names)
            for label, array in values.items()
        }
        for place, sequence in enumerate(group.sequences.tolist()):
            copies = int(pairs.copies[sequence])
            completions = [completed.get(sequence) for completed in results.completions]
            rows.append(
                {
                    "sequence": sequence + 1,
                    "is control": group.side == CONTROL,
                    "row": int(pairs.rows[sequence]) + 1,
                    "copies": None if copies < 0 else copies,
                    **{column: array[place] for column, array in columns.items()},
                    "suffix": decoder.text(pairs.suffixes[sequence]),
                    **{
                        f"completion, {name}": None if completion is None else decoder.text(completion)
                        for name, completion in zip(results.names, completions, strict=True)
                    },
                }
            )
    texts = ("suffix", *(f"completion, {name}" for name in results.names))
    return table_of("sequences", "Every sequence", rows, is_detail=True, text_columns=texts)


def _charts(results: CompareResults) -> list[Chart]:
    labels = {measure: label_of(measure, results.params) for measure in SHARES}
    # Sides by number of copies have a table of their own.
    means = [row for row in results.measured.select(*SHARES) if row.side in (TEXT, CONTROL)]
    bars = bars_of(
        "measures",
        "Memorization by target",
        means,
        y_label="mean over sequences",
        label=lambda row: labels[row.measure],
        group="who",
        controls=(CONTROL,),
    )
    return [bars, _transition_chart(results)]


def _transition_chart(results: CompareResults) -> HeatMap:
    """Return how many sequences have each extraction strength before and after."""
    # Shares such as 15/50 are not exact, so they are moved off the edges of the bins.
    bins = np.minimum(_BINS - 1, (_BINS * results.subject.values[STRENGTH] + 1e-9).astype(np.int64))
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


def _passages(results: CompareResults) -> list[Passage]:
    """Return the sequences that changed most from the first to the last target, with what both return."""
    decoder = TokenDecoder(results.pairs.tokenizer)
    pairs, last = results.pairs, len(results.names) - 1
    strength = results.subject.values[STRENGTH]

    def stretches(tokens: Ints, suffix: Ints) -> list[Stretch]:
        return [
            Stretch(piece, bool(tokens[place] != suffix[place])) for place, piece in enumerate(decoder.pieces(tokens))
        ]

    passages = []
    for place in most_changed(results, last, _SHOWN_PASSAGES).tolist():
        sequence = int(results.subject.sequences[place])
        suffix = pairs.suffixes[sequence]
        texts: list[tuple[str, Sequence[Stretch]]] = [
            ("end of the prefix", [Stretch(decoder.text(pairs.prefixes[sequence][-_CONTEXT:]))]),
            ("suffix", [Stretch(decoder.text(suffix))]),
        ]
        for number in (0, last):
            completion = results.completions[number].get(sequence)
            if completion is not None:
                texts.append((results.names[number], stretches(completion, suffix)))
        change = f"{format_score(strength[0, place])} → {format_score(strength[last, place])}"
        passages.append(Passage(f"sequence {sequence + 1}: extraction strength {change}", texts))
    return passages
