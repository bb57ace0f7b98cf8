"""Findings of a sequence audit, from complete or partial rows: figures, tables, charts, passages and sentences."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from harness.audits.report import Row, bars_of, measure_table, share_of, share_text, table_of, wide_table
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
from harness.audits.sequence.dataset import Control, Dataset, ReadCounts
from harness.audits.sequence.params import SequenceParams
from harness.audits.sequence.results import (
    CORPUS,
    DEFINITIONS,
    P_VALUE,
    PASSED,
    SIDES,
    TOO_SHORT_SUFFIX,
    UNSHARED,
    Contrasts,
    contrast_sides,
    control_side,
    measure_sides,
    sequence_conclusion,
)
from harness.core.arrays import Ints
from harness.core.audit import RowsOf
from harness.core.findings import Chart, Findings, FoundTable, LineChart, Marked, Passage, Series, Stretch
from harness.core.measures import MeasureTable
from harness.core.text import format_p_value, json_value, pluralize

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
    contrasts = {threshold: contrast_sides(threshold, dataset, results) for threshold in Threshold}
    measured = measure_sides(dataset, results, contrasts, model)
    return Findings(
        figures=json_value(_figures(params, dataset, results)),
        sentences=sequence_sentences(params, dataset, results, contrasts, model),
        tables=[
            _rates_table(measured, dataset),
            *document_tables(dataset, results),
            measure_table(measured),
            paragraph_table(dataset, results),
        ],
        charts=_charts(measured, dataset, results),
        passages=_passages(dataset, results),
        conclusion=sequence_conclusion(dataset, results, contrasts),
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
    own = results.own
    candidates = np.flatnonzero(~dataset.is_control & own.is_compared & (own.run_words >= _SHORTEST_RUN))
    order = np.lexsort((candidates, -own.run_characters[candidates], -own.run_words[candidates]))
    return [_passage(dataset, results, int(paragraph)) for paragraph in candidates[order[:_MOST_PASSAGES]]]


def _passage(dataset: Dataset, results: Results, paragraph: int) -> Passage:
    suffix, completion = dataset.suffixes[paragraph], results.texts[paragraph]
    passed = [TITLES[threshold] for threshold in Threshold if results.own.verdicts[threshold][paragraph] == 1]
    run = pluralize(int(results.own.run_words[paragraph]), "word")
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
    """Return a row for each threshold and side. The p-value stands beside the rate that is tested."""
    sides = (CORPUS, UNSHARED, SIDES[dataset.control])
    rows = [row for row in measured.select(PASSED, TOO_SHORT_SUFFIX, P_VALUE) if row.side in sides]
    by = {"threshold": "case", "of": "side"}
    title = "Completions that pass each threshold"
    return wide_table("rates", title, rows, by=by, intervals=(PASSED,), number="judged")


def document_tables(dataset: Dataset, results: Results) -> list[FoundTable]:
    """Return the documents of the corpus, most memorized first: the first 20 to be shown, and all as a file."""
    own = results.own
    compared = np.flatnonzero(own.is_compared & ~dataset.is_control)
    compared = compared[np.argsort(dataset.document[compared], kind="stable")]
    documents, starts = np.unique(dataset.document[compared], return_index=True)
    rows = []
    for document, kept in zip(documents.tolist(), np.split(compared, starts[1:]), strict=False):
        verdicts = {threshold: own.verdicts[threshold][kept] for threshold in Threshold}
        shares = {TITLES[threshold]: _mean(values[values != TOO_SHORT]) for threshold, values in verdicts.items()}
        rows.append(
            {
                "document": dataset.documents[document],
                "paragraphs": len(kept),
                **shares,
                "longest run, words": int(own.run_words[kept].max()),
                "edit similarity": float(own.edit_similarity[kept].mean()),
            }
        )
    rows.sort(
        key=lambda row: (-(row[TITLES[Threshold.TRIGRAM]] or 0), -row["longest run, words"], -row["edit similarity"])
    )
    title = "Documents of the corpus, most memorized first"
    if len(rows) <= _SHOWN_DOCUMENTS:
        return [table_of("documents", title, rows)]
    shown = table_of("documents", f"{title} ({_SHOWN_DOCUMENTS} of {len(rows):,})", rows[:_SHOWN_DOCUMENTS])
    return [shown, table_of("all_documents", title, rows, is_detail=True)]


def paragraph_table(dataset: Dataset, results: Results) -> FoundTable:
    """Return a row for each paragraph. Verdicts are true, false or None."""
    has_partners = dataset.control is Control.PERMUTED

    def row(place: int) -> Row:
        state, own = results.states[place], results.own
        is_compared = bool(own.is_compared[place])
        return {
            "side": "control" if dataset.is_control[place] else "corpus",
            "document": dataset.documents[dataset.document[place]],
            "number": dataset.number[place],
            "occurrences": dataset.occurrences[place],
            "shared": dataset.is_shared[place],
            "state": state.value if state else "pending",
            **{one.value: _verdict(own.verdicts[one][place]) for one in Threshold},
            "longest_run_words": own.run_words[place] if is_compared else None,
            "longest_run_characters": own.run_characters[place] if is_compared else None,
            "edit_similarity": own.edit_similarity[place],
            **{
                f"permuted_{one.value}": _verdict(results.permuted.verdicts[one][place])
                for one in Threshold
                if has_partners
            },
            "prompt": dataset.prompts[place],
            "suffix": dataset.suffixes[place],
            "completion": results.texts[place],
        }

    rows = [row(place) for place in range(len(dataset))]
    texts = ("prompt", "suffix", "completion")
    return table_of("paragraphs", "Every paragraph", rows, is_detail=True, text_columns=texts)


def _verdict(number: Any) -> bool | None:
    return None if number == TOO_SHORT else bool(number)


def _mean(verdicts: Any) -> float | None:
    return float(verdicts.mean()) if len(verdicts) else None


def _charts(measured: MeasureTable, dataset: Dataset, results: Results) -> list[Chart]:
    """Return the charts, none before the first completion."""
    is_corpus = ~dataset.is_control & results.own.is_compared
    if not is_corpus.any():
        return []
    side = SIDES[dataset.control]
    control, is_control = control_side(dataset, results)
    runs = [(CORPUS, results.own.run_words[is_corpus], False), (side, control.run_words[is_control], True)]
    runs = [run for run in runs if len(run[1])]
    longest = max(int(lengths.max()) for _, lengths, _ in runs)
    sides = (CORPUS, UNSHARED, *([side] if is_control.any() else []))
    return [
        bars_of(
            "rates",
            "Completions that pass each threshold",
            "share of completions",
            [row for row in measured.select(PASSED) if row.side in sides],
            label="case",
            group="side",
            controls=(side,),
        ),
        LineChart(
            "verbatim_runs",
            "Longest verbatim run of each completion",
            "words in the run, at least",
            "share of completions",
            [_survival(name, lengths, longest, is_dashed) for name, lengths, is_dashed in runs],
        ),
    ]


def _survival(name: str, runs: Ints, longest: int, is_dashed: bool) -> Series:
    """Return the share of `runs` that have at least 0, 1, … `longest` words, with Wilson intervals."""
    lengths = np.arange(longest + 1)
    shares = [share_of(int((runs >= length).sum()), len(runs)) for length in lengths]
    value, low, high, _ = np.array(shares).T
    return Series(name, lengths, value, low, high, is_dashed)


def sequence_sentences(
    params: SequenceParams, dataset: Dataset, results: Results, contrasts: Contrasts, model: str
) -> list[str]:
    """Return the sentences, most important first."""
    return [
        _method(params, dataset, results, model),
        *_rates(dataset, contrasts),
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
    number = pluralize(int((results.own.is_compared & ~dataset.is_control).sum()), "paragraph")
    if dataset.control is Control.CORPUS:
        control = int((results.own.is_compared & dataset.is_control).sum())
        number += f" of the corpus and {control:,} of the control"
    else:
        number += " of the corpus"
    return (
        f"{model} completed {number} from {prompt} by {how}. Each completion was cut to the suffix's number of words "
        "and compared with the suffix."
    )


def _rates(dataset: Dataset, contrasts: Contrasts) -> Iterator[str]:
    for threshold, contrast in contrasts.items():
        if contrast.corpus.judged and contrast.control.judged:
            p_value = "" if contrast.p_value is None else f" ({format_p_value(contrast.p_value)})"
            corpus, control = share_text(contrast.corpus.share), share_text(contrast.control.share)
            side = SIDES[dataset.control]
            yield f"{TITLES[threshold].capitalize()}: {corpus} on the corpus, {control} on the {side}{p_value}."


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
        is_unanswered = [state is State.UNANSWERED for state in results.states]
        faults = Counter(fault for fault, is_one in zip(results.faults, is_unanswered, strict=True) if is_one)
        reasons = ", ".join(f"it {fault} ({pluralize(times, 'time')})" for fault, times in sorted(faults.items()))
        yield f"Left out: {pluralize(number, 'paragraph')} without an answer from the endpoint: {reasons}."
