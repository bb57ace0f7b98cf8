"""Findings of a leakage audit, from complete or partial rows."""

from collections.abc import Iterator, Sequence

import numpy as np

from harness.audits.leakage.pairs import LONGEST_FOLLOWED, LeakageParams, Pairs, TokenDecoder
from harness.audits.leakage.results import (
    EXCEED,
    EXPECTED_EXCEED,
    EXPECTED_FACTOR,
    FACTOR,
    ISP,
    ISP_ESP,
    ISP_EXACT,
    ISP_OVER,
    ISP_OVER_MOST,
    LAST_TO_FIRST,
    MEAN_ESP,
    MOST_MATCHES,
    OVER,
    QUANTILE,
    TOKEN,
    TRENDS,
    WRONG,
    LeakageResults,
    growing_settings,
    leakage_results,
)
from harness.audits.leakage.rows import read_measurements
from harness.audits.near_results import NEAR_DEFINITION, NEAR_OVER, near_rows, near_verbatim_chart, near_verbatim_table
from harness.audits.probabilities import (
    DISCOVERABLE,
    Scheme,
    discoverable_chart,
    expected_share,
    extraction_rate,
    query_grid,
    share_over,
)
from harness.audits.report import bars_of, case_table, key_figure, lines_of, measure_table, table_of, wide_table
from harness.core.arrays import Ints
from harness.core.audit import RowsOf
from harness.core.findings import (
    Chart,
    Conclusion,
    Findings,
    FoundTable,
    HeatMap,
    KeyFigure,
    LineChart,
    Passage,
    Series,
    Stretch,
)
from harness.core.paths import model_names
from harness.core.text import format_interval, format_number, format_percent, format_score, pluralize

QUESTION = "How likely is the model to leak these sequences?"
NOT_MEASURED = Conclusion(QUESTION, "Not known yet", "nothing has been measured")
DEFINITIONS = {
    "ESP": "exact sample probability: the probability that one query, given the prefix, returns the suffix exactly",
    "n-ISP": "n-inexact sample probability: the probability that one query returns the suffix with exactly n tokens "
    "substituted",
    "ISP": "inexact sample probability: the probability that one query returns the suffix with exactly n tokens "
    "substituted",
    "near-verbatim": NEAR_DEFINITION,
    "(n, p)-discoverable": "returned by at least one of n queries with a probability of at least p",
    "extraction rate": "the expected share of sequences that one query each returns, which is the mean ESP",
}
_SHOWN_MATCHES = 20
_FEW_POSITIONS = 10
_CONTEXT = 20
"""Tokens at the end of a prefix that are shown before a match."""


def leakage_findings(
    params: LeakageParams, pairs: Pairs, rows: RowsOf, models: Sequence[str], lengths: Sequence[int]
) -> Findings:
    """Return everything that is reported. It does not depend on the order of the rows.

    lengths: the requested prefix lengths. figures: of the largest model with whole prefixes `model`, `prefix_tokens`,
    `suffix_tokens`, `sequences`; `settings` (of each model and prefix length), `unmeasured`, `is_complete`.
    """
    names = model_names(models)
    near = [row for model, name in enumerate(names) for row in near_rows(rows, model, name)]
    results = leakage_results(params, pairs, read_measurements(rows, len(names)), near, names, lengths)
    if results is None:
        figures = {"sequences": 0, "is_complete": False}
        return Findings(figures, ["Nothing has been measured yet."], conclusion=NOT_MEASURED)
    reference, measurements = results.reference, results.measurements
    return Findings(
        figures={
            "model": names[reference.model],
            "prefix_tokens": reference.prefix_length,
            "suffix_tokens": results.suffix_length,
            "sequences": len(reference.sequences),
            "settings": [
                {
                    "model": names[setting.model],
                    "parameters": int(measurements.parameters[setting.model]) or None,
                    "prefix_tokens": setting.prefix_length,
                    "sequences": len(setting.sequences),
                }
                for setting in measurements.settings
            ],
            "unmeasured": max(setting.unmeasured for setting in measurements.settings),
            "is_complete": results.is_complete,
        },
        sentences=list(_sentences(results)),
        tables=_tables(results),
        charts=_charts(results),
        passages=_passages(results),
        conclusion=_conclusion(results),
        definitions=DEFINITIONS,
        measures=results.measured,
    )


def _conclusion(results: LeakageResults) -> Conclusion:
    """Return the conclusion for the largest model with whole prefixes."""
    label, top_k = results.params.label(Scheme.TOP_K), results.value(MEAN_ESP, Scheme.TOP_K)
    if not top_k.of:
        return Conclusion(QUESTION, "Not known", f"no sequence could be measured under {label}")
    most = np.nanmax([results.value(MEAN_ESP, scheme).value for scheme in results.params.random_schemes])
    greedy, over = results.value(MEAN_ESP, Scheme.GREEDY), results.value(OVER, Scheme.TOP_K, 1_000)
    whole = pluralize(len(results.pairs), "sequence")
    so_far = "" if results.is_complete else f"; so far {len(results.reference.sequences):,} of {whole}"
    name = results.names[results.reference.model]
    (exceed,) = results.measured.select(EXCEED, **results.of_reference, case=label)
    return Conclusion(
        QUESTION,
        f"{format_percent(top_k.value)} in one query",
        f"the expected share of {pluralize(top_k.of, 'sequence')} whose suffix {name} returns exactly under "
        f"{label}; {format_percent(over.value)} have a probability above 1/1000{so_far}",
        "A suffix that is easy to predict leaks like a memorized one. These probabilities do not tell the two apart.",
        (
            KeyFigure(f"mean ESP, {label}", format_score(top_k.value), f"largest of the schemes {format_score(most)}"),
            KeyFigure("returned by greedy decoding", format_score(greedy.value), f"of {greedy.of:,} sequences"),
            KeyFigure("ESP > 1/1000", format_score(over.value), f"{format_interval(over.low, over.high)}, {label}"),
            key_figure(exceed, f"per sequence, {label}"),
        ),
    )


def _tables(results: LeakageResults) -> list[FoundTable]:
    """Return all tables for which there are results."""
    measured, of_reference = results.measured, results.of_reference
    tables = [
        wide_table(
            "schemes",
            f"Leakage by decoding scheme, {results.where}",
            measured.select(
                MEAN_ESP,
                (QUANTILE, 0.5),
                (OVER, 1_000),
                EXCEED,
                EXPECTED_EXCEED,
                FACTOR,
                EXPECTED_FACTOR,
                LAST_TO_FIRST,
                **of_reference,
            ),
            by={"scheme": "case"},
            intervals=(OVER,),
            number="sequences",
        )
    ]
    if len(results.measurements.settings) > 1:
        by = {"model": "model", "prefix": "side"}
        tables += [
            case_table("settings", "Mean ESP by model and prefix length", measured.select(MEAN_ESP), by=by),
            case_table(
                "settings-over",
                "Sequences with ESP > 1/1000 by model and prefix length",
                measured.select((OVER, 1_000)),
                by=by,
            ),
        ]
    for over, settings in growing_settings(results.measurements).items():
        rows = measured.select(TRENDS[over])
        title = f"ESP over {len(settings)} {over}, shares of {rows[0].estimate.of:,} sequences"
        tables.append(case_table(f"trends-over-{over.replace(' ', '-')}", title, rows, by={"trend": "side"}))
    if inexact := measured.select(ISP_EXACT, ISP_ESP, ISP, ISP_OVER, ISP_OVER_MOST):
        title = "Suffixes with exactly n tokens substituted"
        by = {"scheme": "case", "n": "at"}
        tables.append(wide_table("inexact", title, inexact, by=by, intervals=(ISP, ISP_OVER)))
    if measured.select(NEAR_OVER):
        tables.append(near_verbatim_table(measured, results.params.label(Scheme.TOP_K), by="model", part="model"))
    tables.append(measure_table(measured))
    if results.matches:
        tables.append(_match_table(results))
    return [*tables, _sequence_table(results)]


def _passages(results: LeakageResults) -> list[Passage]:
    """Return the likeliest partial matches under top-k with the end of their prefix, differences marked."""
    decoder = TokenDecoder(results.pairs.tokenizer)

    def marked(tokens: Ints, wrong: Ints) -> list[Stretch]:
        return [Stretch(piece, place in wrong) for place, piece in enumerate(decoder.pieces(tokens))]

    return [
        Passage(
            f"sequence {match.sequence + 1}: probability {format_number(match.probability)} under "
            f"{results.params.label(match.scheme)}; the sequence itself has {format_number(match.esp)}",
            (
                ("end of the prefix", [Stretch(decoder.text(results.pairs.prefixes[match.sequence][-_CONTEXT:]))]),
                ("suffix", marked(results.pairs.suffixes[match.sequence], match.wrong)),
                ("match", marked(match.tokens, match.wrong)),
            ),
        )
        for match in results.matches.get(Scheme.TOP_K, [])[:_SHOWN_MATCHES]
    ]


def _match_table(results: LeakageResults) -> FoundTable:
    decoder = TokenDecoder(results.pairs.tokenizer)
    rows = [
        {
            "scheme": results.params.label(match.scheme),
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
    title = f"The {MOST_MATCHES} likeliest partial matches of each scheme ({results.matches_are})"
    return table_of("matches", title, rows, is_detail=True, text_columns=("suffix", "match"))


def _sequence_table(results: LeakageResults) -> FoundTable:
    """Return the log ESP of every sequence in every setting. Numbers begin at 1.

    It is None if a scheme cannot draw the sequence, or if an endpoint could not measure it.
    """
    rows = [
        {"model": results.names[setting.model], "prefix tokens": setting.prefix_length, "sequence": sequence + 1}
        | {
            f"log ESP, {results.params.label(scheme)}": float(setting.logs[scheme][row])
            for scheme in results.params.schemes
        }
        for setting in results.measurements.settings
        for row, sequence in enumerate(setting.sequences)
    ]
    return table_of("sequences", "Every sequence", rows, is_detail=True)


def _charts(results: LeakageResults) -> list[Chart]:
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
    """Return the share of leaked sequences by number of queries, by both definitions, with extraction rates.

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


def _sentences(results: LeakageResults) -> Iterator[str]:
    """Yield what the measured values do not say."""
    params, reference = results.params, results.reference
    if not results.is_complete:
        yield f"Measured so far: {len(reference.sequences):,} of {pluralize(len(results.pairs), 'sequence')}."
    if number := max(setting.unmeasured for setting in results.measurements.settings):
        yield f"Left out {pluralize(number, 'sequence')} that could not be measured through the endpoint."
    for scheme in params.schemes:
        measured = results.value(MEAN_ESP, scheme).of
        if missing := len(reference.sequences) - measured:
            yield (
                f"{params.label(scheme)} has results for {pluralize(measured, 'sequence')}. For {missing:,} more, the "
                "tokens that the endpoint returned do not settle which are the likeliest."
            )
    exact, over = results.measured.select(ISP_EXACT), results.measured.select(ISP_OVER)
    if any(row.estimate.value < of.estimate.of for row, of in zip(exact, over, strict=True)):
        yield "The n-ISP sums the likeliest partial suffixes; its upper bound adds the probability of those left out."
    if params.inexact and results.suffix_length > LONGEST_FOLLOWED:
        yield f"The n-ISP is measured for suffixes of at most {LONGEST_FOLLOWED} tokens only."
    yield (
        f"Schemes: {', '.join(map(params.label, params.schemes))}. For top-k the source gives 5 in its text and 10, "
        "the default here, in its Table 1."
    )
    yield from results.pairs.notes
