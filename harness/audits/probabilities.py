"""Sampling schemes, and the probability that a completion appears in some number of queries."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from harness.audits.options import AuditParams
from harness.audits.report import grouped
from harness.core.arrays import Bools, Floats, Ints
from harness.core.attack import Field
from harness.core.findings import LineChart, Series
from harness.core.measures import Estimate, Measure, MeasureRow
from harness.core.options import option
from harness.core.policy import Policy
from harness.core.text import format_percent

_DECAY_TOKENS = 20
MAX_QUERIES = 1_000_000
DISCOVERABLE_QUERIES = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
DISCOVERABLE = {
    probability: Measure(
        f"discoverable_{probability:g}",
        f"p = {probability:g}",
        f"the share of sequences that at least one of n queries returns with a probability of at least {probability:g}",
        at="n = {}",
        at_name="queries n",
    )
    for probability in (0.1, 0.5, 0.9)
}
"""The (n, p)-discoverable extraction rate for each p (Hayes et al. 2024)."""
_RATES = tuple(DISCOVERABLE.values())
DISCOVERABLE_SECTIONS = grouped("discoverable", "(n, p)-discoverable, {what}", *_RATES, charted=_RATES)
_ROUNDING = 1e-12
"""Difference below which two shares of the same number of sequences are equal."""


class Scheme(StrEnum):
    """The decoding schemes, in the order in which results are shown."""

    GREEDY = "greedy"
    PLAIN = "plain"
    TEMPERATURE = "temperature"
    TOP_K = "top_k"
    TOP_P = "top_p"
    TYPICAL_P = "typical_p"
    DECAYING_TEMPERATURE = "decaying_temperature"


SCHEMES = tuple(Scheme)


RANDOM_SCHEMES = SCHEMES[1:]


DEFAULT_SCHEMES = SCHEMES[:6]
"""Six schemes, as in Figure 2 of Tiwari & Suh (2024).

Their text names the first five. Typical-p is among those of Yu et al. (2023), whose hyper-parameters they use.
"""


class SchemeParams(AuditParams):
    """The parameters of the schemes."""

    temperature: float = Field(0.7, gt=0, le=10, description="Sampling temperature.")
    top_k: int = Field(10, ge=1, le=1024, description="Tokens kept by top-k.")
    top_p: float = Field(0.9, gt=0, lt=1, description="Probability kept by top-p.")
    typical_p: float = Field(0.6, gt=0, lt=1, description="Probability kept by typical-p.")
    decaying_temperature: float = Field(
        10, gt=0, le=100, description="First temperature of `decaying_temperature`, which ends at 1."
    )
    schemes: tuple[Scheme, ...] = option(
        DEFAULT_SCHEMES,
        min_length=1,
        metavar="SCHEME,…",
        separator=",",
        description="Decoding schemes that are measured.",
    )

    @property
    def policies(self) -> dict[Scheme, Policy]:
        """The policy of each scheme."""
        return {
            Scheme.GREEDY: Policy(top_k=1),
            Scheme.PLAIN: Policy(),
            Scheme.TEMPERATURE: Policy(temperature=self.temperature),
            Scheme.TOP_K: Policy(top_k=self.top_k),
            Scheme.TOP_P: Policy(top_p=self.top_p),
            Scheme.TYPICAL_P: Policy(typical_p=self.typical_p),
            Scheme.DECAYING_TEMPERATURE: Policy(temperature=self.decaying_temperature, decay_tokens=_DECAY_TOKENS),
        }

    def label(self, scheme: Scheme) -> str:
        """Return the scheme with its parameter, such as "top-k 10"."""
        value: float | None = getattr(self, scheme.value, None)
        return scheme.value.replace("_", "-") + ("" if value is None else f" {value:g}")


def log_esp(token_logprobs: Floats) -> Floats:
    """Return the log of the exact sample probability, [n], for token_logprobs [n, length] (Tiwari & Suh 2024, ESP)."""
    # In float32 a certain token may have a probability slightly above 1.
    return np.minimum(np.asarray(token_logprobs.sum(axis=-1), np.float64), 0)


def share_over(log_esps: Floats, queries: Ints) -> Floats:
    """Return the share of sequences with ESP > 1/X for each X of `queries`, [points].

    The source's definition of "leaked at least once in X queries" (Tiwari & Suh 2024).
    """
    below = np.searchsorted(np.sort(log_esps), -np.log(queries), side="right")
    return np.asarray(1 - below / len(log_esps)) if len(log_esps) else np.full(len(queries), np.nan)


def leaked_probability(log_esps: Floats, queries: float) -> Floats:
    """Return 1 - (1 - ESP)^X, [n]: the probability that X independent queries draw the sequence at least once."""
    # log(1 - ESP) in the form that loses no digits (Mächler 2012).
    log_esps = np.minimum(log_esps, 0)
    with np.errstate(divide="ignore"):
        log_missed = np.where(log_esps > -np.log(2), np.log(-np.expm1(log_esps)), np.log1p(-np.exp(log_esps)))
    return np.asarray(-np.expm1(queries * log_missed))


def expected_share(log_esps: Floats, queries: Ints) -> Floats:
    """Return the share of sequences that X queries are expected to leak, [points]: the mean of 1 - (1 - ESP)^X."""
    return np.array([_mean(leaked_probability(log_esps, float(number))) for number in queries])


def extraction_rate(log_esps: Floats) -> float:
    """Return the share of sequences that one query each is expected to leak: the mean ESP."""
    return _mean(np.exp(log_esps))


def discoverable_rate(log_esps: Floats, queries: int, probability: float) -> float:
    """Return the (n, p)-discoverable extraction rate: the share of sequences with 1 - (1 - ESP)^n >= p.

    Hayes et al. 2024, "Measuring memorization through probabilistic discoverable extraction".
    """
    return _mean(leaked_probability(log_esps, queries) >= probability)


def discoverable_rows(log_esps: Floats, model: str, side: str = "", case: str = "") -> list[MeasureRow]:
    """Return the (n, p)-discoverable rates of sequences, for each number of queries and each probability."""
    return [
        MeasureRow(measure, Estimate(discoverable_rate(log_esps, queries, probability)), model, side, case, queries)
        for probability, measure in DISCOVERABLE.items()
        for queries in DISCOVERABLE_QUERIES
    ]


class DataSet(NamedTuple):
    """The probabilities of the sequences of a data set under one model."""

    name: str
    labels: Mapping[Scheme, str]
    """The name of each scheme that was measured, with its parameter."""
    logs: Mapping[Scheme, Floats | Sequence[float]]
    """The log ESP of the sequences that the scheme could measure, [n]."""


def leak_chart(name: str, data_set: DataSet) -> LineChart:
    """Return the share of leaked sequences by number of queries, with extraction rates (Tiwari & Suh 2024, Figure 2).

    Only the rates of greedy decoding and of top-k are drawn as lines. The legend has the rates of all schemes.
    """
    grid = np.unique(np.round(np.logspace(0, 6, 121))).astype(np.int64)  # [points], from 1 to 10⁶
    logs_of = {scheme: np.asarray(logs, np.float64) for scheme, logs in data_set.logs.items()}
    rates = {scheme: extraction_rate(logs) for scheme, logs in logs_of.items()}
    labels = {scheme: f"{label}, rate {format_percent(rates[scheme])}" for scheme, label in data_set.labels.items()}
    top_k = f"extraction rate, {data_set.labels[Scheme.TOP_K]}"
    curves = [
        Series(labels[scheme], grid, share_over(logs, grid), key=data_set.labels[scheme])
        for scheme, logs in logs_of.items()
        if scheme != Scheme.GREEDY
    ]
    flat = [
        Series(line, grid, np.full(len(grid), rates[scheme]), is_dashed=True)
        for scheme, line in ((Scheme.GREEDY, labels[Scheme.GREEDY]), (Scheme.TOP_K, top_k))
    ]
    return LineChart(
        name,
        f"Sequences with ESP > 1/X, {data_set.name}",
        "queries X per sequence",
        "share of sequences",
        [*curves, *flat],
        is_x_logarithmic=True,
    )


def underestimate(log_esps: Floats, queries: int) -> tuple[float, float]:
    """Return the share leaked by `queries` queries divided by the extraction rate: by ESP > 1/X, and as expected.

    NaN if the rate is 0.
    """
    rate = extraction_rate(log_esps)
    if rate == 0:
        return np.nan, np.nan
    number = np.array([queries])
    return float(share_over(log_esps, number)[0] / rate), float(expected_share(log_esps, number)[0] / rate)


def queries_to_exceed(log_esps: Floats, share: float) -> float:
    """Return the fewest queries X at which more than `share` of the sequences have ESP > 1/X; NaN beyond 10⁶."""
    return _first_query(lambda number: bool(share_over(log_esps, np.array([number]))[0] > share + _ROUNDING))


def expected_queries_to_exceed(log_esps: Floats, share: float) -> float:
    """Return the fewest queries that are expected to leak more than `share` of the sequences; NaN beyond 10⁶."""
    return _first_query(lambda number: bool(expected_share(log_esps, np.array([number]))[0] > share))


def _mean(values: Floats | Bools) -> float:
    return float(values.mean()) if len(values) else np.nan


def _first_query(is_enough: Callable[[int], bool]) -> float:
    """Return the smallest number of queries for which `is_enough`, which never turns false again, is true."""
    place = bisect_left(range(1, MAX_QUERIES + 1), True, key=is_enough)
    return place + 1 if place < MAX_QUERIES else np.nan
