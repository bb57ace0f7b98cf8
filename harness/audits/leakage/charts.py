"""The charts of a leakage audit."""

import numpy as np

from harness.audits.leakage.results import (
    DISCOVERABLE_PROBABILITIES,
    DISCOVERABLE_QUERIES,
    MOST_MATCHES,
    LeakageResults,
    Trend,
    wrong_positions,
)
from harness.audits.leakage.trends import CLASSES, class_name
from harness.audits.near_results import near_chart
from harness.audits.probabilities import expected_share, extraction_rate, query_grid, share_over
from harness.audits.report import bar_chart, share_of
from harness.audits.schemes import Scheme
from harness.core.findings import Chart, HeatMap, LineChart, Series
from harness.core.text import format_percent, format_score

_FEW_POSITIONS = 10


def leakage_charts(results: LeakageResults) -> list[Chart]:
    """Return all charts for which there are results."""
    charts = [*_leak_curves(results), _position_chart(results)]
    if len(results.measured.settings) > 1:
        charts.append(_settings_chart(results))
    charts += [_trend_chart(results, trend) for trend in results.trends]
    if results.inexact:
        charts.append(_inexact_chart(results))
    if results.near:
        charts.append(near_chart(results.near, results.label(Scheme.TOP_K), "sequence"))
    if results.matches:
        charts.append(_wrong_position_chart(results))
    return [*charts, _discoverable_chart(results)]


def _leak_curves(results: LeakageResults) -> list[Chart]:
    """Return the share of leaked sequences by number of queries, by both definitions, beside extraction rates.

    Only the rates of greedy decoding and of top-k are drawn as lines. The legend has the rates of all schemes.
    """
    grid = query_grid()
    logs = {scheme: results.reference.measured_log_esp(scheme) for scheme in results.params.schemes}
    rates = {scheme: extraction_rate(each) for scheme, each in logs.items()}
    labels = {scheme: f"{results.label(scheme)}, rate {format_percent(rate)}" for scheme, rate in rates.items()}
    flat = [
        Series(name, grid, np.full(len(grid), rates[scheme]), is_dashed=True)
        for scheme, name in (
            (Scheme.GREEDY, labels[Scheme.GREEDY]),
            (Scheme.TOP_K, f"extraction rate, {results.label(Scheme.TOP_K)}"),
        )
    ]
    return [
        LineChart(
            name,
            f"{title}, {results.where}",
            "queries X per sequence",
            "share of sequences",
            [
                *(
                    Series(labels[scheme], grid, share(logs[scheme], grid), key=results.label(scheme))
                    for scheme in results.params.random_schemes
                ),
                *flat,
            ],
            is_x_logarithmic=True,
        )
        for name, title, share in (
            ("leaked", "Sequences with ESP > 1/X", share_over),
            ("leaked-expected", "Expected share of sequences leaked within X queries", expected_share),
        )
    ]


def _position_chart(results: LeakageResults) -> Chart:
    places = np.arange(1, results.suffix_length + 1)
    lines = [
        Series(
            results.label(scheme), places, results.reference.position_means(scheme), is_dashed=scheme is Scheme.GREEDY
        )
        for scheme in (*results.params.random_schemes, Scheme.GREEDY)
    ]
    title = f"Mean probability of each suffix token, {results.where}"
    has_markers = len(places) <= _FEW_POSITIONS
    return LineChart(
        "token-probability", title, "position in the suffix", "mean probability", lines, has_markers=has_markers
    )


def _trend_chart(results: LeakageResults, trend: Trend) -> Chart:
    labels = [class_name(*each) for each in CLASSES]
    groups = {
        results.label(scheme): {
            label: share_of(share * trend.sequences, trend.sequences)
            for label, share in zip(labels, trend.classes[place].tolist(), strict=True)
        }
        for place, scheme in enumerate(results.params.random_schemes)
    }
    title = f"ESP over {trend.settings} {trend.over} ({trend.sequences:,} sequences; classes overlap)"
    name = f"trends-over-{trend.over.replace(' ', '-')}"
    return bar_chart(name, title, "share of sequences", groups, labels)


def _inexact_chart(results: LeakageResults) -> Chart:
    labels = list(dict.fromkeys(results.label(one.scheme) for one in results.inexact))
    groups = {
        f"n = {n}": {results.label(one.scheme): one.over_esp for one in results.inexact if one.n == n}
        for n in sorted({one.n for one in results.inexact})
    }
    return bar_chart("inexact-over-exact", "Sequences with n-ISP > ESP", "share of sequences", groups, labels)


def _wrong_position_chart(results: LeakageResults) -> Chart:
    length = results.suffix_length
    return LineChart(
        "wrong-positions",
        f"Wrong positions in the {MOST_MATCHES} likeliest partial matches",
        "position in the suffix",
        "matches",
        [
            Series(results.label(scheme), np.arange(1, length + 1), wrong_positions(matches, length))
            for scheme, matches in results.matches.items()
        ],
        has_markers=length <= _FEW_POSITIONS,
    )


def _discoverable_chart(results: LeakageResults) -> Chart:
    summary = next(one for one in results.schemes if one.scheme is Scheme.TOP_K)
    return LineChart(
        "discoverable",
        f"(n, p)-discoverable extraction rate, {results.label(Scheme.TOP_K)}, {results.where}",
        "queries n",
        "share of sequences",
        [
            Series(f"p = {probability:g}", np.array(DISCOVERABLE_QUERIES), summary.discoverable[:, number])
            for number, probability in enumerate(DISCOVERABLE_PROBABILITIES)
        ],
        is_x_logarithmic=True,
        has_markers=True,
    )


def _settings_chart(results: LeakageResults) -> Chart:
    settings = results.measured.settings
    models, lengths = results.measured.models, sorted({setting.prefix_length for setting in settings})
    values = np.full((len(models), len(lengths)), np.nan)
    for setting in settings:
        rate = extraction_rate(setting.measured_log_esp(Scheme.TOP_K))
        values[models.index(setting.model), lengths.index(setting.prefix_length)] = rate
    return HeatMap(
        "settings",
        f"Mean ESP under {results.label(Scheme.TOP_K)} by model and prefix length",
        [results.names[model] for model in models],
        [f"{length} tokens" for length in lengths],
        values,
        [["" if np.isnan(value) else format_score(value) for value in row] for row in values],
    )
