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
    read_setting,
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
from harness.core.audit import RowsOf
from harness.core.findings import Chart, Findings, FoundTable
from harness.core.measures import MeasureTable
from harness.core.text import json_value, pluralize

_SHOWN_DOCUMENTS = 20
_SHARE = "share of completions"
_MAY_HIDE = "The server's answers may hide memorization: read the sentences about its completions."
_RATES = (PASSED, TOO_SHORT_SUFFIX, P_VALUE)
_PASSED = "Completions that pass each threshold"
_NUMBERS = "Completions by the number of thresholds that they pass"
_BY_LENGTH = "Completions that pass, by length of the prompt"
_BARS: dict[str, Any] = {"y_label": _SHARE, "group": "who", "controls": SIDES.values()}
_CHARTS = (
    section(bars_of, "rates", _PASSED, PASSED, label="case", **_BARS),
    section(bars_of, "thresholds_passed", _NUMBERS, THRESHOLDS_PASSED, label="at", **_BARS),
)
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
        read_setting(model, dataset, rows_of_setting(rows, number, dataset.prompt_length), reference)
        for dataset in whole.by_prompt_length(params)
        for number, model in enumerate(models)
    ]
    longest = settings[: len(models)]
    values = [row for setting in longest for row in measure_sides(setting)]
    if len(settings) > len(longest):
        by_length = sorted(settings, key=lambda setting: setting.dataset.prompt_length or 0)
        values += [row for setting in by_length for row in length_rows(setting)]
    table = MeasureTable(values)
    tables, charts = _tables_and_charts(table, models)
    paragraphs = [row for setting in settings for row in _paragraph_rows(setting)]
    conclusion = sequence_conclusion(longest, table)
    if params.endpoint and any(hiding_sentences(params, settings, rows)):
        conclusion = replace(conclusion, caveat=f"{conclusion.caveat} {_MAY_HIDE}".lstrip())
    texts = ("prompt", "suffix", "completion")
    return Findings(
        figures=json_value(_figures(params, whole, settings, rows)),
        sentences=list(_sentences(params, whole, settings, rows)),
        tables=[
            *tables,
            *_document_tables(longest),
            measure_table(table),
            table_of("paragraphs", "Every paragraph", paragraphs, is_detail=True, text_columns=texts),
        ],
        charts=charts,
        passages=passages(longest),
        conclusion=conclusion,
        definitions=DEFINITIONS,
        measures=table,
    )


def _figures(params: SequenceParams, dataset: Dataset, settings: Sequence[Setting], rows: RowsOf) -> dict[str, Any]:
    states = count_states(settings)
    numbers = {state.value if state else "pending": number for state, number in states.items()}
    return {
        "prompt_length": dataset.prompt_length,
        "completion": "given" if dataset.models else "greedy" if params.temperature == 0 else "sampled",
        "word_form": params.word_form,
        "control": dataset.control.value,
        "paragraphs": {name: numbers.get(name, 0) for name in (*(state.value for state in State), "pending")},
        "read": dataset.counts["corpus"]._asdict(),
        "control_read": dataset.counts["control"]._asdict() if "control" in dataset.counts else None,
        "shared": _shared(dataset),
        "is_complete": not states[None],
        **({"answers": answer_figures(rows)} if params.endpoint else {}),
    }


def _tables_and_charts(table: MeasureTable, models: Sequence[str]) -> tuple[list[FoundTable], list[Chart]]:
    """Return the rates of the sides that have completions: with their tests, by prompt length, and the numbers passed.

    The p-value stands next to the rate that is tested. Several models are compared in a short table first.
    """
    sides = {(row.model, row.side) for row in table.select(PASSED) if row.estimate.of}
    rows = [row for row in table if (row.model, row.side) in sides and not row.side.endswith(PAIRED)]
    rows = [row for row in rows if row.estimate.of or row.measure is not THRESHOLDS_PASSED]
    has_several = len(models) > 1
    by_side: dict[str, Part] = {"model": "model", "of": "side"} if has_several else {"of": "side"}
    by_case: dict[str, Part] = {"model": "model"} if has_several else {}
    by_case |= {"threshold": "case", "of": "side"}
    title = f"{_PASSED}, with intervals and tests" if has_several else _PASSED
    sections = [
        section(wide_table, "rates", title, *_RATES, by=by_case, intervals=(PASSED,), number="judged"),
        section(wide_table, "prompt_lengths", _BY_LENGTH, PASSED_BY_LENGTH, by=by_case),
        section(wide_table, "thresholds_passed", _NUMBERS, THRESHOLDS_PASSED, by=by_side, number="judged"),
    ]
    if has_several:
        sections = [section(case_table, "passed", _PASSED, PASSED, by=by_side), *sections]
    if not any(side == CORPUS for _, side in sides):
        # There is no chart before the first completion of the corpus.
        return draw_sections(rows, sections)
    tables, charts = draw_sections(rows, (*sections, *_CHARTS))
    # Several models are compared on the corpus alone, so that there are not too many lines.
    by_length = [row for row in rows if row.side == CORPUS or (not has_several and row.side in SIDES.values())]
    return tables, [*charts, *draw_sections(by_length, [_LENGTHS])[1]]


def _document_tables(settings: Sequence[Setting]) -> list[FoundTable]:
    """Return the documents of the corpus, most memorized first: the first 20 to be shown, and all as a file."""
    rows: list[dict[str, Any]] = []
    for setting in settings:
        aligned, dataset = setting.aligned, setting.dataset
        places = np.flatnonzero(setting.is_corpus)
        for document in np.unique(dataset.document[places]):
            paragraphs = places[dataset.document[places] == document]
            verdicts = {title: aligned[threshold][paragraphs] for threshold, title in TITLES.items()}
            row = {
                "document": dataset.documents[document],
                "paragraphs": len(paragraphs),
                **{title: finite_mean(values[values != TOO_SHORT]) for title, values in verdicts.items()},
                "longest run, words": int(aligned["run_words"][paragraphs].max()),
                "edit similarity": float(aligned["edit_similarity"][paragraphs].mean()),
            }
            rows.append({"model": setting.model} | row if len(settings) > 1 else row)
    trigrams = TITLES[Threshold.TRIGRAM]
    rows.sort(key=lambda row: (-np.nan_to_num(row[trigrams]), -row["longest run, words"], -row["edit similarity"]))
    title = "Documents of the corpus, most memorized first"
    if len(rows) <= _SHOWN_DOCUMENTS:
        return [table_of("documents", title, rows)]
    first = table_of("documents", f"{title} ({_SHOWN_DOCUMENTS} of {len(rows):,})", rows[:_SHOWN_DOCUMENTS])
    return [first, table_of("all_documents", title, rows, is_detail=True)]


def _paragraph_rows(setting: Setting) -> Iterator[Row]:
    """Yield a row for each paragraph. Verdicts are true, false or None."""
    dataset, aligned, numbers = setting.dataset, setting.aligned, thresholds_passed(setting.aligned)
    verdicts = {threshold.value: aligned[threshold] for threshold in Threshold}
    if dataset.control is Control.PERMUTED:
        verdicts |= {f"permuted_{threshold.value}": setting.permuted[threshold] for threshold in Threshold}
    for place in range(len(dataset)):
        state, is_compared = setting.states[place], bool(aligned["is_compared"][place])
        values = {
            name: None if column[place] == TOO_SHORT else bool(column[place]) for name, column in verdicts.items()
        }
        yield {
            "side": "control" if dataset.is_control[place] else "corpus",
            "model": setting.model,
            "prompt_length": dataset.prompt_length,
            "document": dataset.documents[dataset.document[place]],
            "number": dataset.number[place],
            "occurrences": dataset.occurrences[place],
            "shared": dataset.is_shared[place],
            "state": state.value if state else "pending",
            **{threshold.value: values.pop(threshold.value) for threshold in Threshold},
            "thresholds_passed": None if numbers[place] == TOO_SHORT else numbers[place],
            "longest_run_words": aligned["run_words"][place] if is_compared else None,
            "longest_run_characters": aligned["run_characters"][place] if is_compared else None,
            "edit_similarity": aligned["edit_similarity"][place],
            **values,
            "prompt": dataset.prompts[place],
            "suffix": dataset.suffixes[place],
            "completion": setting.texts[place],
        }


def _sentences(params: SequenceParams, dataset: Dataset, settings: Sequence[Setting], rows: RowsOf) -> Iterator[str]:
    """Yield what limits the measured values, most important first."""
    corpus, control = _shared(dataset).values()
    if corpus + control:
        yield (
            f"{pluralize(corpus, 'paragraph')} of the corpus and {control:,} of the control share a run of {RUN} words "
            "with the other side. The control's rates, the differences and the tests exclude them."
        )
    for side, counts in dataset.counts.items():
        yield from _read(params, side, counts)
    yield from state_sentences(settings)
    yield from blocked_sentences(params, settings)
    yield from answer_sentences(params, settings, rows)
    yield (
        "Intervals and tests treat paragraphs as independent. Paragraphs of one document are not: if few documents "
        "contribute many paragraphs, the results are less certain than the intervals say."
    )
    yield from dataset.notes


def _shared(dataset: Dataset) -> dict[str, int]:
    """Return how many paragraphs of each side share a long run of words with the other side."""
    number = int((dataset.is_shared & dataset.is_control).sum())
    return {"corpus": int(dataset.is_shared.sum()) - number, "control": number}


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
