"""Results of a leakage audit as numbers, shared by its tables, charts, sentences and JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from harness.audits.leakage.pairs import Pairs
from harness.audits.leakage.params import LeakageParams
from harness.audits.leakage.rows import InexactRows, Measurements, Method, Setting
from harness.audits.leakage.trends import CLASSES, PARTS, partition, source_classes
from harness.audits.near_results import NearSummary
from harness.audits.probabilities import (
    discoverable_rate,
    expected_queries_to_exceed,
    extraction_rate,
    queries_to_exceed,
    underestimate,
)
from harness.audits.report import share_of
from harness.audits.schemes import RANDOM_SCHEMES, SCHEMES, Scheme
from harness.core.arrays import Bools, Floats, Ints
from harness.core.measures import Estimate

SHARES_OVER = (10, 100, 1_000, 10_000, 1_000_000)
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
DISCOVERABLE_QUERIES = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
DISCOVERABLE_PROBABILITIES = (0.1, 0.5, 0.9)
MOST_MATCHES = 100
_TOLERANCE = 1e-6
"""Difference of log-probabilities below which they are equal: two passes of a model may differ in the last digits."""


@dataclass(frozen=True)
class SchemeSummary:
    """One scheme in one setting.

    sequences: how many it measured. mean: the mean ESP, which is the extraction rate. quantiles: of the ESP, at
    `QUANTILES`. over: the share above 1/X for each X of `SHARES_OVER`. exceeds_greedy, expected_to_exceed: queries
    after which more leaks than by greedy decoding, None beyond 10⁶. factors: leakage in `queries` queries divided by
    the extraction rate, by ESP > 1/X and as expected. discoverable: [queries][probabilities]. first, last: mean
    probability of the first and the last token.
    """

    scheme: Scheme
    sequences: int
    mean: float
    quantiles: Floats
    over: tuple[Estimate, ...]
    exceeds_greedy: int | None
    expected_to_exceed: int | None
    factors: tuple[float, float]
    discoverable: Floats
    first: float
    last: float

    @property
    def over_1_in_1000(self) -> Estimate:
        """The share of sequences with ESP > 1/1000."""
        return self.over[SHARES_OVER.index(1_000)]

    @property
    def last_to_first(self) -> float:
        """The last token's mean probability divided by the first one's; NaN if the latter is 0."""
        return self.last / self.first if self.first > 0 else np.nan


@dataclass(frozen=True)
class Trend:
    """The share of sequences in each class and in each part over several settings, by scheme.

    over: what grows. settings: how many. classes: [random schemes, 6]. parts: [random schemes, 9], of those of the
    parameters. sequences: how many were measured in every setting and under every scheme.
    """

    over: str
    settings: int
    classes: Floats
    parts: Floats
    sequences: int


class InexactSummary(NamedTuple):
    """One scheme and number of substitutions `n` for the reference model and whole prefixes, by the names in JSON.

    mean_*: means over the sequences of the ESP, of the n-ISP and of its bounds. exact: how many n-ISP are exact.
    over_esp: the share of sequences with n-ISP > ESP, with this share by the lower and upper bounds of the n-ISP.
    """

    scheme: Scheme
    n: int
    mean_esp: float
    mean_probability: float
    mean_low: float
    mean_high: float
    exact: int
    over_esp: Estimate
    over_esp_at_least: float
    over_esp_at_most: float


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
    """All results. names: of the models; where: the model and prefix length of single figures."""

    params: LeakageParams
    pairs: Pairs
    names: Sequence[str]
    measured: Measurements
    reference: Setting
    where: str
    is_complete: bool
    schemes: list[SchemeSummary]
    trends: list[Trend]
    inexact: list[InexactSummary]
    near: list[NearSummary]
    matches: dict[Scheme, list[Match]]

    @property
    def suffix_length(self) -> int:
        """Tokens of a suffix."""
        return int(self.pairs.suffixes.shape[1])

    def label(self, scheme: Scheme) -> str:
        """The scheme with its parameter."""
        return self.params.label(scheme)


def leakage_results(
    params: LeakageParams,
    pairs: Pairs,
    measured: Measurements,
    near: Sequence[NearSummary],
    names: Sequence[str],
    lengths: Sequence[int],
) -> LeakageResults | None:
    """Return all results, or None before anything is measured.

    near: the near-verbatim probabilities of each model. lengths: the requested prefix lengths.
    """
    reference = measured.reference
    if reference is None:
        return None
    return LeakageResults(
        params=params,
        pairs=pairs,
        names=names,
        measured=measured,
        reference=reference,
        where=f"{names[reference.model]}, prefixes of {reference.prefix_length} tokens",
        is_complete=_is_complete(measured, pairs, params, len(names), lengths)
        and sum(one.of for one in near) == len(names) * min(params.near, len(pairs)),
        schemes=summarize_schemes(reference, params.queries, params.schemes),
        trends=_trends(measured, reference, params.random_schemes),
        inexact=summarize_inexact(measured, reference),
        near=list(near),
        matches=_likeliest_matches(measured, reference, pairs),
    )


def wrong_positions(matches: Sequence[Match], length: int) -> Ints:
    """Return in how many of the matches each position is wrong, [length]."""
    positions = [match.wrong for match in matches] or [np.empty(0, np.int64)]
    return np.bincount(np.concatenate(positions), minlength=length).astype(np.int64)


def summarize_schemes(setting: Setting, queries: int, schemes: Sequence[Scheme] = SCHEMES) -> list[SchemeSummary]:
    """Return a summary of each of `schemes`. queries: those of `factors`."""
    summaries = []
    for scheme in schemes:
        logs, means = setting.measured_log_esp(scheme), setting.position_means(scheme)
        # Both extraction rates are of the same sequences.
        beside_greedy = setting.measured_log_esp(scheme, Scheme.GREEDY)
        greedy = extraction_rate(setting.measured_log_esp(Scheme.GREEDY, scheme))
        is_random = scheme is not Scheme.GREEDY
        discoverable = [
            [discoverable_rate(logs, number, probability) for probability in DISCOVERABLE_PROBABILITIES]
            for number in DISCOVERABLE_QUERIES
        ]
        summaries.append(
            SchemeSummary(
                scheme,
                len(logs),
                mean=extraction_rate(logs),
                quantiles=np.quantile(np.exp(logs), QUANTILES) if len(logs) else np.full(len(QUANTILES), np.nan),
                over=tuple(share_of(int((logs > -np.log(number)).sum()), len(logs)) for number in SHARES_OVER),
                exceeds_greedy=queries_to_exceed(beside_greedy, greedy) if is_random else None,
                expected_to_exceed=expected_queries_to_exceed(beside_greedy, greedy) if is_random else None,
                factors=underestimate(logs, queries) if is_random else (np.nan, np.nan),
                discoverable=np.array(discoverable),
                first=float(means[0]),
                last=float(means[-1]),
            )
        )
    return summaries


def _is_complete(
    measured: Measurements, pairs: Pairs, params: LeakageParams, models: int, lengths: Sequence[int]
) -> bool:
    settings = [measured.setting(model, length) for model in range(models) for length in lengths]
    if any(setting is None or len(setting.sequences) + setting.unmeasured < len(pairs) for setting in settings):
        return False
    chosen = min(params.inexact, len(pairs))
    last = [measured.inexact.get((model, params.random_schemes[-1], 1)) for model in range(models)]
    return chosen == 0 or all(one is not None and len(one.sequences) == chosen for one in last)


def _trends(measured: Measurements, reference: Setting, schemes: Sequence[Scheme]) -> list[Trend]:
    """Return the trends over model sizes with the longest prefix, and over prefix lengths of the largest model."""
    by_size = [one for one in measured.settings if one.prefix_length == reference.prefix_length]
    by_length = [one for one in measured.settings if one.model == reference.model]
    candidates = (("model sizes", by_size), ("prefix lengths", by_length))
    return [_trend(over, settings, schemes) for over, settings in candidates if len(settings) > 1]


def _trend(over: str, settings: Sequence[Setting], schemes: Sequence[Scheme]) -> Trend:
    common = settings[0].sequences
    for setting in settings[1:]:
        common = np.intersect1d(common, setting.sequences)
    classes, parts = np.zeros((len(schemes), len(CLASSES))), np.zeros((len(schemes), len(PARTS)))
    values = np.array(
        [[one.log_esp(scheme)[np.searchsorted(one.sequences, common)] for one in settings] for scheme in schemes]
    )  # [schemes, settings, sequences]
    values = values[:, :, ~np.isnan(values).any(axis=(0, 1))]
    number = values.shape[2]
    if number:
        for place, each in enumerate(values):
            classes[place], parts[place] = source_classes(each).mean(axis=1), partition(each).mean(axis=1)
    return Trend(over, len(settings), classes, parts, number)


def summarize_inexact(measured: Measurements, reference: Setting) -> list[InexactSummary]:
    """Return a summary of each scheme and number of substitutions that was measured for the reference model."""
    return [
        _inexact_summary(scheme, errors, rows, reference)
        for scheme in SCHEMES
        for errors in (1, 2)
        if (rows := measured.inexact.get((reference.model, scheme, errors))) is not None
    ]


def _inexact_summary(scheme: Scheme, errors: int, rows: InexactRows, reference: Setting) -> InexactSummary:
    log_esps = reference.log_esp(scheme)[np.searchsorted(reference.sequences, rows.sequences)]

    def is_above(probabilities: Floats) -> Bools:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(probabilities) > log_esps + _TOLERANCE)

    return InexactSummary(
        scheme,
        errors,
        mean_esp=extraction_rate(log_esps),
        mean_probability=float(rows.probability.mean()),
        mean_low=float(rows.low.mean()),
        mean_high=float(rows.high.mean()),
        exact=int((rows.method == Method.EXACT).sum()),
        over_esp=share_of(int(is_above(rows.probability).sum()), len(log_esps)),
        over_esp_at_least=float(is_above(rows.low).mean()),
        over_esp_at_most=float(is_above(rows.high).mean()),
    )


def _likeliest_matches(measured: Measurements, reference: Setting, pairs: Pairs) -> dict[Scheme, list[Match]]:
    """Return the likeliest inexact suffixes of the reference model under each random scheme, likeliest first."""
    rows = measured.matches
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
