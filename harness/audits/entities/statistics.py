"""Statistics over prompts: Cochran's Q, a bootstrap over names, Kendall's tau, and mean M-MEM by group of prompts."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.audits.entities.ranking import placements
from harness.audits.report import normal_interval
from harness.core.arrays import Floats

REPLICATES = 1000


class CochranQ(NamedTuple):
    """Cochran's Q, its degrees of freedom and its p-value; NaN if all prompts agree in every pair."""

    q: float
    degrees_of_freedom: int
    p: float


class Spread(NamedTuple):
    """A bootstrap over names. p: of equal prompts; lead: of the best prompt over the worst, with its 95 % interval."""

    p: float
    lead: float
    low: float
    high: float


class Correlation(NamedTuple):
    """Kendall's tau-b and its p-value."""

    tau: float
    p: float


class GroupMean(NamedTuple):
    """The mean M-MEM of a group of prompts. low, high: 95 % interval over prompts; the mean itself for one prompt."""

    group: str | int
    prompts: int
    value: float
    low: float
    high: float


def cochran_q(votes: NDArray[np.uint16], wins: Sequence[int]) -> CochranQ:
    """Test by Cochran's (1950) Q whether all prompts win equally many pairs, as Xia et al. (2024) do.

    votes: [n, m] prompts that win each pair. wins: [prompts] pairs that each prompt wins. The test takes the pairs as
    independent. Pairs that share a name are not, so the p-value is too small.
    """
    from scipy.stats import chi2

    prompts, columns = len(wins), np.array(wins, np.float64)
    # Sums of at most 65,535² in 64-bit integers. A matrix [pairs, prompts] would have hundreds of millions of cells.
    rows, squares = int(votes.sum(dtype=np.int64)), int((votes.astype(np.int64) ** 2).sum())
    divisor = prompts * rows - squares
    if prompts < 2 or divisor == 0:
        return CochranQ(math.nan, max(0, prompts - 1), math.nan)
    q = (prompts - 1) * (prompts * float((columns**2).sum()) - float(columns.sum()) ** 2) / divisor
    return CochranQ(q, prompts - 1, float(chi2.sf(q, prompts - 1)))


def spread_over_names(inside: Floats, outside: Floats, seed: int) -> Spread:
    """Bootstrap the names of both lists, [prompts, n] and [prompts, m], in 1,000 replicates.

    To first order (DeLong et al. 1988) a replicate changes a prompt's M-MEM by the mean placement of the sampled names
    minus that of all. p: the share of replicates in which prompts with equal M-MEM spread as widely as observed. lead:
    M-MEM of the best prompt minus that of the worst, with its percentile interval.
    """
    placed = [placements(*sides) for sides in zip(inside, outside, strict=True)]
    of_inside = np.array([one.of_inside for one in placed])  # [prompts, n]
    of_outside = np.array([one.of_outside for one in placed])  # [prompts, m]
    m_mem = of_inside.mean(axis=1)
    generator = np.random.default_rng([seed, 5])
    change = _bootstrap_change(of_inside, generator) + _bootstrap_change(of_outside, generator)
    p = (1 + int((change.var(axis=1) >= m_mem.var()).sum())) / (1 + REPLICATES)
    best, worst = int(m_mem.argmax()), int(m_mem.argmin())
    lead = float(m_mem[best] - m_mem[worst])
    low, high = np.quantile(lead + change[:, best] - change[:, worst], (0.025, 0.975))
    return Spread(p, lead, float(low), float(high))


def _bootstrap_change(placed: Floats, generator: np.random.Generator) -> Floats:
    """Return each replicate's mean placement minus the mean, [replicates, prompts]."""
    names = placed.shape[1]
    drawn = generator.multinomial(names, np.full(names, 1 / names), size=REPLICATES)  # [replicates, names]
    return np.asarray((drawn - 1) @ placed.T / names)


def rank_correlation(one: Floats, other: Floats) -> Correlation:
    """Return Kendall's tau-b between the M-MEM of the same prompts; NaN for fewer than two prompts."""
    from scipy.stats import kendalltau

    if len(one) < 2:
        return Correlation(math.nan, math.nan)
    result = kendalltau(one, other)
    return Correlation(float(result.statistic), float(result.pvalue))


def means_by_group(groups: Sequence[str | int], values: Floats) -> list[GroupMean]:
    """Return the mean of `values`, in [0, 1], of each group, ordered by group, with normal intervals."""
    means = []
    for group in sorted(set(groups), key=lambda one: (isinstance(one, str), one)):
        members = values[[one == group for one in groups]]
        mean, low, high = normal_interval(members)
        means.append(GroupMean(group, len(members), mean, max(0.0, low), min(1.0, high)))
    return means
