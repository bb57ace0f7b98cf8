"""What was measured in numbers that tables, charts, sentences and JSON share; how they are shown is theirs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.audits.leakage.pairs import Pairs
from harness.audits.leakage.params import RANDOM_SCHEMES, SCHEMES, Scheme
from harness.audits.leakage.probabilities import (
    Share,
    discoverable_rate,
    expected_queries_to_pass,
    extraction_rate,
    queries_to_pass,
    share_of,
    underestimate,
)
from harness.audits.leakage.rows import Measured, Setting
from harness.audits.leakage.trends import CLASSES, PARTS, partition, source_classes
from harness.core.arrays import Floats, Ints
from harness.core.rows import Rows

SHARES_OVER = (10, 100, 1_000, 10_000, 1_000_000)
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
DISCOVERABLE_QUERIES = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
DISCOVERABLE_PROBABILITIES = (0.1, 0.5, 0.9)
MOST_MATCHES = 100
_SAME = 1e-6
"""Nats that two probabilities may differ by and count as equal."""


@dataclass(frozen=True)
class SchemeSummary:
    """One scheme in one setting.

    mean: the mean ESP, which is the extraction rate; quantiles: of the ESP, at `QUANTILES`; over: the share above 1/X
    for each X of `SHARES_OVER`; passes_greedy, expected_to_pass: queries, None beyond 10⁶; factors: by how much more
    leaks in so many queries than the rate says, by ESP > 1/X and as expected; discoverable: [queries][probabilities];
    last_to_first: of the mean token probabilities.
    """

    scheme: Scheme
    mean: float
    quantiles: Floats
    over: tuple[Share, ...]
    passes_greedy: int | None
    expected_to_pass: int | None
    factors: tuple[float, float]
    discoverable: Floats
    first: float
    last: float


def summaries(setting: Setting, queries: int) -> list[SchemeSummary]:
    """Every scheme in a setting, in the order of `SCHEMES`; queries: those of `factors`."""
    greedy = extraction_rate(setting.of(Scheme.GREEDY))
    found = []
    for scheme in SCHEMES:
        logs, means = setting.of(scheme), setting.means_of(scheme)
        is_random = scheme is not Scheme.GREEDY
        over = tuple(share_of(float((logs > -np.log(number)).sum()), len(logs)) for number in SHARES_OVER)
        found.append(
            SchemeSummary(
                scheme,
                extraction_rate(logs),
                np.quantile(np.exp(logs), QUANTILES),
                over,
                queries_to_pass(logs, greedy) if is_random else None,
                expected_queries_to_pass(logs, greedy) if is_random else None,
                underestimate(logs, queries) if is_random else (np.nan, np.nan),
                np.array(
                    [
                        [discoverable_rate(logs, number, probability) for probability in DISCOVERABLE_PROBABILITIES]
                        for number in DISCOVERABLE_QUERIES
                    ]
                ),
                float(means[0]),
                float(means[-1]),
            )
        )
    return found


@dataclass(frozen=True)
class Trend:
    """How sequences go over several settings: the share of each class and of each part, by scheme.

    over: what grows; settings: how many; classes: [schemes, 6] shares; parts: [schemes, 9]; sequences: how many have
    been measured in every setting. Schemes are `RANDOM_SCHEMES`.
    """

    over: str
    settings: int
    classes: Floats
    parts: Floats
    sequences: int

    def share(self, scheme: int, number: int) -> Share:
        """Of class `number` under the scheme of that place."""
        return share_of(float(self.classes[scheme, number]) * self.sequences, self.sequences)


def trends(found: Measured) -> list[Trend]:
    """Over model sizes behind the longest prefix, and over prefix lengths of the largest model; of two or more."""
    reference = found.reference
    if reference is None:
        return []
    by_size = [one for one in found.settings if one.prefix_length == reference.prefix_length]
    by_length = [one for one in found.settings if one.model == reference.model]
    made = [("model sizes", by_size), ("prefix lengths", by_length)]
    return [_trend(over, settings) for over, settings in made if len(settings) > 1]


def _trend(over: str, settings: Sequence[Setting]) -> Trend:
    common = settings[0].sequences
    for setting in settings[1:]:
        common = np.intersect1d(common, setting.sequences)
    classes, parts = np.zeros((len(RANDOM_SCHEMES), len(CLASSES))), np.zeros((len(RANDOM_SCHEMES), len(PARTS)))
    if len(common):
        for place, scheme in enumerate(RANDOM_SCHEMES):
            values = np.array([one.of(scheme)[np.searchsorted(one.sequences, common)] for one in settings])
            classes[place], parts[place] = source_classes(values).mean(axis=1), partition(values).mean(axis=1)
    return Trend(over, len(settings), classes, parts, len(common))


@dataclass(frozen=True)
class InexactSummary:
    """One scheme and number of substitutions in the reference model, behind whole prefixes.

    esp, probability, high: means over the sequences of the ESP, of the n-ISP, and of what it is at most; over_esp: the
    share of sequences whose n-ISP is above their ESP; at_least, at_most: that share by the lower and upper bounds;
    exact: how many are exact.
    """

    scheme: Scheme
    errors: int
    esp: float
    probability: float
    low: float
    high: float
    over_esp: Share
    at_least: float
    at_most: float
    exact: int


def inexact_summaries(found: Measured) -> list[InexactSummary]:
    """Of each scheme and number of substitutions that has been measured of the reference model."""
    made = []
    reference = found.reference
    if reference is None:
        return []
    for scheme in SCHEMES:
        for errors in (1, 2):
            one = found.inexact.get((reference.model, scheme, errors))
            if one is None:
                continue
            log_esps = reference.of(scheme)[np.searchsorted(reference.sequences, one.sequences)]
            above = [_number_above(values, log_esps) for values in (one.probability, one.low, one.high)]
            made.append(
                InexactSummary(
                    scheme,
                    errors,
                    extraction_rate(log_esps),
                    float(one.probability.mean()),
                    float(one.low.mean()),
                    float(one.high.mean()),
                    share_of(above[0], len(log_esps)),
                    above[1] / len(log_esps),
                    above[2] / len(log_esps),
                    int((one.how == 0).sum()),
                )
            )
    return made


def _number_above(probabilities: Floats, log_esps: Floats) -> int:
    """How many probabilities are above their ESP, however small both are."""
    with np.errstate(divide="ignore"):
        logs = np.log(probabilities)
    # Two passes of one model may differ in the last digits.
    return int((logs > log_esps + _SAME).sum())


@dataclass(frozen=True)
class Match:
    """A suffix with substitutions that a scheme draws with `probability`; wrong: the positions, from 0 on."""

    scheme: Scheme
    sequence: int
    tokens: Ints
    wrong: Ints
    probability: float
    esp: float


def highest_matches(found: Measured, pairs: Pairs) -> dict[Scheme, list[Match]]:
    """The likeliest inexact suffixes under each scheme but greedy decoding, of the reference model, in that order."""
    reference = found.reference
    if reference is None:
        return {}
    rows: Rows = found.matches
    model, scheme_of, sequence = (np.asarray(rows[name], np.int64) for name in ("model", "scheme", "sequence"))
    logprob = np.asarray(rows["logprob"], np.float64)
    made: dict[Scheme, list[Match]] = {}
    for scheme in RANDOM_SCHEMES:
        mine = np.flatnonzero((model == reference.model) & (scheme_of == SCHEMES.index(scheme)))
        if not len(mine):
            continue
        tokens = np.asarray(rows["tokens"])[mine].astype(np.int64)
        # By their tokens among equals, so that the order in which rows came decides nothing.
        order = np.lexsort((*tokens.T[::-1], sequence[mine], -logprob[mine]))
        esps = np.exp(reference.of(scheme))
        chosen: dict[bytes, Match] = {}
        for place in order:
            row = int(sequence[mine[place]])
            key = row.to_bytes(8, "big") + tokens[place].tobytes()
            if key not in chosen:
                esp = float(esps[np.searchsorted(reference.sequences, row)])
                wrong = np.flatnonzero(tokens[place] != pairs.suffixes[row])
                likely = float(np.exp(logprob[mine[place]]))
                chosen[key] = Match(scheme, row, tokens[place], wrong, likely, esp)
            if len(chosen) == MOST_MATCHES:
                break
        made[scheme] = list(chosen.values())
    return made


def wrong_positions(matches: Sequence[Match], length: int) -> Ints:
    """[length] in how many of the matches each position is wrong."""
    positions = [match.wrong for match in matches] or [np.empty(0, np.int64)]
    return np.bincount(np.concatenate(positions), minlength=length).astype(np.int64)
