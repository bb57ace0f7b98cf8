"""Findings of a comparison, from complete or partial rows."""

from collections.abc import Sequence

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
)
from harness.audits.leakage.pairs import PairTexts
from harness.audits.report import Part, bars_of, difference, measure_table, table_of, unmeasured_findings, wide_table
from harness.audits.smallest_result import clear_changes
from harness.core.audit import RowsOf
from harness.core.findings import BarChart, Conclusion, Findings, FoundTable, HeatMap, KeyFigure, Passage, Stretch
from harness.core.measures import Estimate, Measure, MeasureRow, MeasureTable
from harness.core.paths import model_names
from harness.core.text import format_percent, format_score, pluralize

QUESTION = "Did memorization change?"
DEFINITIONS = {measure.title: measure.meaning for measure in (EXACT, STRENGTH, GREEDY, ESP)}
_BEFORE = Measure("before", "before", "the mean under the first target")
_AFTER = Measure("after", "after", "the mean under the target")
_MAX_PASSAGES = 20
_BINS = 10


def compare_findings(params: CompareParams, pairs: ComparedPairs, rows: RowsOf, models: Sequence[str]) -> Findings:
    """Return everything that is reported. It does not depend on the order of the rows.

    figures: `targets`, `sequences`, `control_sequences`, `clusters`, `is_complete`.
    """
    names = model_names([*pairs.targets, *models])
    results = compare_results(params, pairs, rows, names)
    if results is None or len(results.names) < 2:
        measures = MeasureTable() if results is None else results.measures
        return unmeasured_findings(QUESTION, "two targets have not been measured", measures, targets=list(names))
    return Findings(
        figures={
            "targets": list(results.names),
            "sequences": len(results.subject.sequences),
            "control_sequences": len(results.groups[1].sequences) if results.has_control else 0,
            "clusters": len(np.unique(results.subject.clusters)),
            "is_complete": results.is_complete,
        },
        sentences=pairs.notes,
        tables=[*_tables(results), measure_table(results.measures), _sequence_table(results)],
        charts=[_bar_chart(results), _transition_chart(results)],
        passages=_passages(results),
        conclusion=_conclusion(results),
        definitions=DEFINITIONS,
        measures=results.measures,
    )


def _conclusion(results: CompareResults) -> Conclusion:
    """Return the conclusion for the change from the first to the last target."""
    first, last, params, text = results.names[0], results.names[-1], results.params, CHANGE.unit.format_estimate
    change = results.change(STRENGTH)
    answer = "Less" if change.high < 0 else "More" if change.low > 0 else "No clear change"
    smallest = ""
    if len(np.unique(results.subject.clusters)) < FEW_CLUSTERS:
        answer = "Too few sequences"
        smallest = f"; with fewer than {pluralize(FEW_CLUSTERS, 'cluster')}, no change could have been clear"
    elif answer == "No clear change":
        before = results.mean(STRENGTH, first)
        smallest = f"; {clear_changes(change, -before, 1 - before, CHANGE.unit.format)}"
    control = ""
    if results.has_control:
        of_control = results.change(STRENGTH, CONTROL)
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
                f"difference {text(results.change(measure))}",
            )
            for measure in (EXACT, STRENGTH, GREEDY, ESP)
        ],
    )


def _tables(results: CompareResults) -> list[FoundTable]:
    rows, measures = list[MeasureRow](), {label_of(measure, results.params): measure for measure in MEMORIZATION}
    for change, lower, higher in zip(*map(results.measures.select, (CHANGE, LOWER, HIGHER)), strict=True):
        for column, name in ((_BEFORE, results.names[0]), (_AFTER, change.model)):
            mean = Estimate(results.mean(measures[change.case], name, change.side))
            rows.append(change._replace(measure=column, estimate=mean))
        rows += [change, lower, higher]
    by = {"sequences": "side", "target": "model", "measure": "case"}
    tables = [wide_table("changes", f"Change from {results.names[0]}", rows, by=by, intervals=(CHANGE,))]
    if by_copies := [row for row in results.measures.select(STRENGTH) if row.side.startswith(BY_COPIES)]:
        title = "Extraction strength by number of copies in the training data"
        of_copies: dict[str, Part] = {"copies": lambda row: row.side.removeprefix(BY_COPIES), "target": "model"}
        tables.append(wide_table("copies", title, by_copies, by=of_copies, number="sequences"))
    return tables


def _sequence_table(results: CompareResults) -> FoundTable:
    """Return the measures of every sequence under every target, their changes, and what the targets return."""
    pairs, names, texts = results.pairs, results.names, PairTexts(results.pairs)
    labels = [label_of(measure, results.params) for measure in MEMORIZATION]
    rows = []
    for group in results.groups:
        for place, sequence in enumerate(group.sequences.tolist()):
            values = group.values[:, :, place]  # [measures, targets]
            copies = int(pairs.copies[sequence])
            row = {
                "sequence": sequence + 1,
                "is control": group.side == CONTROL,
                "row": int(pairs.rows[sequence]) + 1,
                "copies": None if copies < 0 else copies,
            }
            for target, name in enumerate(names[1:], 1):
                changes = values[:, target] - values[:, 0]
                row |= {f"change of {label}, {name}": change for label, change in zip(labels, changes, strict=True)}
            for target, name in enumerate(names):
                row |= {f"{label}, {name}": value for label, value in zip(labels, values[:, target], strict=True)}
            row["suffix"] = texts.suffix(sequence)
            for name, completions in zip(names, results.completions, strict=True):
                completion = completions.get(sequence)
                row[f"completion, {name}"] = None if completion is None else texts.text(completion)
            rows.append(row)
    text_columns = ("suffix", *(f"completion, {name}" for name in names))
    return table_of("sequences", "Every sequence", rows, is_detail=True, text_columns=text_columns)


def _bar_chart(results: CompareResults) -> BarChart:
    # Sides by number of copies have a table of their own.
    return bars_of(
        "measures",
        "Memorization by target",
        [row for row in results.measures.select(*SHARES) if row.side in (TEXT, CONTROL)],
        y_label="mean over sequences",
        label=lambda row: label_of(row.measure, results.params),
        group="who",
        controls=(CONTROL,),
    )


def _transition_chart(results: CompareResults) -> HeatMap:
    """Return how many sequences have each extraction strength before and after."""
    # Shares such as 15/50 are not exact, so they are moved off the edges of the bins.
    bins = np.minimum(_BINS - 1, (_BINS * results.subject.strength + 1e-9).astype(np.int64))
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
    texts, passages = PairTexts(results.pairs), []
    for place in results.subject.most_changed(_MAX_PASSAGES).tolist():
        sequence = int(results.subject.sequences[place])
        parts: list[tuple[str, list[Stretch]]] = [
            (label, [Stretch(text)]) for label, text in texts.pair(sequence).items()
        ]
        for target in (0, -1):
            completion = results.completions[target].get(sequence)
            if completion is not None:
                parts.append((results.names[target], texts.marked(completion, results.pairs.suffixes[sequence])))
        before, *_, after = map(format_score, results.subject.strength[:, place])
        passages.append(Passage(f"sequence {sequence + 1}: extraction strength {before} → {after}", parts))
    return passages
