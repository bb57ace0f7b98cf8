"""Findings of a book audit, from complete or partial rows: figures, tables, sentences, passages, and the rest."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from harness.audits.book.charts import MOST_ROWS, book_charts, estimate_text, shaded_texts
from harness.audits.book.conclusion import DEFINITIONS, NOT_MEASURED, book_conclusion
from harness.audits.book.inputs import Texts
from harness.audits.book.params import LEAST, THRESHOLDS, BookParams
from harness.audits.book.results import (
    DISCOVERY,
    QUERIES,
    BookResults,
    LocatedPassage,
    TextResult,
    book_results,
    most_likely_passages,
)
from harness.audits.near_results import near_figures, near_sentence, near_table
from harness.audits.report import table_of
from harness.core.arrays import Bools
from harness.core.audit import RowsOf
from harness.core.findings import Findings, FoundTable, Marked, Passage, Stretch
from harness.core.measures import Estimate
from harness.core.paths import model_names
from harness.core.text import format_bound, format_number, json_value, pluralize

_SHOWN_PASSAGES, _MOST_PASSAGES = 20, 1_000
_CONTEXT, _LONGEST_SHOWN = 120, 2_000
"""Characters before and after a shown passage, and of a passage."""


def book_findings(params: BookParams, texts: Texts, rows: RowsOf, models: Sequence[str]) -> Findings:
    """Return everything that is reported. It does not depend on the order of the rows.

    figures: `scheme`, `prefix_tokens`, `suffix_tokens`, `models` (coverage of all texts, of the control, and their
    difference), `texts` (by model and text), `near_verbatim`, `windows`, `measured_windows`, `is_complete`.
    """
    names = model_names(models)
    results = book_results(params, texts, rows, names)
    if results is None:
        return Findings(
            {"texts": [], "is_complete": False}, ["Nothing has been measured yet."], conclusion=NOT_MEASURED
        )
    figures = {
        "scheme": results.label,
        "prefix_tokens": params.prefix_tokens,
        "suffix_tokens": params.suffix_tokens,
        "models": [_model_figures(results, number) for number in range(len(results.by_model))],
        "texts": [_text_figures(results, one) for one in results.by_text],
        "near_verbatim": near_figures(results.near),
        "windows": results.progress.all_windows,
        "measured_windows": results.progress.windows,
        "is_complete": results.is_complete,
    }
    found = most_likely_passages(results, _MOST_PASSAGES)
    return Findings(
        figures=json_value(figures),
        sentences=list(_sentences(results)),
        tables=[*_tables(results), _passage_table(results, found), _window_table(results)],
        charts=book_charts(results),
        passages=[_shown_passage(results, one) for one in found[:_SHOWN_PASSAGES]],
        texts=shaded_texts(results),
        conclusion=book_conclusion(results),
        definitions=DEFINITIONS,
    )


def _model_figures(results: BookResults, number: int) -> dict[str, Any]:
    one = results.by_model[number]
    differences = {f"{each:g}": one.difference(each) for each in THRESHOLDS}
    return {
        "model": results.names[one.model],
        "coverage": None if one.total is None else _by_threshold(one.total.coverage),
        "control_coverage": None if one.control is None else _by_threshold(one.control.coverage),
        "coverage_minus_control": {
            each: None if found is None else found._asdict() for each, found in differences.items()
        },
        "extractable_windows": None if one.total is None else _by_threshold(one.total.extractable),
        "mean_probability": None if one.total is None else one.total.mean_probability()._asdict(),
        "discoverable": {
            str(queries): dict(zip(map("{:g}".format, DISCOVERY), row, strict=True))
            for queries, row in zip(QUERIES, one.discoverable, strict=True)
        },
    }


def _text_figures(results: BookResults, one: TextResult) -> dict[str, Any]:
    measured, longest = one.measured, one.longest
    return {
        "text": results.texts.names[measured.text],
        "model": results.names[measured.model],
        "is_control": bool(results.texts.is_control[measured.text]),
        "characters": len(one.peaks),
        "measured_windows": len(measured),
        "schemes": {
            scheme.value: {
                "name": results.params.label(scheme),
                "coverage": _by_threshold(sums.coverage),
                "extractable_windows": _by_threshold(sums.extractable),
                "mean_probability": sums.mean_probability()._asdict(),
            }
            for scheme, sums in one.sums.items()
        },
        "longest_passage": None if longest is None else longest._asdict(),
    }


def _by_threshold(estimate: Any) -> dict[str, dict[str, float]]:
    found: dict[str, Estimate] = {f"{threshold:g}": estimate(threshold) for threshold in THRESHOLDS}
    return {name: each._asdict() for name, each in found.items()}


def _sentences(results: BookResults) -> Iterator[str]:
    params = results.params
    if results.progress.unmeasured:
        missing = pluralize(results.progress.unmeasured, "window")
        yield f"Left out {missing} that could not be measured through the endpoint."
    for one in results.by_model:
        gap = one.difference(THRESHOLDS[0])
        if gap is not None:
            verdict = "more than" if gap.low > 0 else "less than" if gap.high < 0 else "not clearly different from"
            yield (
                f"{results.names[one.model]}: coverage of the text is {verdict} that of the control text: difference "
                f"{estimate_text(gap)}."
            )
    for summary in results.near:
        yield near_sentence(summary, results.label, "window")
    unit = params.stride_unit.value.removesuffix("s")
    yield (
        f"Windows begin {pluralize(params.stride, unit)} apart and have {params.prefix_tokens} + "
        f"{params.suffix_tokens} tokens, which are tokenized together."
    )
    blocks = sorted({one.block for one in results.by_text})
    length = f"{blocks[0]:,}" if len(blocks) == 1 else f"{blocks[0]:,} to {blocks[-1]:,}"
    yield f"Intervals are 95 % intervals of a circular block bootstrap with blocks of {length} characters."
    if params.endpoint is None:
        yield (
            "A window whose first tokens are less likely than 10⁻⁹ under every scheme is not followed to its end; its "
            "probability is then an upper bound, which changes no coverage."
        )
    if len(results.by_text) > MOST_ROWS:
        yield f"Charts show {MOST_ROWS} rows of {len(results.by_text)} (texts under targets); the tables have all."
    yield from results.texts.notes


def _tables(results: BookResults) -> list[FoundTable]:
    main = results.main
    overview = [
        {
            "model": results.names[one.measured.model],
            "text": results.texts.names[one.measured.text],
            "is control": bool(results.texts.is_control[one.measured.text]),
            "characters": len(one.peaks),
            "windows": len(one.measured),
            **{f"≥ {format_bound(threshold)}": one.sums[main].coverage(threshold).value for threshold in THRESHOLDS},
            "low": one.sums[main].coverage(THRESHOLDS[0]).low,
            "high": one.sums[main].coverage(THRESHOLDS[0]).high,
            "mean probability": one.sums[main].mean_probability().value,
        }
        for one in results.by_text
    ]
    schemes = [
        {
            "model": results.names[one.measured.model],
            "text": results.texts.names[one.measured.text],
            "scheme": results.params.label(scheme),
            "probability": threshold,
            **{
                f"{name}{end}": getattr(estimate(threshold), part)
                for name, estimate in (("coverage", sums.coverage), ("windows", sums.extractable))
                for end, part in (("", "value"), (" low", "low"), (" high", "high"))
            },
        }
        for one in results.by_text
        for scheme, sums in one.sums.items()
        for threshold in THRESHOLDS
    ]
    discoverable = [
        {
            "model": results.names[one.model],
            "queries n": queries,
            **{f"p = {p:g}": share for p, share in zip(DISCOVERY, row, strict=True)},
        }
        for one in results.by_model
        for queries, row in zip(QUERIES, one.discoverable, strict=True)
    ]
    interval = f"interval at p ≥ {format_bound(THRESHOLDS[0])}"
    return [
        table_of("coverage", f"Coverage by text, {results.label} ({interval})", overview),
        table_of("discoverable", f"(n, p)-discoverable windows, {results.label}", discoverable),
        *([near_table(results.near, results.label, "text")] if results.near else []),
        table_of("schemes", "Coverage and windows by scheme and probability", schemes, is_detail=True),
    ]


def _passage_table(results: BookResults, found: Sequence[LocatedPassage]) -> FoundTable:
    rows = [
        {
            "model": results.names[one.model],
            "text": results.texts.names[one.text],
            "start": one.passage.start,
            "end": one.passage.end,
            "probability": one.passage.probability,
            "passage": results.texts.texts[one.text][one.passage.start : one.passage.end],
        }
        for one in found
    ]
    title = f"Passages at p ≥ {format_bound(THRESHOLDS[0])}, {results.label}"
    return table_of("passages", title, rows, is_detail=True, text_columns=("passage",))


def _window_table(results: BookResults) -> FoundTable:
    """Return every measured window with the log-probability of its suffix or an upper bound of it.

    It is None if a scheme cannot return the suffix.
    """
    rows = [
        {
            "model": results.names[one.measured.model],
            "text": results.texts.names[one.measured.text],
            "start": int(start),
            "suffix start": int(cut),
            "end": int(end),
            **{
                f"log probability, {results.params.label(scheme)}": float(one.measured.log_probability(scheme)[place])
                for scheme in results.params.schemes
            },
            "is upper bound": bool(is_bound[place]),
        }
        for one in results.by_text
        for is_bound in [_is_upper_bound(results, one)]
        for place, (start, cut, end) in enumerate(
            zip(one.measured.start, one.measured.cut, one.measured.end, strict=True)
        )
    ]
    return table_of("windows", "Every window", rows, is_detail=True)


def _is_upper_bound(results: BookResults, one: TextResult) -> Bools:
    """Return which windows were not followed to their end, [windows]; a probability of 0 is exact."""
    logs = np.max([one.measured.log_probability(scheme) for scheme in results.params.schemes], axis=0)
    return np.asarray(np.isfinite(logs) & (logs < np.log(LEAST)))


def _shown_passage(results: BookResults, one: LocatedPassage) -> Passage:
    text, passage = results.texts.texts[one.text], one.passage
    stop = min(passage.end, passage.start + _LONGEST_SHOWN)
    rest = f" … and {passage.end - stop:,} characters more" if stop < passage.end else ""
    after = rest or text[passage.end : passage.end + _CONTEXT]
    where = f"{results.names[one.model]}: " if len(results.names) > 1 else ""
    return Passage(
        f"{where}{results.texts.names[one.text]}, characters {passage.start:,} to {passage.end:,}: probability up to "
        f"{format_number(passage.probability)}",
        (
            (
                "text",
                [
                    Stretch(text[max(0, passage.start - _CONTEXT) : passage.start]),
                    Stretch(text[passage.start : stop], True),
                    Stretch(after),
                ],
            ),
        ),
        Marked.EXTRACTABLE,
    )
