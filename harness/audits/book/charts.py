"""The charts of a book audit, and its texts with every character coloured by its probability."""

import math

import numpy as np

from harness.audits.book.params import THRESHOLDS
from harness.audits.book.results import DISCOVERY, QUERIES, BookResults, TextResult
from harness.audits.near_results import near_chart
from harness.audits.report import bar_chart
from harness.core.arrays import Floats
from harness.core.findings import Chart, HeatMap, LineChart, Series, ShadedText
from harness.core.measures import Estimate
from harness.core.text import format_bound, format_percent, format_score

MOST_ROWS = 24
"""Texts in a chart."""
_BINS = 400
"""Parts of a text in the heat map."""
_CURVE = np.logspace(-6, 0, 121)


def book_charts(results: BookResults) -> list[Chart]:
    """Return all charts."""
    charts = [_map_chart(results), _coverage_chart(results), _curve_chart(results), _discoverable_chart(results)]
    return [*charts, near_chart(results.near, results.label, "window")] if results.near else charts


def shaded_texts(results: BookResults) -> list[ShadedText]:
    """Return every text under every model, coloured by the largest probability of a suffix with the character."""
    return [
        ShadedText(
            f"text-{one.measured.text + 1}-model-{one.measured.model + 1}",
            f"{results.row_name(one)}: {results.names[one.measured.model]}, {results.label}"
            if len(results.names) == 1
            else f"{results.row_name(one)}, {results.label}",
            results.texts.texts[one.measured.text],
            one.peaks,
            THRESHOLDS,
        )
        for one in results.by_text
    ]


def shown_texts(results: BookResults) -> list[TextResult]:
    """Return the texts that charts show: the first ones under each target, and then its control."""
    shown: list[TextResult] = []
    rows = max(2, MOST_ROWS // len(results.by_model))
    for model in results.by_model:
        mine = [one for one in results.by_text if one.measured.model == model.model]
        control = [one for one in mine if results.texts.is_control[one.measured.text]][: rows // 2]
        subject = [one for one in mine if not results.texts.is_control[one.measured.text]]
        shown += [*subject[: rows - len(control)], *control]
    return shown


def largest_by_bin(peaks: Floats, bins: int) -> Floats:
    """Return the largest of peaks [characters] in each of at most `bins` equal parts, NaN where all are NaN."""
    edges = np.linspace(0, len(peaks), min(bins, len(peaks)) + 1).astype(np.int64)[:-1]
    largest = np.maximum.reduceat(np.where(np.isnan(peaks), -1.0, peaks), edges)
    return np.where(largest < 0, np.nan, largest)


def _map_chart(results: BookResults) -> Chart:
    shown = shown_texts(results)
    values = np.full((len(shown), _BINS), np.nan)
    for row, one in enumerate(shown):
        parts = largest_by_bin(one.peaks, _BINS)
        # A text of fewer characters than bins fills the width, too.
        values[row] = parts[np.arange(_BINS) * len(parts) // _BINS]
    return HeatMap(
        "heat-map",
        f"Largest probability of a suffix at each place of the text, {results.label}",
        [results.row_name(one) for one in shown],
        [format_bound(place / _BINS) for place in range(_BINS)],
        values,
        bounds=THRESHOLDS,
    )


def _coverage_chart(results: BookResults) -> Chart:
    labels = [f"p ≥ {format_bound(threshold)}" for threshold in THRESHOLDS]
    groups: dict[str, dict[str, Estimate]] = {}
    controls = []
    for one in results.by_model:
        name = results.names[one.model]
        subject = [each for each in results.by_text if not results.texts.is_control[each.measured.text]]
        text = results.row_name(subject[0]) if len(subject) == 1 else "text"
        text = "text" if text == "control" else text
        parts = [(name if len(results.names) > 1 else text, one.total)]
        if one.control is not None:
            control = f"{name}, control" if len(results.names) > 1 else "control"
            controls.append(control)
            parts.append((control, one.control))
        for group, sums in parts:
            if sums is not None:
                groups[group] = {
                    label: sums.coverage(threshold) for label, threshold in zip(labels, THRESHOLDS, strict=True)
                }
    return bar_chart(
        "coverage",
        f"Characters in a suffix of at least this probability, {results.label}",
        "share of characters",
        groups,
        labels,
        controls=tuple(controls),
    )


def _curve_chart(results: BookResults) -> Chart:
    series = []
    for one in shown_texts(results):
        known = np.sort(one.peaks[~np.isnan(one.peaks)])
        share = 1 - np.searchsorted(known, _CURVE, side="left") / max(1, len(known))
        is_control = bool(results.texts.is_control[one.measured.text])
        series.append(Series(results.row_name(one), _CURVE, share, is_dashed=is_control))
    return LineChart(
        "coverage-curve",
        f"Coverage at each probability, {results.label}",
        "probability of a suffix",
        "share of characters",
        series,
        is_x_logarithmic=True,
    )


def _discoverable_chart(results: BookResults) -> Chart:
    reference = results.reference
    return LineChart(
        "discoverable",
        f"(n, p)-discoverable windows, {results.names[reference.model]}, {results.label}",
        "queries n",
        "share of windows",
        [
            Series(f"p = {probability:g}", np.array(QUERIES), reference.discoverable[:, number])
            for number, probability in enumerate(DISCOVERY)
        ],
        is_x_logarithmic=True,
        has_markers=True,
    )


def estimate_text(estimate: Estimate) -> str:
    """Return a share with its interval, such as "12.3 % [10.1 %, 14.6 %]"."""
    if math.isnan(estimate.value):
        return format_score(math.nan)
    return f"{format_percent(estimate.value)} [{format_percent(estimate.low)}, {format_percent(estimate.high)}]"
