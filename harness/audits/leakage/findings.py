"""Findings of a leakage audit, from complete or partial rows."""

from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from harness.audits.leakage import measures
from harness.audits.leakage.pairs import LONGEST_FOLLOWED, LeakageParams, Pairs
from harness.audits.leakage.results import LeakageResults, leakage_results
from harness.audits.leakage.rows import MAX_MATCHES, Trend, read_measurements
from harness.audits.near_results import NEAR_DEFINITION, NEAR_SECTIONS, near_rows
from harness.audits.probabilities import DISCOVERABLE_SECTIONS, DataSet, Scheme, leak_chart
from harness.audits.report import (
    Section,
    bars_of,
    case_table,
    draw_sections,
    grouped,
    key_figure,
    lines_of,
    measure_table,
    section,
    table_of,
    unmeasured_findings,
    wide_table,
)
from harness.core.audit import RowsOf
from harness.core.findings import Chart, Conclusion, Findings, FoundTable, KeyFigure, Passage, Stretch
from harness.core.paths import model_names
from harness.core.text import format_interval, format_number, format_percent, format_score, pluralize

QUESTION = "How likely is the model to leak these sequences?"
_ISP = "inexact sample probability: the probability that one query returns the suffix with exactly n tokens substituted"
DEFINITIONS = {
    "ESP": "exact sample probability: the probability that one query, given the prefix, returns the suffix exactly",
    "n-ISP": f"n-{_ISP}",
    "ISP": _ISP,
    "near-verbatim": NEAR_DEFINITION,
    "(n, p)-discoverable": "returned by at least one of n queries with a probability of at least p",
    "extraction rate": "the expected share of sequences that one query each returns, which is the mean ESP",
}
_MAX_PASSAGES = 20
_MAX_EASIER = 10
_MAX_LIKELIEST = 20
_TEXTS = ("end of the prefix", "suffix")
_OF_REFERENCE = (
    section(
        wide_table,
        "schemes",
        "Leakage by decoding scheme, {where}",
        measures.MEAN_ESP,
        (measures.QUANTILE, 0.5),
        (measures.OVER, 1_000),
        *(measures.EXCEED, measures.EXPECTED_EXCEED, measures.FACTOR, measures.EXPECTED_FACTOR, measures.LAST_TO_FIRST),
        by={"scheme": "case"},
        intervals=(measures.OVER,),
        number="sequences",
    ),
    section(
        lines_of,
        "token-probability",
        "Mean probability of each suffix token, {where}",
        measures.TOKEN,
        x_label="position in the suffix",
        y_label="mean probability",
        series="case",
    ),
)
_OF_SETTINGS = grouped("settings", "Leakage by model and prefix length", (measures.OVER, 1_000), measures.MEAN_ESP)
_OF_ALL = (
    section(
        wide_table,
        "easier",
        "Sequences with a larger ESP in another setting than the largest model with whole prefixes",
        *measures.EASIER.values(),
        by={"scheme": "case"},
        intervals=tuple(measures.EASIER.values()),
    ),
    section(
        wide_table,
        "inexact",
        "Suffixes with exactly n tokens substituted",
        *(measures.ISP_EXACT, measures.ISP_ESP, measures.ISP, measures.ISP_OVER, measures.ISP_OVER_MOST),
        by={"scheme": "case", "n": "at"},
        intervals=(measures.ISP, measures.ISP_OVER),
    ),
    section(
        bars_of,
        "inexact-over-exact",
        "Sequences with n-ISP > ESP",
        measures.ISP_OVER,
        y_label="share of sequences",
        label="case",
        group="at",
    ),
    section(
        case_table,
        "wrong-positions",
        f"Wrong positions in the {MAX_MATCHES} likeliest partial matches with n tokens substituted",
        measures.WRONG,
        by={"substituted": "at", "wrong positions": "side"},
    ),
    *NEAR_SECTIONS,
)


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
        return unmeasured_findings(QUESTION, "nothing has been measured", sequences=0)
    reference, label = results.reference, params.label(Scheme.TOP_K)
    tables, charts = draw_sections(
        results.measures, _parts(results), scheme=label, where=results.where, what=f"{label}, {results.where}"
    )
    return Findings(
        figures={
            "model": names[reference.model],
            "prefix_tokens": reference.prefix_length,
            "suffix_tokens": results.suffix_length,
            "sequences": len(reference.sequences),
            "settings": [
                {
                    "model": names[setting.model],
                    "parameters": int(results.measurements.parameters[setting.model]) or None,
                    "prefix_tokens": setting.prefix_length,
                    "sequences": len(setting.sequences),
                }
                for setting in results.settings
            ],
            "unmeasured": results.unmeasured,
            "is_complete": results.is_complete,
        },
        sentences=list(_sentences(results)),
        tables=tables,
        charts=charts,
        passages=_passages(results),
        conclusion=_conclusion(results),
        definitions=DEFINITIONS,
        measures=results.measures,
    )


def _conclusion(results: LeakageResults) -> Conclusion:
    """Return the conclusion for the largest model with whole prefixes."""
    label, top_k = results.params.label(Scheme.TOP_K), results.value(measures.MEAN_ESP, Scheme.TOP_K)
    if not top_k.of:
        return Conclusion(QUESTION, "Not known", f"no sequence could be measured under {label}")
    largest = np.nanmax([results.value(measures.MEAN_ESP, scheme).value for scheme in results.params.random_schemes])
    greedy, over = results.value(measures.MEAN_ESP, Scheme.GREEDY), results.value(measures.OVER, Scheme.TOP_K, 1_000)
    whole = pluralize(len(results.pairs), "sequence")
    so_far = "" if results.is_complete else f"; so far {len(results.reference.sequences):,} of {whole}"
    name = results.names[results.reference.model]
    (exceed,) = results.measures.select(measures.EXCEED, **results.of_reference, case=label)
    return Conclusion(
        QUESTION,
        f"{format_percent(top_k.value)} in one query",
        f"the expected share of {pluralize(top_k.of, 'sequence')} whose suffix {name} returns exactly under "
        f"{label}; {format_percent(over.value)} have a probability above 1/1000{so_far}",
        "A suffix that is easy to predict leaks like a memorized one. These probabilities do not tell the two apart.",
        (
            KeyFigure(
                f"mean ESP, {label}", format_score(top_k.value), f"largest of the schemes {format_score(largest)}"
            ),
            KeyFigure("returned by greedy decoding", format_score(greedy.value), f"of {greedy.of:,} sequences"),
            KeyFigure("ESP > 1/1000", format_score(over.value), f"{format_interval(over.low, over.high)}, {label}"),
            key_figure(exceed, f"per sequence, {label}"),
            *map(key_figure, results.measures.select(*measures.EASIER.values(), case=label)),
        ),
    )


def _parts(results: LeakageResults) -> Iterator[Section | FoundTable | Chart]:
    """Yield all tables and charts, in order."""
    # Leaked sequences by number of queries (Tiwari & Suh 2024, Figure 2), of other data sets as well.
    reference, params = results.reference, results.params
    yield leak_chart("leaked", reference.data_set(results.names[reference.model], params))
    for number, data_set in enumerate(results.pairs.data_sets, 2):
        yield leak_chart(f"leaked-{number}", DataSet(*data_set))
    for part in _OF_REFERENCE:
        yield part._replace(only=results.of_reference)
    yield _likeliest_table(results)
    yield from _OF_SETTINGS if len(results.settings) > 1 else ()
    yield from _OF_ALL
    for trend in results.trends:
        yield from _trend_parts(results, trend)
    for part in DISCOVERABLE_SECTIONS:
        yield part._replace(only={**results.of_reference, "case": params.label(Scheme.TOP_K)})
    yield measure_table(results.measures)
    if results.matches:
        yield _match_table(results)
    yield _sequence_table(results)


def _trend_parts(results: LeakageResults, trend: Trend) -> Iterator[Section | FoundTable]:
    """Yield the classes of a trend, and the sequences whose ESP under top-k most exceeds that of the reference."""
    name, measure = f"trends-over-{trend.over.replace(' ', '-')}", measures.TRENDS[trend.over]
    title = f"ESP over {len(trend.settings)} {trend.over}, shares of {len(trend.sequences):,} sequences"
    yield section(case_table, name, title, measure, by={"trend": "side"})
    yield section(bars_of, name, title, measure, y_label="share of sequences", label="side", group="case")
    esps = np.exp(trend.logs[Scheme.TOP_K])  # [settings, n]
    best, gain = esps.argmax(axis=0), esps.max(axis=0) - esps[-1]
    places = np.lexsort((trend.sequences, -gain))[: min(_MAX_EASIER, np.count_nonzero(gain))]
    rows = [
        {
            "sequence": sequence + 1,
            **results.texts.pair(sequence),
            "model": results.names[trend.settings[best[place]].model],
            "prefix tokens": trend.settings[best[place]].prefix_length,
            "ESP": esps[best[place], place],
            "ESP of the reference": esps[-1, place],
        }
        for place, sequence in zip(places, trend.sequences[places].tolist(), strict=True)
    ]
    if rows:
        easier = measures.EASIER[trend.over]
        title = f"Sequences that are {easier.title}: the largest differences under {results.params.label(Scheme.TOP_K)}"
        yield table_of(easier.name.replace("_", "-"), title, rows, text_columns=_TEXTS)


def _passages(results: LeakageResults) -> list[Passage]:
    """Return the likeliest partial matches under top-k with the end of their prefix, differences marked."""
    texts, passages = results.texts, []
    for match in results.matches.get(Scheme.TOP_K, [])[:_MAX_PASSAGES]:
        suffix = results.pairs.suffixes[match.sequence]
        title = (
            f"sequence {match.sequence + 1}: probability {format_number(match.probability)} under "
            f"{results.params.label(match.scheme)}; the sequence itself has {format_number(match.esp)}"
        )
        parts = (
            ("end of the prefix", [Stretch(texts.pair(match.sequence)["end of the prefix"])]),
            ("suffix", texts.marked(suffix, match.tokens)),
            ("match", texts.marked(match.tokens, suffix)),
        )
        passages.append(Passage(title, parts))
    return passages


def _match_table(results: LeakageResults) -> FoundTable:
    rows = [
        {
            "scheme": results.params.label(match.scheme),
            "sequence": match.sequence + 1,
            "probability": match.probability,
            "ESP": match.esp,
            "wrong positions": " ".join(str(place + 1) for place in match.wrong),
            "suffix": results.texts.suffix(match.sequence),
            "match": results.texts.text(match.tokens),
        }
        for matches in results.matches.values()
        for match in matches
    ]
    title = f"The {MAX_MATCHES} likeliest partial matches of each scheme and number of substituted tokens"
    return table_of("matches", title, rows, is_detail=True, text_columns=("suffix", "match"))


def _sequence_cells(results: LeakageResults, sequence: int) -> dict[str, Any]:
    """Return number, record and text of a sequence. Numbers begin at 1."""
    return {"sequence": sequence + 1, "record": results.pairs.record_of(sequence), **results.texts.pair(sequence)}


def _likeliest_table(results: LeakageResults) -> FoundTable:
    """Return the sequences with the largest ESP of the reference under top-k."""
    reference = results.reference
    esps = np.exp(reference.logs[Scheme.TOP_K])
    places = np.lexsort((reference.sequences, -np.nan_to_num(esps, nan=-1.0)))[:_MAX_LIKELIEST]
    rows = [
        {"ESP": esps[place], **_sequence_cells(results, int(reference.sequences[place]))}
        for place in places
        if not np.isnan(esps[place])
    ]
    title = f"Sequences, likeliest first, under {results.params.label(Scheme.TOP_K)}, {results.where}"
    if len(rows) < len(reference.sequences):
        title += f" ({len(rows)} of {len(reference.sequences):,})"
    return table_of("likeliest", title, rows, text_columns=_TEXTS)


def _sequence_table(results: LeakageResults) -> FoundTable:
    """Return the log ESP and the text of every sequence in every setting.

    It is None if a scheme cannot draw the sequence, or if an endpoint could not measure it.
    """
    cells = cache(partial(_sequence_cells, results))
    logs = {f"log ESP, {results.params.label(scheme)}": scheme for scheme in results.params.schemes}
    rows = [
        {"model": results.names[setting.model], "prefix tokens": setting.prefix_length}
        | cells(sequence)
        | {column: setting.logs[scheme][row] for column, scheme in logs.items()}
        for setting in results.settings
        for row, sequence in enumerate(setting.sequences.tolist())
    ]
    return table_of("sequences", "Every sequence", rows, is_detail=True, text_columns=_TEXTS)


def _sentences(results: LeakageResults) -> Iterator[str]:
    """Yield the limits of the measured values."""
    params, number = results.params, len(results.reference.sequences)
    if not results.is_complete:
        yield f"Measured so far: {number:,} of {pluralize(len(results.pairs), 'sequence')}."
    if results.unmeasured:
        yield f"Left out {pluralize(results.unmeasured, 'sequence')} that could not be measured through the endpoint."
    for scheme in params.schemes:
        of_scheme = results.value(measures.MEAN_ESP, scheme).of
        if missing := number - of_scheme:
            yield (
                f"{params.label(scheme)} has results for {pluralize(of_scheme, 'sequence')}. For {missing:,} more, the "
                "tokens that the endpoint returned do not settle which are the likeliest."
            )
    if params.inexact and results.suffix_length > LONGEST_FOLLOWED:
        yield f"The n-ISP is measured for suffixes of at most {LONGEST_FOLLOWED} tokens only."
    yield from results.pairs.notes
