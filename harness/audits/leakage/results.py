"""Results of a leakage audit: every measured value, and the likeliest matches with substitutions."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.audits.leakage.pairs import LeakageParams, Pairs
from harness.audits.leakage.rows import (
    CLASSES,
    PARTS,
    InexactRows,
    Measurements,
    Method,
    Setting,
    class_name,
    partition,
    source_classes,
)
from harness.audits.near_results import NEAR_MEASURES, count_near
from harness.audits.probabilities import (
    DISCOVERABLE,
    RANDOM_SCHEMES,
    SCHEMES,
    Scheme,
    discoverable_rows,
    expected_queries_to_exceed,
    extraction_rate,
    queries_to_exceed,
    underestimate,
)
from harness.audits.report import share_of
from harness.core.arrays import Bools, Floats, Ints
from harness.core.measures import Estimate, Measure, MeasureRow, MeasureTable, Unit

MEAN_ESP = Measure(
    "mean_esp",
    "mean ESP",
    "the extraction rate: the share of sequences that one query each is expected to return. ESP is the probability "
    "that a query returns the suffix exactly",
)
QUANTILE = Measure("esp_quantile", "ESP", "a quantile of the ESP", at="quantile {}", at_name="level of the quantile")
OVER = Measure(
    "esp_over", "ESP > 1/{at}", "the share of sequences with ESP > 1/X", at_name="X, the queries per sequence"
)
EXCEED = Measure(
    "queries_to_exceed_greedy",
    "queries to exceed greedy",
    "queries X after which more sequences have ESP > 1/X than greedy decoding returns; null beyond 10⁶",
    unit=Unit.NUMBER,
)
EXPECTED_EXCEED = Measure(
    "expected_queries_to_exceed_greedy",
    "expected queries",
    "queries that are expected to return more sequences than greedy decoding; null beyond 10⁶",
    unit=Unit.NUMBER,
)
FACTOR = Measure(
    "underestimate",
    "factor at {at} queries",
    "the share of sequences with ESP > 1/X divided by the extraction rate",
    unit=Unit.NUMBER,
    at_name="X, the queries per sequence",
)
EXPECTED_FACTOR = Measure(
    "expected_underestimate",
    "expected factor at {at} queries",
    "the share of sequences that X queries are expected to return, divided by the extraction rate",
    unit=Unit.NUMBER,
    at_name="X, the queries per sequence",
)
TOKEN = Measure(
    "token_probability",
    "token probability",
    "the mean probability of a suffix token",
    at="position {}",
    at_name="position in the suffix",
)
LAST_TO_FIRST = Measure(
    "last_to_first", "last / first", "the last token's mean probability divided by the first one's", unit=Unit.NUMBER
)
ISP = Measure(
    "isp",
    "n-ISP",
    "the mean probability that a query returns the suffix with exactly n tokens substituted; low and high are bounds",
    at="n = {}",
    at_name="n, the substituted tokens",
)
ISP_ESP = Measure("esp_of_isp", "mean ESP", "the mean ESP of the sequences whose n-ISP is measured", at_name="n")
ISP_EXACT = Measure("isp_exact", "exact", "sequences whose n-ISP is exact", unit=Unit.NUMBER, at_name="n")
ISP_OVER = Measure("isp_over_esp", "ISP > ESP", "the share of sequences with n-ISP > ESP", at_name="n")
ISP_OVER_LEAST = Measure("isp_over_esp_at_least", "share at least", "this share by the lower bounds", at_name="n")
ISP_OVER_MOST = Measure("isp_over_esp_at_most", "share at most", "this share by the upper bounds", at_name="n")
WRONG = Measure(
    "wrong_position",
    "matches",
    "likeliest matches with a substitution at a position",
    unit=Unit.NUMBER,
    at="position {}",
    at_name="position in the suffix",
)
MODEL_SIZES, PREFIX_LENGTHS = "model sizes", "prefix lengths"
TREND_CLASSES = {
    over: Measure(
        f"trend_over_{over.replace(' ', '_')}",
        "class of the source",
        f"the share of sequences in one of the source's classes of changes over {over}, which overlap",
    )
    for over in (MODEL_SIZES, PREFIX_LENGTHS)
}
TREND_PARTS = {
    over: Measure(
        f"trend_part_over_{over.replace(' ', '_')}",
        "part",
        f"the share of sequences in one part of a partition by changes over {over}",
    )
    for over in (MODEL_SIZES, PREFIX_LENGTHS)
}
MEASURES = (
    MEAN_ESP,
    QUANTILE,
    OVER,
    EXCEED,
    EXPECTED_EXCEED,
    FACTOR,
    EXPECTED_FACTOR,
    *DISCOVERABLE.values(),
    TOKEN,
    LAST_TO_FIRST,
    ISP,
    ISP_ESP,
    ISP_EXACT,
    ISP_OVER,
    ISP_OVER_LEAST,
    ISP_OVER_MOST,
    *NEAR_MEASURES,
    WRONG,
    *TREND_CLASSES.values(),
    *TREND_PARTS.values(),
)
_SHARES_OVER = (10, 100, 1_000, 10_000, 1_000_000)
_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
MOST_MATCHES = 100
_TOLERANCE = 1e-6
"""Difference of log-probabilities below which they are equal: two passes of a model may differ in the last digits."""


@dataclass(frozen=True)
class Match:
    """A suffix with substitutions and its probability under a scheme. wrong: the substituted positions, from 0."""

    scheme: Scheme
    sequence: int
    tokens: Ints
    wrong: Ints
    probability: float
    esp: float


@dataclass(frozen=True)
class LeakageResults:
    """All results.

    names: of the models.
    measured: all measured values. A scheme is a case, a prefix length a side.
    reference: the largest model with whole prefixes.
    where: the model and prefix length of the reference.
    matches: the likeliest matches with substitutions of each random scheme.
    """

    params: LeakageParams
    pairs: Pairs
    names: Sequence[str]
    measurements: Measurements
    measured: MeasureTable
    reference: Setting
    where: str
    is_complete: bool
    matches: dict[Scheme, list[Match]]

    @property
    def suffix_length(self) -> int:
        """Tokens of a suffix."""
        return int(self.pairs.suffixes.shape[1])

    def label(self, scheme: Scheme) -> str:
        """The scheme with its parameter."""
        return self.params.label(scheme)

    def value(self, measure: Measure, scheme: Scheme, at: float | None = None) -> Estimate:
        """Return a value of the reference under a scheme."""
        return self.measured.get(measure, **self.of_reference, case=self.label(scheme), at=at)

    @property
    def of_reference(self) -> dict[str, str]:
        """The model and the side of the rows of the reference."""
        return {"model": self.names[self.reference.model], "side": side_of(self.reference)}


def side_of(setting: Setting) -> str:
    """Return what was measured in a setting, such as `prefixes of 50 tokens`."""
    return f"prefixes of {setting.prefix_length} tokens"


def leakage_results(
    params: LeakageParams,
    pairs: Pairs,
    measurements: Measurements,
    near: Sequence[MeasureRow],
    names: Sequence[str],
    lengths: Sequence[int],
) -> LeakageResults | None:
    """Return all results, or None before anything is measured.

    near: the near-verbatim probabilities of all models. lengths: the requested prefix lengths.
    """
    reference = measurements.reference
    if reference is None:
        return None
    matches = _likeliest_matches(measurements, reference, pairs)
    rows: list[MeasureRow] = []
    for setting in measurements.settings:
        is_reference = setting is reference
        rows += _setting_rows(setting, params, names[setting.model], has_details=is_reference)
    model, side = names[reference.model], side_of(reference)
    rows += inexact_rows(measurements, reference, params, model)
    rows += near
    length = pairs.suffixes.shape[1]
    rows += [
        MeasureRow(WRONG, Estimate(number, of=len(likeliest)), model, side, params.label(scheme), place + 1)
        for scheme, likeliest in matches.items()
        for place, number in enumerate(wrong_positions(likeliest, length).tolist())
    ]
    rows += _trend_rows(measurements, reference, params, model)
    is_near_complete = count_near(MeasureTable(near)) == len(names) * min(params.near, len(pairs))
    return LeakageResults(
        params=params,
        pairs=pairs,
        names=names,
        measurements=measurements,
        measured=MeasureTable(rows),
        reference=reference,
        where=f"{model}, {side}",
        is_complete=_is_complete(measurements, pairs, params, len(names), lengths) and is_near_complete,
        matches=matches,
    )


def wrong_positions(matches: Sequence[Match], length: int) -> Ints:
    """Return in how many of the matches each position is wrong, [length]."""
    positions = [match.wrong for match in matches] or [np.empty(0, np.int64)]
    return np.bincount(np.concatenate(positions), minlength=length).astype(np.int64)


def _setting_rows(setting: Setting, params: LeakageParams, model: str, *, has_details: bool) -> Iterator[MeasureRow]:
    """Yield the extraction rate and the share above 1/1000 under each scheme, or with details all that is measured."""
    side = side_of(setting)
    for scheme in params.schemes:
        case, logs = params.label(scheme), setting.measured_log_esp(scheme)
        yield MeasureRow(MEAN_ESP, Estimate(extraction_rate(logs), of=len(logs)), model, side, case)
        for number in _SHARES_OVER if has_details else (1_000,):
            over = share_of(int((logs > -np.log(number)).sum()), len(logs))
            yield MeasureRow(OVER, over, model, side, case, number)
        if not has_details:
            continue
        quantiles = np.quantile(np.exp(logs), _QUANTILES) if len(logs) else np.full(len(_QUANTILES), np.nan)
        for level, value in zip(_QUANTILES, quantiles.tolist(), strict=True):
            yield MeasureRow(QUANTILE, Estimate(value, of=len(logs)), model, side, case, level)
        if scheme is not Scheme.GREEDY:
            # Both extraction rates are of the same sequences.
            beside_greedy = setting.measured_log_esp(scheme, Scheme.GREEDY)
            greedy = extraction_rate(setting.measured_log_esp(Scheme.GREEDY, scheme))
            for measure, queries in (
                (EXCEED, queries_to_exceed(beside_greedy, greedy)),
                (EXPECTED_EXCEED, expected_queries_to_exceed(beside_greedy, greedy)),
            ):
                yield MeasureRow(measure, Estimate(math.nan if queries is None else queries), model, side, case)
            factors = underestimate(logs, params.queries)
            for measure, factor in zip((FACTOR, EXPECTED_FACTOR), factors, strict=True):
                yield MeasureRow(measure, Estimate(factor), model, side, case, params.queries)
        yield from discoverable_rows(logs, model, side, case)
        means = setting.position_means(scheme).tolist()
        for place, mean in enumerate(means, 1):
            yield MeasureRow(TOKEN, Estimate(mean, of=len(logs)), model, side, case, place)
        ratio = means[-1] / means[0] if means[0] > 0 else math.nan
        yield MeasureRow(LAST_TO_FIRST, Estimate(ratio), model, side, case)


def growing_settings(measurements: Measurements, reference: Setting) -> dict[str, list[Setting]]:
    """Return the settings of each trend: all models with the longest prefix, and all prefixes of the largest model."""
    by_size = [setting for setting in measurements.settings if setting.prefix_length == reference.prefix_length]
    by_length = [setting for setting in measurements.settings if setting.model == reference.model]
    trends = {MODEL_SIZES: by_size, PREFIX_LENGTHS: by_length}
    return {over: settings for over, settings in trends.items() if len(settings) > 1}


def _trend_rows(
    measurements: Measurements, reference: Setting, params: LeakageParams, model: str
) -> Iterator[MeasureRow]:
    """Yield the trends over model sizes and prefix lengths. A class is a side."""
    for over, settings in growing_settings(measurements, reference).items():
        common = settings[0].sequences
        for setting in settings[1:]:
            common = np.intersect1d(common, setting.sequences)
        values = np.array(
            [
                [setting.log_esp(scheme)[np.searchsorted(setting.sequences, common)] for setting in settings]
                for scheme in params.random_schemes
            ]
        )  # [schemes, settings, sequences]
        values = values[:, :, ~np.isnan(values).any(axis=(0, 1))]
        number = values.shape[2]
        for measure, kinds, classify in (
            (TREND_CLASSES[over], CLASSES, source_classes),
            (TREND_PARTS[over], PARTS, partition),
        ):
            for scheme, of_scheme in zip(params.random_schemes, values, strict=True):
                counts = classify(of_scheme).sum(axis=1).tolist() if number else [0] * len(kinds)
                for kind, count in zip(kinds, counts, strict=True):
                    share = share_of(count, number)
                    yield MeasureRow(measure, share, model, class_name(*kind), params.label(scheme))


def inexact_rows(
    measurements: Measurements, reference: Setting, params: LeakageParams, model: str
) -> Iterator[MeasureRow]:
    """Yield what was measured of each scheme and number of substitutions for the reference model."""
    side = side_of(reference)
    for scheme in SCHEMES:
        for errors in (1, 2):
            rows = measurements.inexact.get((reference.model, scheme, errors))
            if rows is not None:
                for measure, estimate in _inexact_estimates(scheme, rows, reference).items():
                    yield MeasureRow(measure, estimate, model, side, params.label(scheme), errors)


def _inexact_estimates(scheme: Scheme, rows: InexactRows, reference: Setting) -> dict[Measure, Estimate]:
    log_esps = reference.log_esp(scheme)[np.searchsorted(reference.sequences, rows.sequences)]

    def is_above(probabilities: Floats) -> Bools:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(probabilities) > log_esps + _TOLERANCE)

    mean, low, high = (float(part.mean()) for part in (rows.probability, rows.low, rows.high))
    return {
        ISP: Estimate(mean, low, high, len(log_esps)),
        ISP_ESP: Estimate(extraction_rate(log_esps)),
        ISP_EXACT: Estimate(int((rows.method == Method.EXACT).sum())),
        ISP_OVER: share_of(int(is_above(rows.probability).sum()), len(log_esps)),
        ISP_OVER_LEAST: Estimate(float(is_above(rows.low).mean())),
        ISP_OVER_MOST: Estimate(float(is_above(rows.high).mean())),
    }


def _is_complete(
    measurements: Measurements, pairs: Pairs, params: LeakageParams, models: int, lengths: Sequence[int]
) -> bool:
    settings = [measurements.setting(model, length) for model in range(models) for length in lengths]
    if any(setting is None or len(setting.sequences) + setting.unmeasured < len(pairs) for setting in settings):
        return False
    chosen = min(params.inexact, len(pairs))
    last = [measurements.inexact.get((model, params.random_schemes[-1], 1)) for model in range(models)]
    return chosen == 0 or all(rows is not None and len(rows.sequences) == chosen for rows in last)


def _likeliest_matches(measurements: Measurements, reference: Setting, pairs: Pairs) -> dict[Scheme, list[Match]]:
    """Return the likeliest inexact suffixes of the reference model under each random scheme, likeliest first."""
    rows = measurements.matches
    model, scheme_of, sequence = (np.asarray(rows[name], np.int64) for name in ("model", "scheme", "sequence"))
    logprob = np.asarray(rows["logprob"], np.float64)
    matches: dict[Scheme, list[Match]] = {}
    for scheme in RANDOM_SCHEMES:
        places = np.flatnonzero((model == reference.model) & (scheme_of == SCHEMES.index(scheme)))
        if not len(places):
            continue
        tokens = np.asarray(rows["tokens"])[places].astype(np.int64)
        # Ties are ordered by tokens, so that the order of the rows does not matter.
        order = np.lexsort((*tokens.T[::-1], sequence[places], -logprob[places]))
        _, first = np.unique(np.column_stack([sequence[places], tokens])[order], axis=0, return_index=True)
        matches[scheme] = []
        for place in order[np.sort(first)[:MOST_MATCHES]]:
            row = int(sequence[places[place]])
            wrong = np.flatnonzero(tokens[place] != pairs.suffixes[row])
            probability = float(np.exp(logprob[places[place]]))
            esp = float(np.exp(reference.log_esp(scheme)[np.searchsorted(reference.sequences, row)]))
            matches[scheme].append(Match(scheme, row, tokens[place], wrong, probability, esp))
    return matches
