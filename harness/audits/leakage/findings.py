"""Findings of a leakage audit, from complete or partial rows: figures, tables and passages, and the rest assembled."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.audits.leakage.charts import leakage_charts
from harness.audits.leakage.conclusion import DEFINITIONS, NOT_MEASURED, leakage_conclusion
from harness.audits.leakage.pairs import Pairs, TokenDecoder
from harness.audits.leakage.params import LeakageParams, describe_matches
from harness.audits.leakage.results import (
    DISCOVERABLE_PROBABILITIES,
    DISCOVERABLE_QUERIES,
    MOST_MATCHES,
    QUANTILES,
    SHARES_OVER,
    LeakageResults,
    SchemeSummary,
    Trend,
    leakage_results,
    wrong_positions,
)
from harness.audits.leakage.rows import Setting, read_measurements
from harness.audits.leakage.sentences import leakage_sentences
from harness.audits.leakage.trends import CLASSES, PARTS, Shape, class_name
from harness.audits.near_results import near_figures, near_table, summarize_near
from harness.audits.probabilities import extraction_rate, share_over
from harness.audits.report import Row, table_of
from harness.audits.schemes import Scheme
from harness.core.arrays import Floats, Ints
from harness.core.audit import RowsOf
from harness.core.findings import Findings, FoundTable, Passage, Stretch
from harness.core.measures import Estimate
from harness.core.paths import model_names
from harness.core.text import format_number, json_value

_SETTING_COLUMNS = ("model", "parameters", "prefix_tokens", "sequences")
_SHOWN_MATCHES = 20
_CONTEXT = 20
"""Tokens at the end of a prefix that are shown before a match."""


def leakage_findings(
    params: LeakageParams, pairs: Pairs, rows: RowsOf, models: Sequence[str], lengths: Sequence[int]
) -> Findings:
    """Return everything that is reported. It does not depend on the order of the rows.

    lengths: the requested prefix lengths. figures: `model`, `prefix_tokens`, `suffix_tokens`, `sequences`,
    `esp` (by scheme: `mean`, `quantiles`, `over_1_in`, …), `settings`, `trends`, `inexact`, `near_verbatim`,
    `wrong_positions`, `unmeasured`, `is_complete`.
    """
    names = model_names(models)
    near = [summarize_near(rows, name, model=model) for model, name in enumerate(names)]
    measured = read_measurements(rows, len(names))
    results = leakage_results(params, pairs, measured, [one for one in near if one is not None], names, lengths)
    if results is None:
        figures: dict[str, Any] = {"esp": {}, "sequences": 0, "is_complete": False}
        return Findings(figures, ["Nothing has been measured yet."], conclusion=NOT_MEASURED)
    reference = results.reference
    settings = [_setting_figures(one, results) for one in results.measured.settings]
    figures = {
        "model": names[reference.model],
        "prefix_tokens": reference.prefix_length,
        "suffix_tokens": results.suffix_length,
        "sequences": len(reference.sequences),
        "esp": {one.scheme.value: _scheme_figures(one, params) for one in results.schemes},
        "settings": settings,
        "trends": {
            trend.over.replace(" ", "_"): _trend_figures(trend, params.random_schemes) for trend in results.trends
        },
        "inexact": [
            one._asdict() | {"scheme": one.scheme.value, "over_esp": _share_figures(one.over_esp)}
            for one in results.inexact
        ],
        "near_verbatim": near_figures(results.near),
        "wrong_positions": {
            scheme.value: wrong_positions(matches, results.suffix_length).tolist()
            for scheme, matches in results.matches.items()
        },
        "unmeasured": max(setting.unmeasured for setting in results.measured.settings),
        "is_complete": results.is_complete,
    }
    return Findings(
        figures=json_value(figures),
        sentences=leakage_sentences(results),
        tables=leakage_tables(results, settings),
        charts=leakage_charts(results),
        passages=_passages(results),
        conclusion=leakage_conclusion(results),
        definitions=DEFINITIONS,
    )


def _passages(results: LeakageResults) -> list[Passage]:
    """Return the likeliest partial matches under top-k with the end of their prefix, differences marked."""
    decoder = TokenDecoder(results.pairs.tokenizer)

    def marked(tokens: Ints, wrong: Ints) -> list[Stretch]:
        return [Stretch(piece, place in wrong) for place, piece in enumerate(decoder.pieces(tokens))]

    return [
        Passage(
            f"sequence {match.sequence + 1}: probability {format_number(match.probability)} under "
            f"{results.label(match.scheme)}; the sequence itself has {format_number(match.esp)}",
            (
                ("end of the prefix", [Stretch(decoder.text(results.pairs.prefixes[match.sequence][-_CONTEXT:]))]),
                ("suffix", marked(results.pairs.suffixes[match.sequence], match.wrong)),
                ("match", marked(match.tokens, match.wrong)),
            ),
        )
        for match in results.matches.get(Scheme.TOP_K, [])[:_SHOWN_MATCHES]
    ]


def _scheme_figures(one: SchemeSummary, params: LeakageParams) -> dict[str, Any]:
    return {
        "name": params.label(one.scheme),
        "sequences": one.sequences,
        "mean": one.mean,
        "extraction_rate": one.mean,
        "quantiles": {f"{level:g}": value for level, value in zip(QUANTILES, one.quantiles, strict=True)},
        "over_1_in": {str(number): _share_figures(share) for number, share in zip(SHARES_OVER, one.over, strict=True)},
        "queries_to_pass_greedy": one.exceeds_greedy,
        "expected_queries_to_pass_greedy": one.expected_to_exceed,
        "underestimate": {
            "queries": params.queries,
            "by_threshold": one.factors[0],
            "expected": one.factors[1],
        },
        "discoverable": {
            str(queries): dict(zip(map("{:g}".format, DISCOVERABLE_PROBABILITIES), row, strict=True))
            for queries, row in zip(DISCOVERABLE_QUERIES, one.discoverable, strict=True)
        },
        "first_token": one.first,
        "last_token": one.last,
        "last_to_first": one.last_to_first,
    }


def _setting_figures(setting: Setting, results: LeakageResults) -> dict[str, Any]:
    logs = {scheme.value: setting.measured_log_esp(scheme) for scheme in results.params.schemes}
    return {
        "model": results.names[setting.model],
        "parameters": int(results.measured.parameters[setting.model]) or None,
        "prefix_tokens": setting.prefix_length,
        "sequences": len(setting.sequences),
        "mean_esp": {name: extraction_rate(each) for name, each in logs.items()},
        "over_1_in_1000": {name: share_over(each, np.array([1000]))[0] for name, each in logs.items()},
    }


def _trend_figures(trend: Trend, schemes: Sequence[Scheme]) -> dict[str, Any]:
    def by_scheme(shares: Floats, names: Sequence[tuple[Shape, bool]]) -> dict[str, Any]:
        return {
            scheme.value: {class_name(*each): share for each, share in zip(names, row, strict=True)}
            for scheme, row in zip(schemes, shares, strict=True)
        }

    return {
        "settings": trend.settings,
        "sequences": trend.sequences,
        "classes": by_scheme(trend.classes, CLASSES),
        "parts": by_scheme(trend.parts, PARTS),
    }


def _share_figures(share: Estimate) -> dict[str, float | int]:
    return {"share": share.value, "low": share.low, "high": share.high, "of": share.of}


def leakage_tables(results: LeakageResults, settings: Sequence[Row]) -> list[FoundTable]:
    """Return all tables for which there are results."""
    tables = [_scheme_table(results)]
    if len(results.measured.settings) > 1:
        tables += _settings_tables(results, settings)
    tables += [_trend_table(results, trend) for trend in results.trends]
    if results.inexact:
        tables.append(_inexact_table(results))
    if results.near:
        tables.append(near_table(results.near, results.label(Scheme.TOP_K), "model"))
    if results.matches:
        tables.append(_match_table(results))
    return [*tables, _sequence_table(results)]


def _scheme_table(results: LeakageResults) -> FoundTable:
    rows = [
        {
            "scheme": results.label(one.scheme),
            "sequences": one.sequences,
            "mean ESP": one.mean,
            "median": one.quantiles[2],
            "> 1/1000": one.over_1_in_1000.value,
            "low": one.over_1_in_1000.low,
            "high": one.over_1_in_1000.high,
            "queries to exceed greedy": one.exceeds_greedy,
            "expected queries": one.expected_to_exceed,
            f"factor at {results.params.queries} queries": one.factors[0],
            "expected factor": one.factors[1],
            "last / first": one.last_to_first,
        }
        for one in results.schemes
    ]
    return table_of("schemes", f"Leakage by decoding scheme, {results.where}", rows)


def _settings_tables(results: LeakageResults, settings: Sequence[Row]) -> list[FoundTable]:
    """Return the mean ESP and the share of sequences above 1/1000 for every model and prefix length, from figures."""
    return [
        table_of(
            name,
            title,
            [
                {column.removesuffix("_tokens"): one[column] for column in _SETTING_COLUMNS}
                | {results.label(scheme): one[figure][scheme.value] for scheme in results.params.schemes}
                for one in settings
            ],
        )
        for name, title, figure in (
            ("settings", "Mean ESP by model and prefix length", "mean_esp"),
            ("settings-over", "Sequences with ESP > 1/1000 by model and prefix length", "over_1_in_1000"),
        )
    ]


def _trend_table(results: LeakageResults, trend: Trend) -> FoundTable:
    kinds = (("class of the source", CLASSES, trend.classes), ("part", PARTS, trend.parts))
    rows = [
        {"of": kind, "trend": class_name(*each)}
        | {results.label(scheme): shares[place, number] for place, scheme in enumerate(results.params.random_schemes)}
        for kind, names, shares in kinds
        for number, each in enumerate(names)
    ]
    title = f"ESP over {trend.settings} {trend.over}, shares of {trend.sequences:,} sequences"
    return table_of(f"trends-over-{trend.over.replace(' ', '-')}", title, rows)


def _inexact_table(results: LeakageResults) -> FoundTable:
    rows = [
        {
            "scheme": results.label(one.scheme),
            "n": one.n,
            "sequences": one.over_esp.of,
            "exact": one.exact,
            "mean ESP": one.mean_esp,
            "mean ISP": one.mean_probability,
            "ISP at least": one.mean_low,
            "ISP at most": one.mean_high,
            "ISP > ESP": one.over_esp.value,
            "low": one.over_esp.low,
            "high": one.over_esp.high,
            "share at least": one.over_esp_at_least,
            "share at most": one.over_esp_at_most,
        }
        for one in results.inexact
    ]
    return table_of("inexact", "Suffixes with exactly n tokens substituted", rows)


def _match_table(results: LeakageResults) -> FoundTable:
    decoder = TokenDecoder(results.pairs.tokenizer)
    rows = [
        {
            "scheme": results.label(match.scheme),
            "sequence": match.sequence + 1,
            "probability": match.probability,
            "ESP": match.esp,
            "wrong positions": " ".join(str(place + 1) for place in match.wrong),
            "suffix": decoder.text(results.pairs.suffixes[match.sequence]),
            "match": decoder.text(match.tokens),
        }
        for matches in results.matches.values()
        for match in matches
    ]
    title = f"The {MOST_MATCHES} likeliest partial matches of each scheme ({describe_matches(results.suffix_length)})"
    return table_of("matches", title, rows, is_detail=True, text_columns=("suffix", "match"))


def _sequence_table(results: LeakageResults) -> FoundTable:
    """Return the log ESP of every sequence in every setting. Numbers begin at 1.

    It is None if a scheme cannot draw the sequence, or if an endpoint could not measure it.
    """
    rows = [
        {"model": results.names[setting.model], "prefix tokens": setting.prefix_length, "sequence": sequence + 1}
        | {
            f"log ESP, {results.label(scheme)}": float(setting.log_esp(scheme)[row])
            for scheme in results.params.schemes
        }
        for setting in results.measured.settings
        for row, sequence in enumerate(setting.sequences)
    ]
    return table_of("sequences", "Every sequence", rows, is_detail=True)
