"""The charts of a leakage audit."""

import numpy as np

from harness.audits.leakage.results import (
    ISP_OVER,
    MEAN_ESP,
    MOST_MATCHES,
    TOKEN,
    TRENDS,
    WRONG,
    LeakageResults,
    growing_settings,
)
from harness.audits.near_results import NEAR_OVER, near_verbatim_chart
from harness.audits.probabilities import (
    DISCOVERABLE,
    Scheme,
    discoverable_chart,
    expected_share,
    extraction_rate,
    query_grid,
    share_over,
)
from harness.audits.report import bars_of, lines_of
from harness.core.findings import Chart, HeatMap, LineChart, Series
from harness.core.text import format_percent, format_score

_FEW_POSITIONS = 10


def leakage_charts(results: LeakageResults) -> list[Chart]:
    """Return all charts for which there are results."""
    measured, label = results.measured, results.params.label(Scheme.TOP_K)
    has_markers = results.suffix_length <= _FEW_POSITIONS
    greedy = results.params.label(Scheme.GREEDY)
    tokens = measured.select(TOKEN)
    charts: list[Chart] = [
        *_leak_curves(results),
        lines_of(
            "token-probability",
            f"Mean probability of each suffix token, {results.where}",
            "position in the suffix",
            "mean probability",
            [row for row in tokens if row.case != greedy] + [row for row in tokens if row.case == greedy],
            series="case",
            controls=(greedy,),
            has_markers=has_markers,
        ),
    ]
    if len(results.measurements.settings) > 1:
        charts.append(_settings_chart(results))
    for over, settings in growing_settings(results.measurements).items():
        rows = measured.select(TRENDS[over])
        title = f"ESP over {len(settings)} {over} ({rows[0].estimate.of:,} sequences; classes overlap)"
        name = f"trends-over-{over.replace(' ', '-')}"
        charts.append(bars_of(name, title, "share of sequences", rows, label="side", group="case"))
    if inexact := measured.select(ISP_OVER):
        title = "Sequences with n-ISP > ESP"
        inexact = sorted(inexact, key=lambda row: row.at or 0)
        charts.append(
            bars_of(
                "inexact-over-exact",
                title,
                "share of sequences",
                inexact,
                label="case",
                group=lambda row: f"n = {int(row.at or 0)}",
            )
        )
    if measured.select(NEAR_OVER):
        charts.append(near_verbatim_chart(measured, label, "sequence", part="model"))
    if results.matches:
        charts.append(
            lines_of(
                "wrong-positions",
                f"Wrong positions in the {MOST_MATCHES} likeliest partial matches",
                "position in the suffix",
                "matches",
                measured.select(WRONG),
                series="case",
                has_markers=has_markers,
            )
        )
    discoverable = measured.select(*DISCOVERABLE.values(), **results.of_reference, case=label)
    return [*charts, discoverable_chart(discoverable, "sequence", f"{label}, {results.where}")]


def _leak_curves(results: LeakageResults) -> list[Chart]:
    """Return the share of leaked sequences by number of queries, by both definitions, beside extraction rates.

    Only the rates of greedy decoding and of top-k are drawn as lines. The legend has the rates of all schemes.
    """
    grid = query_grid()
    logs = {scheme: results.reference.measured(scheme) for scheme in results.params.schemes}
    rates = {scheme: extraction_rate(esps) for scheme, esps in logs.items()}
    labels = {scheme: f"{results.params.label(scheme)}, rate {format_percent(rate)}" for scheme, rate in rates.items()}
    flat = [
        Series(name, grid, np.full(len(grid), rates[scheme]), is_dashed=True)
        for scheme, name in (
            (Scheme.GREEDY, labels[Scheme.GREEDY]),
            (Scheme.TOP_K, f"extraction rate, {results.params.label(Scheme.TOP_K)}"),
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
                    Series(labels[scheme], grid, share(logs[scheme], grid), key=results.params.label(scheme))
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


def _settings_chart(results: LeakageResults) -> HeatMap:
    label = results.params.label(Scheme.TOP_K)
    settings = results.measurements.settings
    models = list(dict.fromkeys(results.names[setting.model] for setting in settings))
    lengths = sorted({setting.prefix_length for setting in settings})
    values = np.full((len(models), len(lengths)), np.nan)
    for setting in settings:
        name = results.names[setting.model]
        rate = results.measured.get(MEAN_ESP, model=name, side=setting.side, case=label)
        values[models.index(name), lengths.index(setting.prefix_length)] = rate.value
    return HeatMap(
        "settings",
        f"Mean ESP under {label} by model and prefix length",
        models,
        [f"{length} tokens" for length in lengths],
        values,
        [["" if np.isnan(value) else format_score(value) for value in row] for row in values],
    )
