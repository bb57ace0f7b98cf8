"""Findings of a sequence audit, from complete or partial rows: figures, tables, charts, passages and sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from harness.audits.report import (
    Part,
    Row,
    bars_of,
    case_table,
    draw_sections,
    finite_mean,
    lines_of,
    measure_table,
    section,
    table_of,
    wide_table,
)
from harness.audits.sequence.answer_findings import (
    answer_figures,
    answer_sentences,
    blocked_sentences,
    count_states,
    hiding_sentences,
    state_sentences,
)
from harness.audits.sequence.answers import reference_model
from harness.audits.sequence.comparison import (
    COMPLETIONS,
    RUN,
    TOO_SHORT,
    Setting,
    passages,
    read_results,
    rows_of_setting,
)
from harness.audits.sequence.completion import State
from harness.audits.sequence.conclusion import sequence_conclusion
from harness.audits.sequence.dataset import Control, Dataset, ReadCounts, SequenceParams
from harness.audits.sequence.results import (
    CORPUS,
    DEFINITIONS,
    P_VALUE,
    PAIRED,
    PASSED,
    PASSED_BY_LENGTH,
    SIDES,
    THRESHOLDS_PASSED,
    TOO_SHORT_SUFFIX,
    length_rows,
    measure_sides,
    thresholds_passed,
)
from harness.audits.sequence.thresholds import TITLES, Threshold
from harness.audits.sequence.words import WordForm
from harness.core.audit import RowsOf
from harness.core.findings import Chart, Findings, FoundTable
from harness.core.measures import Measure, MeasureRow, MeasureTable
from harness.core.text import json_value, pluralize

_SHOWN_DOCUMENTS = 20
_SHARE = "share of completions"
_MAY_HIDE = "The server's answers may hide memorization: see the sentences about completions and prompts."
_NUMBERS = "Completions by the number of thresholds that they pass"
_BARS: dict[str, Any] = {"y_label": _SHARE, "group": "who", "controls": SIDES.values()}
_CHARTS = (
    section(bars_of, "rates", "Completions that pass each threshold", PASSED, label="case", **_BARS),
    section(bars_of, "thresholds_passed", _NUMBERS, THRESHOLDS_PASSED, label="at", **_BARS),
)
_BY_LENGTH = "Completions that pass, by length of the prompt"
_LENGTHS = section(
    lines_of,
    "prompt_lengths",
    _BY_LENGTH,
    PASSED_BY_LENGTH,
    x_label="words of the prompt",
    y_label=_SHARE,
    series=lambda row: ", ".join((row.case, row.side, row.model)),
    controls=SIDES.values(),
)
_WORDS = {
    WordForm.STRIPPED: "The thresholds compare words without the punctuation around them; case counts.",
    WordForm.VERBATIM: "The thresholds compare words with their punctuation and case.",
    WordForm.FOLDED: "The thresholds compare words without the punctuation around them and without case.",
}


def sequence_findings(params: SequenceParams, whole: Dataset, rows: RowsOf, models: Sequence[str]) -> Findings:
    """Return everything that is reported. It does not depend on the order of the rows.

    models: the name of each model, in order.

    figures: `prompt_length` (null for a round's own prefixes or given ones), `completion`, `word_form`, `control`,
    `paragraphs` (completions by state), `read` and `control_read` (what happened to the paragraphs that were read),
    `shared` (how many share a long run of words with the other side), `is_complete`, and of an endpoint `answers`
    (finish reasons, models, tokens, refused parameters, words that were cut, and repeated requests).
    """
    reference = reference_model(rows(COMPLETIONS.name), params.endpoint_model or "")
    settings = [
        Setting(
            model, dataset, read_results(rows_of_setting(rows, number, dataset.prompt_length), len(dataset), reference)
        )
        for dataset in whole.by_prompt_length(params)
        for number, model in enumerate(models)
    ]
    longest = settings[: len(models)]
    measured = [row for setting in longest for row in measure_sides(setting)]
    if len(settings) > len(longest):
        by_length = sorted(settings, key=lambda setting: setting.dataset.prompt_length or 0)
        measured += [row for setting in by_length for row in length_rows(setting)]
    table = MeasureTable(measured)
    paragraphs = [row for setting in settings for row in _paragraph_rows(setting)]
    conclusion = sequence_conclusion(longest, table)
    if params.endpoint and any(hiding_sentences(params, settings, rows)):
        conclusion = replace(conclusion, caveat=f"{conclusion.caveat} {_MAY_HIDE}".lstrip())
    texts = ("prompt", "suffix", "completion")
    return Findings(
        figures=json_value(_figures(params, whole, settings, rows)),
        sentences=_sentences(params, whole, settings, longest, rows),
        tables=[
            *_rates_tables(table, models),
            *_document_tables(longest),
            measure_table(table),
            table_of("paragraphs", "Every paragraph", paragraphs, is_detail=True, text_columns=texts),
        ],
        charts=_charts(table, longest),
        passages=passages(longest),
        conclusion=conclusion,
        definitions=DEFINITIONS,
        measures=table,
    )


def _figures(params: SequenceParams, dataset: Dataset, settings: Sequence[Setting], rows: RowsOf) -> dict[str, Any]:
    states = count_states(settings)
    named = {state.value if state else "pending": number for state, number in states.items()}
    return {
        "prompt_length": dataset.prompt_length,
        "completion": "given" if dataset.models else "greedy" if params.temperature == 0 else "sampled",
        "word_form": params.word_form,
        "control": dataset.control.value,
        "paragraphs": {name: named.get(name, 0) for name in (*(state.value for state in State), "pending")},
        "read": dataset.counts["corpus"]._asdict(),
        "control_read": dataset.counts["control"]._asdict() if "control" in dataset.counts else None,
        "shared": {
            "corpus": int((dataset.is_shared & ~dataset.is_control).sum()),
            "control": int((dataset.is_shared & dataset.is_control).sum()),
        },
        "is_complete": not states[None],
        **({"answers": answer_figures(rows)} if params.endpoint else {}),
    }


def _rates_tables(measured: MeasureTable, models: Sequence[str]) -> Iterator[FoundTable]:
    """Yield the rates: all in short for several models, with their tests, by prompt length, and the numbers passed.

    The p-value stands next to the rate that is tested.
    """
    sides = {row.side for row in measured.select(PASSED) if row.estimate.of and not row.side.endswith(PAIRED)}
    by: dict[str, Part] = {"model": "model"} if len(models) > 1 else {}
    passed = "Completions that pass each threshold"

    def select(*measures: Measure) -> list[MeasureRow]:
        return [row for row in measured.select(*measures) if row.side in sides]

    by_case: dict[str, Part] = {**by, "threshold": "case", "of": "side"}
    if by:
        yield case_table("passed", passed, select(PASSED), by={**by, "of": "side"})
        passed += ", with intervals and tests"
    rates = select(PASSED, TOO_SHORT_SUFFIX, P_VALUE)
    yield wide_table("rates", passed, rates, by=by_case, intervals=(PASSED,), number="judged")
    numbers = [row for row in select(THRESHOLDS_PASSED) if row.estimate.of]
    if lengths := select(PASSED_BY_LENGTH):
        yield wide_table("prompt_lengths", _BY_LENGTH, lengths, by=by_case)
    yield wide_table("thresholds_passed", _NUMBERS, numbers, by={**by, "of": "side"}, number="judged")


def _document_tables(settings: Sequence[Setting]) -> list[FoundTable]:
    """Return the documents of the corpus, most memorized first: the first 20 to be shown, and all as a file."""
    rows: list[dict[str, Any]] = []
    for model, dataset, results in settings:
        measured = results.measured
        compared = np.flatnonzero(measured["is_compared"] & ~dataset.is_control)
        for document in np.unique(dataset.document[compared]):
            paragraphs = compared[dataset.document[compared] == document]
            verdicts = {title: measured[threshold][paragraphs] for threshold, title in TITLES.items()}
            row = {
                "document": dataset.documents[document],
                "paragraphs": len(paragraphs),
                **{title: finite_mean(values[values != TOO_SHORT]) for title, values in verdicts.items()},
                "longest run, words": int(measured["run_words"][paragraphs].max()),
                "edit similarity": float(measured["edit_similarity"][paragraphs].mean()),
            }
            rows.append({"model": model} | row if len(settings) > 1 else row)
    trigrams = TITLES[Threshold.TRIGRAM]
    rows.sort(key=lambda row: (-np.nan_to_num(row[trigrams]), -row["longest run, words"], -row["edit similarity"]))
    title = "Documents of the corpus, most memorized first"
    if len(rows) <= _SHOWN_DOCUMENTS:
        return [table_of("documents", title, rows)]
    shown = table_of("documents", f"{title} ({_SHOWN_DOCUMENTS} of {len(rows):,})", rows[:_SHOWN_DOCUMENTS])
    return [shown, table_of("all_documents", title, rows, is_detail=True)]


def _paragraph_rows(setting: Setting) -> Iterator[Row]:
    """Yield a row for each paragraph. Verdicts are true, false or None."""
    model, dataset, results = setting
    measured, numbers = results.measured, thresholds_passed(results.measured)
    verdicts = {threshold.value: measured[threshold] for threshold in Threshold}
    if dataset.control is Control.PERMUTED:
        verdicts |= {f"permuted_{threshold.value}": results.permuted[threshold] for threshold in Threshold}
    for place in range(len(dataset)):
        state, is_compared = results.states[place], bool(measured["is_compared"][place])
        values = {
            name: None if column[place] == TOO_SHORT else bool(column[place]) for name, column in verdicts.items()
        }
        yield {
            "side": "control" if dataset.is_control[place] else "corpus",
            "model": model,
            "prompt_length": dataset.prompt_length,
            "document": dataset.documents[dataset.document[place]],
            "number": dataset.number[place],
            "occurrences": dataset.occurrences[place],
            "shared": dataset.is_shared[place],
            "state": state.value if state else "pending",
            **{threshold.value: values.pop(threshold.value) for threshold in Threshold},
            "thresholds_passed": None if numbers[place] == TOO_SHORT else numbers[place],
            "longest_run_words": measured["run_words"][place] if is_compared else None,
            "longest_run_characters": measured["run_characters"][place] if is_compared else None,
            "edit_similarity": measured["edit_similarity"][place],
            **values,
            "prompt": dataset.prompts[place],
            "suffix": dataset.suffixes[place],
            "completion": results.texts[place],
        }


def _charts(measured: MeasureTable, settings: Sequence[Setting]) -> list[Chart]:
    """Return the charts, none before the first completion of the corpus."""
    known = {(row.model, row.side) for row in measured.select(PASSED) if row.estimate.of}
    if not any(side == CORPUS for _, side in known):
        return []
    rows = [row for row in measured if (row.model, row.side) in known and not row.side.endswith(PAIRED)]
    _, charts = draw_sections([row for row in rows if row.measure is PASSED or row.estimate.of], _CHARTS)
    # Several models are compared on the corpus alone, so that there are not too many lines.
    by_length = [row for row in rows if row.side == CORPUS or (len(settings) == 1 and row.side in SIDES.values())]
    return [*charts, *draw_sections(by_length, [_LENGTHS])[1]]


def _sentences(
    params: SequenceParams, dataset: Dataset, settings: Sequence[Setting], longest: Sequence[Setting], rows: RowsOf
) -> list[str]:
    """Return what the measured values do not say, most important first."""
    shorter = ", ".join(map(str, params.prompt_length[1:]))
    lengths = (
        f"The same paragraphs were also completed from their first {shorter} words, and the completions compared with "
        "the words that follow. The answer, the tests and all other tables are about the longest prompts."
    )
    return [
        *(_method(params, setting) for setting in longest),
        "Each completion was cut to the suffix's number of words and compared with the suffix. "
        + _WORDS[params.word_form],
        *([lengths] if shorter else ()),
        *_control(dataset),
        *(sentence for side, counts in dataset.counts.items() for sentence in _read(params, side, counts)),
        *state_sentences(settings),
        *blocked_sentences(params, settings),
        *answer_sentences(params, settings, rows),
        "Intervals and tests treat paragraphs as independent. Paragraphs of one document are not: if few documents "
        "contribute many paragraphs, the results are less certain than the intervals say.",
        *dataset.notes,
    ]


def _method(params: SequenceParams, setting: Setting) -> str:
    model, dataset, results = setting
    length = dataset.prompt_length
    prompt = "the round's own prefixes" if length is None else f"their first {pluralize(length, 'word')}"
    how = "greedy decoding" if params.temperature == 0 else f"sampling at temperature {params.temperature:g}"
    is_compared = results.measured["is_compared"]
    number = f"{pluralize(int((is_compared & ~dataset.is_control).sum()), 'paragraph')} of the corpus"
    if dataset.control is Control.CORPUS:
        number += f" and {int((is_compared & dataset.is_control).sum()):,} of the control"
    if dataset.models:
        return f"The completions of {number} by {model} were given."
    return f"{model} completed {number} from {prompt} by {how}."


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
