"""The tables of a leakage audit: its results, and every sequence."""

import numpy as np

from harness.audits.leakage.pairs import TokenDecoder
from harness.audits.leakage.params import RANDOM_SCHEMES, SCHEMES, describe_matches
from harness.audits.leakage.probabilities import extraction_rate, share_over
from harness.audits.leakage.results import MOST_MATCHES, LeakageResults, Trend
from harness.audits.leakage.trends import CLASSES, PARTS, class_name
from harness.audits.report import number_or_none, table_of
from harness.core.findings import FoundTable


def leakage_tables(results: LeakageResults) -> list[FoundTable]:
    """Return all tables for which there are results."""
    tables = [_scheme_table(results)]
    if len(results.measured.settings) > 1:
        tables += _settings_tables(results)
    tables += [_trend_table(results, trend) for trend in results.trends]
    if results.inexact:
        tables.append(_inexact_table(results))
    if results.matches:
        tables.append(_match_table(results))
    return [*tables, _sequence_table(results)]


def _scheme_table(results: LeakageResults) -> FoundTable:
    rows = [
        {
            "scheme": results.label(one.scheme),
            "mean ESP": one.mean,
            "median": float(one.quantiles[2]),
            "> 1/1000": one.over_1_in_1000.value,
            "low": one.over_1_in_1000.low,
            "high": one.over_1_in_1000.high,
            "queries to exceed greedy": one.exceeds_greedy,
            "expected queries": one.expected_to_exceed,
            f"factor at {results.params.queries} queries": number_or_none(one.factors[0]),
            "expected factor": number_or_none(one.factors[1]),
            "last / first": number_or_none(one.last_to_first),
        }
        for one in results.schemes
    ]
    return table_of("schemes", f"Leakage by decoding scheme, {results.where}", rows)


def _settings_tables(results: LeakageResults) -> list[FoundTable]:
    """Return the mean ESP and the share of sequences above 1/1000 for every model and prefix length."""
    means, shares = [], []
    for setting in results.measured.settings:
        where = {
            "model": results.names[setting.model],
            "parameters": int(results.measured.parameters[setting.model]) or None,
            "prefix": setting.prefix_length,
            "sequences": len(setting.sequences),
        }
        logs = {results.label(scheme): setting.log_esp(scheme) for scheme in SCHEMES}
        means.append(where | {name: extraction_rate(each) for name, each in logs.items()})
        shares.append(where | {name: float(share_over(each, np.array([1000]))[0]) for name, each in logs.items()})
    return [
        table_of("settings", "Mean ESP by model and prefix length", means),
        table_of("settings-over", "Sequences with ESP > 1/1000 by model and prefix length", shares),
    ]


def _trend_table(results: LeakageResults, trend: Trend) -> FoundTable:
    kinds = (("class of the source", CLASSES, trend.classes), ("part", PARTS, trend.parts))
    rows = [
        {"of": kind, "trend": class_name(*each)}
        | {results.label(scheme): float(shares[place, number]) for place, scheme in enumerate(RANDOM_SCHEMES)}
        for kind, names, shares in kinds
        for number, each in enumerate(names)
    ]
    title = f"ESP over {trend.settings} {trend.over}, shares of {trend.sequences:,} sequences"
    return table_of(f"trends-over-{trend.over.replace(' ', '-')}", title, rows)


def _inexact_table(results: LeakageResults) -> FoundTable:
    rows = [
        {
            "scheme": results.label(one.scheme),
            "n": one.errors,
            "sequences": one.over_esp.of,
            "exact": one.exact,
            "mean ESP": one.esp,
            "mean ISP": one.probability,
            "ISP at least": one.low,
            "ISP at most": one.high,
            "ISP > ESP": one.over_esp.value,
            "low": one.over_esp.low,
            "high": one.over_esp.high,
            "share at least": one.at_least,
            "share at most": one.at_most,
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
    """Return the log ESP of every sequence in every setting; None if a scheme cannot draw it. Numbers begin at 1."""
    rows = [
        {"model": results.names[setting.model], "prefix tokens": setting.prefix_length, "sequence": int(sequence) + 1}
        | {f"log ESP, {results.label(scheme)}": number_or_none(log) for scheme, log in zip(SCHEMES, logs, strict=True)}
        for setting in results.measured.settings
        for sequence, logs in zip(setting.sequences, setting.log_esps.T, strict=True)
    ]
    return table_of("sequences", "Every sequence", rows, is_detail=True)
