"""Findings of a leakage audit, from complete or partial rows."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from harness.audits.leakage.pairs import LONGEST_FOLLOWED, LeakageParams, Pairs, TokenDecoder
from harness.audits.leakage.results import (
    EASIER,
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
    MEASURES,
    OVER,
    QUANTILE,
    TOKEN,
    TRENDS,
    WRONG,
    LeakageResults,
    leakage_results,
)
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
    wide_table,
)
from harness.core.arrays import Ints
from harness.core.audit import RowsOf
from harness.core.findings import (
    Chart,
    Conclusion,
    Findings,
    FoundTable,
    KeyFigure,
    Passage,
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
_SHOWN_EASIER = 10
_SHOWN_SEQUENCES = 20
_CONTEXT = 20
"""Tokens at the end of a prefix that are shown."""
_TEXTS = ("end of the prefix", "suffix")
_OF_REFERENCE = (
    section(
        wide_table,
        "schemes",
        "Leakage by decoding scheme, {where}",
        MEAN_ESP,
        (QUANTILE, 0.5),
        (OVER, 1_000),
        EXCEED,
        EXPECTED_EXCEED,
        FACTOR,
        EXPECTED_FACTOR,
        LAST_TO_FIRST,
        by={"scheme": "case"},
        intervals=(OVER,),
        number="sequences",
    ),
    section(
        lines_of,
        "token-probability",
        "Mean probability of each suffix token, {where}",
        TOKEN,
        x_label="position in the suffix",
        y_label="mean probability",
        series="case",
    ),
)
_OF_SETTINGS = grouped("settings", "Leakage by model and prefix length", (OVER, 1_000), MEAN_ESP)
_OF_ALL = (
    section(
        wide_table,
        "easier",
        "Sequences with a larger ESP in another setting than the largest model with whole prefixes",
        *EASIER.values(),
        by={"scheme": "case"},
        intervals=tuple(EASIER.values()),
    ),
    section(
        wide_table,
        "inexact",
        "Suffixes with exactly n tokens substituted",
        *(ISP_EXACT, ISP_ESP, ISP, ISP_OVER, ISP_OVER_MOST),
        by={"scheme": "case", "n": "at"},
        intervals=(ISP, ISP_OVER),
    ),
    section(
        bars_of,
        "inexact-over-exact",
        "Sequences with n-ISP > ESP",
        ISP_OVER,
        y_label="share of sequences",
        label="case",
        group="at",
    ),
    section(
        case_table,
        "wrong-positions",
        f"Wrong positions in the {MAX_MATCHES} likeliest partial matches with n tokens substituted",
        WRONG,
        by={"substituted": "at", "wrong positions": "side"},
    ),
    *NEAR_SECTIONS,
)


def _sections_of_trend(over: str) -> tuple[Section, Section]:
    name, title = (
        f"trends-over-{over.replace(' ', '-')}",
        f"ESP over {{settings}} {over}, shares of {{sequences}} sequences",
    )
    return (
        section(case_table, name, title, TRENDS[over], by={"trend": "side"}),
        section(bars_of, name, title, TRENDS[over], y_label="share of sequences", label="side", group="case"),
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
        figures = {"sequences": 0, "is_complete": False}
        return Findings(figures, ["Nothing has been measured yet."], conclusion=NOT_MEASURED)
    reference, measurements = results.reference, results.measurements
    tables, charts = _report(results)
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
        tables=tables,
        charts=[*_leak_charts(results), *charts],
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
    largest = np.nanmax([results.value(MEAN_ESP, scheme).value for scheme in results.params.random_schemes])
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
            KeyFigure(
                f"mean ESP, {label}", format_score(top_k.value), f"largest of the schemes {format_score(largest)}"
            ),
            KeyFigure("returned by greedy decoding", format_score(greedy.value), f"of {greedy.of:,} sequences"),
            KeyFigure("ESP > 1/1000", format_score(over.value), f"{format_interval(over.low, over.high)}, {label}"),
            key_figure(exceed, f"per sequence, {label}"),
            *map(key_figure, results.measured.select(*EASIER.values(), case=label)),
        ),
    )


def _report(results: LeakageResults) -> tuple[list[FoundTable], list[Chart]]:
    """Return all tables, and the charts of measured values."""
    measured, label = results.measured, results.params.label(Scheme.TOP_K)
    of_top_k = measured.select(*MEASURES, **results.of_reference, case=label)
    parts = [
        draw_sections(measured.select(*MEASURES, **results.of_reference), _OF_REFERENCE, where=results.where),
        ([_likeliest_table(results)], []),
        draw_sections(measured, _OF_SETTINGS if len(results.measurements.settings) > 1 else ()),
        draw_sections(measured, _OF_ALL, scheme=label),
    ]
    for trend in results.trends:
        numbers = {"settings": f"{len(trend.settings)}", "sequences": f"{len(trend.sequences):,}"}
        parts += [
            draw_sections(measured, _sections_of_trend(trend.over), **numbers),
            (_easier_table(results, trend), []),
        ]
    parts.append(draw_sections(of_top_k, DISCOVERABLE_SECTIONS, what=f"{label}, {results.where}"))
    matches = [_match_table(results)] if results.matches else []
    details = [measure_table(measured), *matches, _sequence_table(results)]
    return [*(table for tables, _ in parts for table in tables), *details], [c for _, charts in parts for c in charts]


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


def _easier_table(results: LeakageResults, trend: Trend) -> list[FoundTable]:
    """Return the sequences whose ESP under top-k is most above that of the reference, with their best setting."""
    esps, decoder = np.exp(trend.logs[Scheme.TOP_K]), TokenDecoder(results.pairs.tokenizer)  # [settings, n]
    best, gain = esps.argmax(axis=0), esps.max(axis=0) - esps[-1]
    places = np.lexsort((trend.sequences, -gain))[: min(_SHOWN_EASIER, np.count_nonzero(gain))]
    rows = [
        {
            "sequence": sequence + 1,
            "end of the prefix": decoder.text(results.pairs.prefixes[sequence][-_CONTEXT:]),
            "suffix": decoder.text(results.pairs.suffixes[sequence]),
            "model": results.names[trend.settings[best[place]].model],
            "prefix tokens": trend.settings[best[place]].prefix_length,
            "ESP": esps[best[place], place],
            "ESP of the reference": esps[-1, place],
        }
        for place, sequence in zip(places, trend.sequences[places].tolist(), strict=True)
    ]
    measure = EASIER[trend.over]
    title = f"Sequences that are {measure.title}: the largest differences under {results.params.label(Scheme.TOP_K)}"
    name = measure.name.replace("_", "-")
    return [table_of(name, title, rows, text_columns=_TEXTS)] if rows else []


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
    title = f"The {MAX_MATCHES} likeliest partial matches of each scheme and number of substituted tokens"
    return table_of("matches", title, rows, is_detail=True, text_columns=("suffix", "match"))


def _sequence_cells(results: LeakageResults, sequences: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Return number, record and text of each sequence. Numbers begin at 1."""
    pairs, decoder = results.pairs, TokenDecoder(results.pairs.tokenizer)
    return {
        sequence: {
            "sequence": sequence + 1,
            "record": pairs.record_of(sequence),
            "end of the prefix": decoder.text(pairs.prefixes[sequence][-_CONTEXT:]),
            "suffix": decoder.text(pairs.suffixes[sequence]),
        }
        for sequence in sequences
    }


def _likeliest_table(results: LeakageResults) -> FoundTable:
    """Return the sequences with the largest ESP of the reference under top-k."""
    reference = results.reference
    esps = np.nan_to_num(np.exp(reference.logs[Scheme.TOP_K]), nan=-1.0)
    places = np.lexsort((reference.sequences, -esps))[:_SHOWN_SEQUENCES]
    cells = _sequence_cells(results, reference.sequences[places].tolist())
    rows = [
        {"ESP": float(esp), **values}
        for esp, values in zip(esps[places].tolist(), cells.values(), strict=True)
        if esp >= 0
    ]
    title = f"Sequences, likeliest first, under {results.params.label(Scheme.TOP_K)}, {results.where}"
    if len(rows) < len(reference.sequences):
        title += f" ({len(rows)} of {len(reference.sequences):,})"
    return table_of("likeliest", title, rows, text_columns=_TEXTS)


def _sequence_table(results: LeakageResults) -> FoundTable:
    """Return the log ESP and the text of every sequence in every setting.

    It is None if a scheme cannot draw the sequence, or if an endpoint could not measure it.
    """
    settings = results.measurements.settings
    cells = _sequence_cells(results, {int(sequence) for setting in settings for sequence in setting.sequences})
    rows = [
        {"model": results.names[setting.model], "prefix tokens": setting.prefix_length}
        | cells[int(sequence)]
        | {
            f"log ESP, {results.params.label(scheme)}": float(setting.logs[scheme][row])
            for scheme in results.params.schemes
        }
        for setting in settings
        for row, sequence in enumerate(setting.sequences)
    ]
    return table_of("sequences", "Every sequence", rows, is_detail=True, text_columns=_TEXTS)


def _leak_charts(results: LeakageResults) -> list[Chart]:
    """Return the leaked sequences by number of queries (Tiwari & Suh 2024, Figure 2), of other data sets as well."""
    further = enumerate(results.pairs.data_sets, 2)
    return [
        leak_chart("leaked", results.data_set),
        *(leak_chart(f"leaked-{number}", DataSet(*data_set)) for number, data_set in further),
    ]


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
    source = LeakageParams()
    yield (
        f"Schemes: {', '.join(map(params.label, params.schemes))}. The source uses {source.label(Scheme.TEMPERATURE)}, "
        f"{source.label(Scheme.TOP_P)} and, in its Table 1, {source.label(Scheme.TOP_K)}; in its text also top-k 5."
    )
    yield from results.pairs.notes
