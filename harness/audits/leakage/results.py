"""Results of a leakage audit: every measured value, and the likeliest matches with substitutions."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations, product

import numpy as np

from harness.audits.leakage import measures
from harness.audits.leakage.pairs import MAX_ERRORS, LeakageParams, Pairs, PairTexts
from harness.audits.leakage.rows import (
    CLASSES,
    Measurements,
    Setting,
    Trend,
    likeliest_matches,
    read_trends,
    source_classes,
)
from harness.audits.near_results import count_near
from harness.audits.probabilities import (
    RANDOM_SCHEMES,
    SCHEMES,
    Scheme,
    discoverable_rows,
    expected_queries_to_exceed,
    extraction_rate,
    queries_to_exceed,
    underestimate,
)
from harness.audits.report import clustered_shares, share_of
from harness.core.arrays import Ints
from harness.core.audit import last_rows
from harness.core.measures import Estimate, Measure, MeasureRow, MeasureTable

_SHARES_OVER = (10, 100, 1_000, 10_000, 1_000_000)
_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
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
    """The measurements of every model, their measures and the sequences that a report names."""

    params: LeakageParams
    pairs: Pairs
    names: Sequence[str]
    """The names of the models."""
    measurements: Measurements
    measures: MeasureTable
    """All measured values. A scheme is a case, a prefix length a side."""
    is_complete: bool
    matches: Mapping[Scheme, Sequence[Match]]
    """The likeliest matches of each number of substitutions under each random scheme."""
    trends: Sequence[Trend]

    @cached_property
    def texts(self) -> PairTexts:
        """The texts of the pairs."""
        return PairTexts(self.pairs)

    @property
    def settings(self) -> Sequence[Setting]:
        """The settings with rows, ordered by model size and prefix length."""
        return self.measurements.settings

    @property
    def reference(self) -> Setting:
        """The largest model with whole prefixes."""
        return self.settings[-1]

    @property
    def where(self) -> str:
        """The model and prefix length of the reference."""
        return ", ".join(self.of_reference.values())

    @property
    def of_reference(self) -> dict[str, str]:
        """The model and the side of the rows of the reference."""
        return {"model": self.names[self.reference.model], "side": self.reference.side}

    @property
    def unmeasured(self) -> int:
        """The largest number of sequences in a setting that no scheme could measure."""
        return max(setting.unmeasured for setting in self.settings)

    @property
    def suffix_length(self) -> int:
        """Tokens of a suffix."""
        return int(self.pairs.suffixes.shape[1])

    def value(self, measure: Measure, scheme: Scheme, at: float | None = None) -> Estimate:
        """Return a value of the reference under a scheme."""
        return self.measures.get(measure, **self.of_reference, case=self.params.label(scheme), at=at)


def leakage_results(
    params: LeakageParams,
    pairs: Pairs,
    measurements: Measurements,
    near: Sequence[MeasureRow],
    names: Sequence[str],
    lengths: Sequence[int],
) -> LeakageResults | None:
    """Return all results, or None before anything is measured.

    near: the near-verbatim probabilities of all models.
    lengths: the requested prefix lengths.
    """
    if not measurements.settings:
        return None
    reference = measurements.settings[-1]
    matches = _likeliest_matches(measurements, pairs)
    trends = read_trends(measurements, params.random_schemes)
    model = names[reference.model]
    rows: list[MeasureRow] = []
    for setting in measurements.settings:
        rows += _setting_rows(setting, params, names[setting.model], has_details=setting is reference)
    rows += [*inexact_rows(measurements, params, model), *near]
    for scheme, likeliest in matches.items():
        rows += _wrong_rows(likeliest, pairs.suffixes.shape[1], model, params.label(scheme))
    for trend in trends:
        rows += _trend_rows(trend, params, pairs, model)
    sizes = {(part.model, part.prefix_length): len(part.sequences) + part.unmeasured for part in measurements.settings}
    is_complete = (
        all(sizes.get((number, length), 0) == len(pairs) for number in range(len(names)) for length in lengths)
        and _count_inexact(measurements, params) == len(names) * params.inexact_sequences(pairs)
        and count_near(MeasureTable(near)) == len(names) * min(params.near, len(pairs))
    )
    return LeakageResults(params, pairs, names, measurements, MeasureTable(rows), is_complete, matches, trends)


def _wrong_rows(matches: Sequence[Match], length: int, model: str, case: str) -> Iterator[MeasureRow]:
    """Yield how many matches of each number of substitutions have them at each set of positions, which is a side."""
    counts = Counter(tuple(match.wrong.tolist()) for match in matches)
    for errors in range(1, min(MAX_ERRORS, length) + 1):
        number = sum(len(match.wrong) == errors for match in matches)
        for places in combinations(range(length), errors):
            side = f"({', '.join(str(place + 1) for place in places)})"
            yield MeasureRow(measures.WRONG, Estimate(counts[places], of=number), model, side, case, errors)


def _count_inexact(measurements: Measurements, params: LeakageParams) -> int:
    """Return the number of sequences whose inexact matches were measured under the last scheme, of all models."""
    last = SCHEMES.index(params.random_schemes[-1])
    return len(last_rows(measurements.inexact, "model", "sequence", scheme=last, errors=1)["sequence"])


def _setting_rows(setting: Setting, params: LeakageParams, model: str, *, has_details: bool) -> Iterator[MeasureRow]:
    """Yield the extraction rate and the share above 1/1000 under each scheme, or with details all that is measured."""
    for scheme in params.schemes:
        row = partial(MeasureRow, model=model, side=setting.side, case=params.label(scheme))
        logs = setting.known_log_esps(scheme)
        number = len(logs)
        yield row(measures.MEAN_ESP, Estimate(extraction_rate(logs), of=number))
        for queries in _SHARES_OVER if has_details else (1_000,):
            yield row(measures.OVER, share_of(int((logs > -np.log(queries)).sum()), number), at=queries)
        if not has_details:
            continue
        quantiles = np.quantile(np.exp(logs), _QUANTILES) if number else np.full(len(_QUANTILES), np.nan)
        for level, value in zip(_QUANTILES, quantiles.tolist(), strict=True):
            yield row(measures.QUANTILE, Estimate(value, of=number), at=level)
        if scheme is not Scheme.GREEDY:
            # Both extraction rates are of the same sequences.
            with_greedy = setting.known_log_esps(scheme, Scheme.GREEDY)
            greedy = extraction_rate(setting.known_log_esps(Scheme.GREEDY, scheme))
            yield row(measures.EXCEED, Estimate(queries_to_exceed(with_greedy, greedy)))
            yield row(measures.EXPECTED_EXCEED, Estimate(expected_queries_to_exceed(with_greedy, greedy)))
            by_threshold, expected = underestimate(logs, params.queries)
            yield row(measures.FACTOR, Estimate(by_threshold), at=params.queries)
            yield row(measures.EXPECTED_FACTOR, Estimate(expected), at=params.queries)
        yield from discoverable_rows(logs, model, setting.side, params.label(scheme))
        means = setting.token_means[scheme].tolist()
        for place, mean in enumerate(means, 1):
            yield row(measures.TOKEN, Estimate(mean, of=number), at=place)
        yield row(measures.LAST_TO_FIRST, Estimate(means[-1] / means[0] if means[0] > 0 else math.nan))


def _trend_rows(trend: Trend, params: LeakageParams, pairs: Pairs, model: str) -> Iterator[MeasureRow]:
    """Yield the share of sequences in each class of changes, which is a side, and of those that are easier."""
    is_counted = np.concatenate(
        [[*source_classes(logs), trend.is_easier(scheme)] for scheme, logs in trend.logs.items()]
    )
    sides = [(measures.TRENDS[trend.over], name) for name in CLASSES] + [(measures.EASIER[trend.over], "")]
    shares = iter(clustered_shares(is_counted, pairs.clusters(trend.sequences)))
    for scheme in trend.logs:
        for measure, side in sides:
            yield MeasureRow(measure, next(shares), model, side, params.label(scheme))


def inexact_rows(measurements: Measurements, params: LeakageParams, model: str) -> Iterator[MeasureRow]:
    """Yield the measures of partial matches by scheme and number of substitutions, for the reference model."""
    reference = measurements.settings[-1]
    for scheme, errors in product(SCHEMES, (1, 2)):
        key = {"model": reference.model, "scheme": SCHEMES.index(scheme), "errors": errors}
        rows = last_rows(measurements.inexact, "sequence", **key)
        if not len(rows["sequence"]):
            continue
        row = partial(MeasureRow, model=model, side=reference.side, case=params.label(scheme), at=errors)
        log_esps = reference.log_esp(scheme, rows["sequence"])
        lowest, bound = rows["probability"], rows["bound"]
        highest = np.minimum(1, lowest + bound)
        with np.errstate(divide="ignore"):
            over, over_most = (np.log(probability) > log_esps + _TOLERANCE for probability in (lowest, highest))
        mean = float(lowest.mean())
        yield row(measures.ISP, Estimate(mean, mean, float(highest.mean()), len(log_esps)))
        yield row(measures.ISP_ESP, Estimate(extraction_rate(log_esps)))
        yield row(measures.ISP_EXACT, Estimate(int((bound == 0).sum())))
        yield row(measures.ISP_OVER, share_of(int(over.sum()), len(log_esps)))
        yield row(measures.ISP_OVER_MOST, Estimate(float(over_most.mean())))


def _likeliest_matches(measurements: Measurements, pairs: Pairs) -> dict[Scheme, list[Match]]:
    """Return the likeliest inexact suffixes of the reference model under each random scheme, likeliest first."""
    reference = measurements.settings[-1]
    matches: dict[Scheme, list[Match]] = {}
    for scheme in RANDOM_SCHEMES:
        rows = last_rows(measurements.matches, model=reference.model, scheme=SCHEMES.index(scheme))
        for place in likeliest_matches(rows):
            sequence, tokens = int(rows["sequence"][place]), rows["tokens"][place].astype(np.int64)
            wrong = np.flatnonzero(tokens != pairs.suffixes[sequence])
            probability = float(np.exp(rows["logprob"][place]))
            esp = float(np.exp(reference.log_esp(scheme, np.array(sequence))))
            matches.setdefault(scheme, []).append(Match(scheme, sequence, tokens, wrong, probability, esp))
    return matches
