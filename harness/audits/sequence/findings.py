"""Findings of a sequence audit, from complete or partial rows: figures, tables, charts, passages and sentences."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from harness.audits.report import Row, bars_of, finite_mean, measure_table, share_of, table_of, wide_table
from harness.audits.sequence.comparison import (
    RUN,
    TITLES,
    TOO_SHORT,
    Results,
    Threshold,
    mark_common_runs,
    read_results,
)
from harness.audits.sequence.completion import State
from harness.audits.sequence.dataset import Control, Dataset, ReadCounts, SequenceParams
from harness.audits.sequence.results import (
    CORPUS,
    DEFINITIONS,
    P_VALUE,
    PASSED,
    SIDES,
    TOO_SHORT_SUFFIX,
    UNSHARED,
    measure_sides,
    sequence_conclusion,
    sides_of,
)
from harness.core.arrays import Ints
from harness.core.audit import RowsOf
from harness.core.findings import Chart, Findings, FoundTable, LineChart, Marked, Passage, Series, Stretch
from harness.core.measures import MeasureTable
from harness.core.text import json_value, pluralize

_MOST_PASSAGES = 10
_SHORTEST_RUN = 5
"""Words of the shortest run that is shown as a passage: as many as the shorter exact start."""
_SHOWN_DOCUMENTS = 20


def sequence_findings(params: SequenceParams, dataset: Dataset, rows: RowsOf, model: str) -> Findings:
    """Return everything that is reported. It does not depend on the order of the rows.

    figures: `prompt_length` (null for a round's own prefixes), `completion`, `control`, `paragraphs` (by state), `read`
    and `control_read` (what happened to the paragraphs that were read), `shared` (how many share a long run of words
    with the other side), `is_complete`.
    """
    results = read_results(rows, len(dataset))
    measured = measure_sides(dataset, results, model)
    return Findings(
        figures=json_value(_figures(params, dataset, results)),
        sentences=_sentences(params, dataset, results, model),
        tables=[
            _rates_table(measured, dataset),
            *_document_tables(dataset, results),
            measure_table(measured),
            _paragraph_table(dataset, results),
        ],
        charts=_charts(measured, dataset, results),
        passages=_passages(dataset, results),
        conclusion=sequence_conclusion(dataset, results, measured),
        definitions=DEFINITIONS,
        measures=measured,
    )


def _figures(params: SequenceParams, dataset: Dataset, results: Results) -> dict[str, Any]:
    states = Counter(state.value if state else "pending" for state in results.states)
    return {
        "prompt_length": dataset.prompt_length,
        "completion": "greedy" if params.temperature == 0 else "sampled",
        "control": dataset.control.value,
        "paragraphs": {name: states.get(name, 0) for name in (*(state.value for state in State), "pending")},
        "read": dataset.corpus_counts._asdict(),
        "control_read": dataset.control_counts._asdict() if dataset.control_counts else None,
        "shared": {
            "corpus": int((dataset.is_shared & ~dataset.is_control).sum()),
            "control": int((dataset.is_shared & dataset.is_control).sum()),
        },
        "is_complete": states.get("pending", 0) == 0,
    }


def _passages(dataset: Dataset, results: Results) -> list[Passage]:
    """Return at most ten paragraphs of the corpus, longest verbatim run first, with common runs marked."""
    runs = results.measured["run_words"]
    candidates = np.flatnonzero(~dataset.is_control & (runs >= _SHORTEST_RUN))
    order = np.lexsort((candidates, -results.measured["run_characters"][candidates], -runs[candidates]))
    return [_passage(dataset, results, int(paragraph)) for paragraph in candidates[order[:_MOST_PASSAGES]]]


def _passage(dataset: Dataset, results: Results, paragraph: int) -> Passage:
    suffix, completion = dataset.suffixes[paragraph], results.texts[paragraph]
    passed = [TITLES[threshold] for threshold in Threshold if results.measured[threshold][paragraph] == 1]
    run = pluralize(int(results.measured["run_words"][paragraph]), "word")
    title = f"{dataset.documents[int(dataset.document[paragraph])]}, paragraph {int(dataset.number[paragraph])}"
    return Passage(
        f"{title}: longest run {run}; passes {', '.join(passed) or 'no threshold'}",
        (
            ("prompt", [Stretch(dataset.prompts[paragraph])]),
            ("suffix", mark_common_runs(suffix, completion)),
            ("completion", mark_common_runs(completion, suffix)),
        ),
        Marked.EQUAL,
    )


def _rates_table(measured: MeasureTable, dataset: Dataset) -> FoundTable:
    """Return a row for each threshold and side. The p-value stands next to the rate that is tested."""
    sides = (CORPUS, UNSHARED, SIDES[dataset.control])
    rows = [row for row in measured.select(PASSED, TOO_SHORT_SUFFIX, P_VALUE) if row.side in sides]
    by = {"threshold": "case", "of": "side"}
    title = "Completions that pass each threshold"
    return wide_table("rates", title, rows, by=by, intervals=(PASSED,), number="judged")


def _document_tables(dataset: Dataset, results: Results) -> list[FoundTable]:
    """Return the documents of the corpus, most memorized first: the first 20 to be shown, and all as a file."""
    measured = results.measured
    compared = np.flatnonzero(measured["is_compared"] & ~dataset.is_control)
    rows = []
    for document in np.unique(dataset.document[compared]):
        paragraphs = compared[dataset.document[compared] == document]
        verdicts = {title: measured[threshold][paragraphs] for threshold, title in TITLES.items()}
        rows.append(
            {
                "document": dataset.documents[document],
                "paragraphs": len(paragraphs),
                **{title: finite_mean(values[values != TOO_SHORT]) for title, values in verdicts.items()},
                "longest run, words": int(measured["run_words"][paragraphs].max()),
                "edit similarity": float(measured["edit_similarity"][paragraphs].mean()),
            }
        )
    trigrams = TITLES[Threshold.TRIGRAM]
    rows.sort(key=lambda row: (-np.nan_to_num(row[trigrams]), -row["longest run, words"], -row["edit similarity"]))
    title = "Documents of the corpus, most memorized first"
    if len(rows) <= _SHOWN_DOCUMENTS:
        return [table_of("documents", title, rows)]
    shown = table_of("documents", f"{title} ({_SHOWN_DOCUMENTS} of {len(rows):,})", rows[:_SHOWN_DOCUMENTS])
    return [shown, table_of("all_documents", title, rows, is_detail=True)]


def _paragraph_table(dataset: Dataset, results: Results) -> FoundTable:
    """Return a row for each paragraph. Verdicts are true, false or None."""
    measured = results.measured
    verdicts = {threshold.value: measured[threshold] for threshold in Threshold}
    if dataset.control is Control.PERMUTED:
        verdicts |= {f"permuted_{threshold.value}": results.permuted[threshold] for threshold in Threshold}

    def row(place: int) -> Row:
        state, is_compared = results.states[place], bool(measured["is_compared"][place])
        values = {
            name: None if column[place] == TOO_SHORT else bool(column[place]) for name, column in verdicts.items()
        }
        return {
            "side": "control" if dataset.is_control[place] else "corpus",
            "document": dataset.documents[dataset.document[place]],
            "number": dataset.number[place],
            "occurrences": dataset.occurrences[place],
            "shared": dataset.is_shared[place],
            "state": state.value if state else "pending",
            **{threshold.value: values.pop(threshold.value) for threshold in Threshold},
            "longest_run_words": measured["run_words"][place] if is_compared else None,
            "longest_run_characters": measured["run_characters"][place] if is_compared else None,
            "edit_similarity": measured["edit_similarity"][place],
            **values,
            "prompt": dataset.prompts[place],
            "suffix": dataset.suffixes[place],
            "completion": results.texts[place],
        }

    rows = [row(place) for place in range(len(dataset))]
    texts = ("prompt", "suffix", "completion")
    return table_of("paragraphs", "Every paragraph", rows, is_detail=True, text_columns=texts)


def _charts(measured: MeasureTable, dataset: Dataset, results: Results) -> list[Chart]:
    """Return the charts, none before the first completion."""
    control = SIDES[dataset.control]
    sides = {side: columns["run_words"][chosen] for side, (columns, chosen) in sides_of(dataset, results).items()}
    if not len(sides[CORPUS]):
        return []
    runs = {side: sides[side] for side in (CORPUS, control) if len(sides[side])}
    longest = max(int(lengths.max()) for lengths in runs.values())
    shown = (CORPUS, UNSHARED, *runs)
    return [
        bars_of(
            "rates",
            "Completions that pass each threshold",
            "share of completions",
            [row for row in measured.select(PASSED) if row.side in shown],
            label="case",
            group="side",
            controls=(control,),
        ),
        LineChart(
            "verbatim_runs",
            "Longest verbatim run of each completion",
            "words in the run, at least",
            "share of completions",
            [_survival(side, lengths, longest, side == control) for side, lengths in runs.items()],
        ),
    ]


def _survival(name: str, runs: Ints, longest: int, is_dashed: bool) -> Series:
    """Return the share of `runs` that have at least 0, 1, … `longest` words, with Wilson intervals."""
    lengths = np.arange(longest + 1)
    shares = [share_of(int((runs >= length).sum()), len(runs)) for length in lengths]
    value, low, high, _ = np.array(shares).T
    return Series(name, lengths, value, low, high, is_dashed)


def _sentences(params: SequenceParams, dataset: Dataset, results: Results, model: str) -> list[str]:
    """Return what the measured values do not say, most important first."""
    return [
        _method(params, dataset, results, model),
        *_control(dataset),
        *_read(params, "corpus", dataset.corpus_counts),
        *(_read(params, "control", dataset.control_counts) if dataset.control_counts else ()),
        *_states(results),
        "Intervals and tests treat paragraphs as independent. Paragraphs of one document are not: if few documents "
        "contribute many paragraphs, the results are less certain than the intervals say.",
        *dataset.notes,
    ]


def _method(params: SequenceParams, dataset: Dataset, results: Results, model: str) -> str:
    length = dataset.prompt_length
    prompt = "the round's own prefixes" if length is None else f"their first {pluralize(length, 'word')}"
    how = "greedy decoding" if params.temperature == 0 else f"sampling at temperature {params.temperature:g}"
    is_compared = results.measured["is_compared"]
    number = f"{pluralize(int((is_compared & ~dataset.is_control).sum()), 'paragraph')} of the corpus"
    if dataset.control is Control.CORPUS:
        number += f" and {int((is_compared & dataset.is_control).sum()):,} of the control"
    return (
        f"{model} completed {number} from {prompt} by {how}. Each completion was cut to the suffix's number of words "
        "and compared with the suffix."
    )


def _control(dataset: Dataset) -> Iterator[str]:
    if dataset.control is Control.PERMUTED:
        if len(dataset) < 2:
            yield "A single paragraph has no control, so its rates prove nothing."
            return
        yield (
            "The control is permuted suffixes: each completion is compared with the suffix of another paragraph of "
            "similar length. It measures chance overlap only. Use --control with unseen text of the same kind to "
            "measure what a model completes without having seen the corpus. The test is McNemar's exact test, "
            "one-sided; verbatim runs are compared by Wilcoxon's signed-rank test."
        )
        return
    yield (
        "The control is other paragraphs, which the model is assumed not to have seen. The test is Fisher's exact "
        "test, one-sided."
    )
    if dataset.is_shared.any():
        corpus = pluralize(int((dataset.is_shared & ~dataset.is_control).sum()), "paragraph")
        control = int((dataset.is_shared & dataset.is_control).sum())
        yield (
            f"{corpus} of the corpus and {control:,} of the control share a run of {RUN} words with the other side. "
            "The control's rates, the differences and the tests exclude them."
        )


def _read(params: SequenceParams, side: str, counts: ReadCounts) -> Iterator[str]:
    parts = []
    if counts.too_short:
        parts.append(f"{counts.too_short:,} without a word after the prompt")
    if counts.repeated:
        parts.append(f"{pluralize(counts.repeated, 'repetition')} (a repeated paragraph is requested once)")
    if counts.not_chosen:
        parts.append(f"{counts.not_chosen:,} beyond the limit of {params.limit:,} (sampled by seed)")
    if parts:
        yield f"Not used of {pluralize(counts.paragraphs, 'paragraph')} of the {side}: {', '.join(parts)}."
    if counts.shortened:
        longest = pluralize(params.longest_suffix, "word")
        yield f"{pluralize(counts.shortened, 'paragraph')} of the {side} had a suffix cut to {longest}."


def _states(results: Results) -> Iterator[str]:
    states = Counter(results.states)
    if number := states[None]:
        yield f"Not measured yet: {pluralize(number, 'paragraph')}."
    if number := states[State.NO_ROOM]:
        yield (
            f"Left out: {pluralize(number, 'paragraph')} whose prompt and suffix exceed the model's context, or whose "
            "prompt has none of its tokens."
        )
    if number := states[State.UNANSWERED]:
        pairs = zip(results.states, results.faults, strict=True)
        faults = Counter(fault for state, fault in pairs if state is State.UNANSWERED)
        reasons = ", ".join(f"it {fault} ({pluralize(times, 'time')})" for fault, times in sorted(faults.items()))
        yield f"Left out: {pluralize(number, 'paragraph')} without an answer from the endpoint: {reasons}."
