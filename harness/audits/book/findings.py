"""Findings of a book audit, from complete or partial rows."""

from collections.abc import Iterator, Sequence

import numpy as np

from harness.audits.book.coverage import (
    CHARACTERS,
    COVERAGE,
    EXTRACTABLE,
    GAP,
    LONGEST,
    MEAN,
    MEASURED_WINDOWS,
    Passage,
)
from harness.audits.book.inputs import MIN_PROBABILITY, THRESHOLDS, BookParams, Texts
from harness.audits.book.results import (
    CONTROL,
    MAX_THRESHOLD,
    MIN_THRESHOLD,
    TEXT,
    BookResults,
    TextResult,
    book_results,
)
from harness.audits.near_results import NEAR_DEFINITION, NEAR_SECTIONS
from harness.audits.probabilities import DISCOVERABLE_SECTIONS
from harness.audits.report import (
    bars_of,
    draw_sections,
    key_figure,
    measure_table,
    section,
    table_of,
    unmeasured_findings,
    wide_table,
)
from harness.core import findings as report
from harness.core.arrays import Floats
from harness.core.audit import RowsOf
from harness.core.findings import (
    Conclusion,
    Findings,
    FoundTable,
    HeatMap,
    KeyFigure,
    Marked,
    ShadedText,
    Stretch,
)
from harness.core.measures import MeasureTable
from harness.core.paths import model_names
from harness.core.text import format_bound, format_number, format_percent, pluralize

QUESTION = "How much of the text can be extracted?"
DEFINITIONS = {
    "window": "consecutive tokens of the text: a prefix that the model is given and the suffix after it",
    COVERAGE.title: COVERAGE.meaning,
    "probability of a suffix": "the probability that one query with the prefix returns the suffix exactly",
    "near-verbatim": NEAR_DEFINITION,
    "(n, p)-discoverable": "returned by at least one of n queries with a probability of at least p",
}
_MAX_ROWS = 24
"""Texts in a chart."""
_BINS = 400
"""Parts of a text in the heat map."""
_MAX_PASSAGES, _LISTED_PASSAGES = 20, 1_000
"""Passages that are shown, and those in the detail table."""
_CONTEXT, _MAX_CHARACTERS = 120, 2_000
"""Characters before and after a passage that is shown, and of the passage itself."""
_OF_TOTALS = section(
    bars_of,
    "coverage",
    "Characters in a suffix of at least this probability, {scheme}",
    COVERAGE,
    y_label="share of characters",
    label="at",
    group="who",
    controls=(CONTROL,),
)


def book_findings(params: BookParams, texts: Texts, rows: RowsOf, models: Sequence[str]) -> Findings:
    """Return everything that is reported. It does not depend on the order of the rows.

    figures: `scheme`, `prefix_tokens`, `suffix_tokens`, `windows`, `measured_windows`, `is_complete`.
    """
    results = book_results(params, texts, rows, model_names(models))
    if results is None:
        return unmeasured_findings(QUESTION, "nothing has been measured")
    measures = MeasureTable([*results.totals, *results.single])
    passages = _likeliest_passages(results)
    tables, charts = draw_sections(
        results.totals,
        [
            _map_chart(results, _charted_texts(results)),
            _text_table(results),
            *(_OF_TOTALS, *DISCOVERABLE_SECTIONS, *NEAR_SECTIONS),
            *(measure_table(measures), _passage_table(results, passages), _window_table(results)),
        ],
        scheme=results.label,
        what=results.label,
    )
    return Findings(
        figures={
            "scheme": results.label,
            "prefix_tokens": params.prefix_tokens,
            "suffix_tokens": params.suffix_tokens,
            "windows": results.all_windows,
            "measured_windows": results.windows,
            "is_complete": results.is_complete,
        },
        sentences=list(_sentences(results)),
        tables=tables,
        charts=charts,
        passages=[_passage(results, *passage) for passage in passages[:_MAX_PASSAGES]],
        texts=[_shaded_text(results, result) for result in results.by_text],
        conclusion=_conclusion(results),
        definitions=DEFINITIONS,
        measures=measures,
    )


def _conclusion(results: BookResults) -> Conclusion:
    """Return the conclusion for the model with the largest coverage."""
    model, totals = results.best, results.totals
    covered, certain = totals.select((COVERAGE, MIN_THRESHOLD), (COVERAGE, MAX_THRESHOLD), model=model, side=TEXT)
    windows, longest = totals.select((EXTRACTABLE, MIN_THRESHOLD), LONGEST, model=model, side=TEXT)
    of_control = totals.select((COVERAGE, MIN_THRESHOLD), model=model, side=CONTROL)
    control = "".join(f"; of the control text, {row.text}" for row in of_control)
    so_far = f"; so far {results.windows:,} of {pluralize(results.all_windows, 'window')}"
    if results.all_near:
        so_far += f" and {results.near:,} of {pluralize(results.all_near, 'near-verbatim window')}"
    caveat = (
        "Text that the model has seen elsewhere, such as quotations, counts as well."
        if of_control
        else "Common text is likely without having been memorized. A control text of the same kind shows how much."
    )
    subject = [result for result in results.by_text if result.model == model and not result.is_control]
    name = f"{model} (the largest coverage of {len(results.names)} targets)" if len(results.names) > 1 else model
    value, low, high, _ = covered.estimate
    characters = int(longest.estimate.value)
    return Conclusion(
        QUESTION,
        f"{format_percent(value)} of the characters",
        f"the part of {pluralize(len(subject), 'text')} that lies in suffixes of "
        f"{pluralize(results.params.suffix_tokens, 'token')} which {name} returns with a "
        f"probability of at least {format_bound(MIN_THRESHOLD)} under {results.label} "
        f"(95 % interval {format_percent(low)} to {format_percent(high)}); "
        f"{format_percent(certain.estimate.value)} at {format_bound(MAX_THRESHOLD)}{control}"
        f"{'' if results.is_complete else so_far}",
        caveat,
        (
            key_figure(covered, results.label),
            key_figure(certain, results.label),
            key_figure(windows, f"of {sum(len(result.windows) for result in subject):,}"),
            KeyFigure(
                LONGEST.title,
                pluralize(characters, "character") if characters else "–",
                f"at {LONGEST.at_text(MIN_THRESHOLD)}",
            ),
        ),
    )


def _sentences(results: BookResults) -> Iterator[str]:
    """Yield the limits of the measured values."""
    if results.unmeasured:
        missing = pluralize(results.unmeasured, "window")
        yield f"Left out {missing} that could not be measured through the endpoint."
    for gap in results.totals.select((GAP, MIN_THRESHOLD)):
        low, high = gap.estimate.low, gap.estimate.high
        verdict = "more than" if low > 0 else "less than" if high < 0 else "not clearly different from"
        yield f"{gap.model}: coverage of the text is {verdict} that of the control text: difference {gap.text}."
    if len(results.by_text) > _MAX_ROWS:
        yield f"Charts show {_MAX_ROWS} rows of {len(results.by_text)} (texts under targets); the tables have all."
    yield from results.texts.notes


def _text_table(results: BookResults) -> FoundTable:
    """Return the coverage of each text under the main scheme."""
    return wide_table(
        "coverage",
        f"Coverage by text, {results.label} (interval at p ≥ {format_bound(MIN_THRESHOLD)})",
        [
            row
            for row in results.single.select(CHARACTERS, MEASURED_WINDOWS, COVERAGE, MEAN)
            if row.case in ("", results.label)
        ],
        by={"model": "model", "text": "side"},
        intervals=(COVERAGE,),
    )


def _likeliest_passages(results: BookResults) -> list[tuple[TextResult, Passage]]:
    """Return passages at the smallest threshold, the likeliest first and the longer first among equals."""
    passages = [(result, passage) for result in results.by_text for passage in result.passages]
    passages.sort(key=lambda pair: (-round(pair[1].probability, 6), pair[1].start - pair[1].end))
    return passages[:_LISTED_PASSAGES]


def _passage_table(results: BookResults, passages: Sequence[tuple[TextResult, Passage]]) -> FoundTable:
    rows = [
        {
            "model": result.model,
            "text": result.name,
            **passage._asdict(),
            "passage": result.text[passage.start : passage.end],
        }
        for result, passage in passages
    ]
    title = f"Passages at p ≥ {format_bound(MIN_THRESHOLD)}, {results.label}"
    return table_of("passages", title, rows, is_detail=True, text_columns=("passage",))


def _window_table(results: BookResults) -> FoundTable:
    """Return every measured window with the log-probability of its suffix or an upper bound of it.

    It is None if a scheme cannot return the suffix.
    """
    rows = []
    for result in results.by_text:
        windows = result.windows
        logs = {f"log probability, {results.params.label(name)}": windows.logs[name] for name in result.sums}
        # A window that was not followed to its end has an upper bound; a probability of 0 is exact.
        largest = np.max(list(logs.values()), axis=0)
        is_bound = np.isfinite(largest) & (largest < np.log(MIN_PROBABILITY))
        columns = {"start": windows.start, "suffix start": windows.cut, "end": windows.end, **logs}
        columns["is upper bound"] = is_bound
        rows += [
            {"model": result.model, "text": result.name, **dict(zip(columns, cells, strict=True))}
            for cells in zip(*(column.tolist() for column in columns.values()), strict=True)
        ]
    return table_of("windows", "Every window", rows, is_detail=True)


def _passage(results: BookResults, result: TextResult, passage: Passage) -> report.Passage:
    stop = min(passage.end, passage.start + _MAX_CHARACTERS)
    rest = f" … and {passage.end - stop:,} characters more" if stop < passage.end else ""
    where = f"{result.model}: " if len(results.names) > 1 else ""
    stretches = [
        Stretch(result.text[max(0, passage.start - _CONTEXT) : passage.start]),
        Stretch(result.text[passage.start : stop], True),
        Stretch(rest or result.text[passage.end : passage.end + _CONTEXT]),
    ]
    return report.Passage(
        f"{where}{result.name}, characters {passage.start:,} to {passage.end:,}: "
        f"probability up to {format_number(passage.probability)}",
        (("text", stretches),),
        Marked.EXTRACTABLE,
        (results.row_name(result), (passage.start + passage.end) / 2 / len(result.text)),
    )


def _shaded_text(results: BookResults, result: TextResult) -> ShadedText:
    """Return a text under a model, coloured by the largest probability of a suffix with the character."""
    name = f"text-{result.windows.text + 1}-model-{result.windows.model + 1}"
    title = f"{result.side}: {result.model}" if len(results.names) == 1 else results.row_name(result)
    return ShadedText(name, f"{title}, {results.label}", result.text, result.peaks, THRESHOLDS)


def _charted_texts(results: BookResults) -> list[TextResult]:
    """Return the texts that charts show: the first ones under each target, and then its control."""
    charted: list[TextResult] = []
    models = list(dict.fromkeys(result.model for result in results.by_text))
    rows = max(2, _MAX_ROWS // len(models))
    for model in models:
        controls = [result for result in results.by_text if result.model == model and result.is_control][: rows // 2]
        texts = [result for result in results.by_text if result.model == model and not result.is_control]
        charted += [*texts[: rows - len(controls)], *controls]
    return charted


def largest_by_bin(peaks: Floats, bins: int) -> Floats:
    """Return the largest of peaks [characters] in each of at most `bins` equal parts, NaN where all are NaN."""
    edges = np.linspace(0, len(peaks), min(bins, len(peaks)) + 1).astype(np.int64)[:-1]
    largest = np.maximum.reduceat(np.where(np.isnan(peaks), -1.0, peaks), edges)
    return np.where(largest < 0, np.nan, largest)


def _map_chart(results: BookResults, texts: Sequence[TextResult]) -> HeatMap:
    values = np.full((len(texts), _BINS), np.nan)
    for row, result in enumerate(texts):
        parts = largest_by_bin(result.peaks, _BINS)
        # A text of fewer characters than bins fills the width, too.
        values[row] = parts[np.arange(_BINS) * len(parts) // _BINS]
    return HeatMap(
        "heat-map",
        f"Largest probability of a suffix at each place of the text, {results.label}",
        [results.row_name(result) for result in texts],
        [format_bound(place / _BINS) for place in range(_BINS)],
        values,
        bounds=THRESHOLDS,
    )
