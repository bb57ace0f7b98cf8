"""The measures of an entities audit and their computation: M-MEM, and statistics over prompts.

S-MEM of a pair is 1 if the name of the training set has the higher confidence, else 0; a tie is 0. M-MEM is the mean of
S-MEM over all pairs (Xia et al. 2024): the Mann-Whitney statistic without its half for ties.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.audits.report import normal_interval
from harness.core.arrays import Floats, Ints
from harness.core.errors import HarnessError
from harness.core.intervals import NORMAL_975, draw_units, percentiles
from harness.core.measures import Estimate, Measure, Unit

REPLICATES = 1000

M_MEM = Measure(
    "m_mem",
    "M-MEM",
    "the share of pairs of one trained and one other name in which the trained name has the higher confidence",
)
TIES = Measure("ties", "ties", "pairs with equal confidences, which count as not recognized", unit=Unit.NUMBER)
PROMPTS_M_MEM = Measure(
    "m_mem_of_prompts",
    "M-MEM of the prompts",
    "the mean, the largest and the smallest M-MEM of a prompt, the standard deviation (divided by the number of "
    "prompts) and the range",
)
RANK = Measure(
    "rank_on_test",
    "rank on test",
    "the place of the best and the worst prompt on dev in the order of M-MEM on test: 1 is the best prompt, -1 the "
    "worst",
    unit=Unit.NUMBER,
)
CHANCE_ERROR = Measure(
    "chance_error", "standard error under chance", "the largest standard error of M-MEM without memorization"
)
COCHRAN = Measure(
    "cochran_q",
    "Cochran's Q",
    "do all prompts win equally many pairs? Pairs that share a name are taken as independent, as by Xia et al.",
    unit=Unit.NUMBER,
)
COCHRAN_P = Measure(
    "cochran_p_value", "p of Cochran's Q", "the p-value; too small, because pairs share names", unit=Unit.P_VALUE
)
LEAD = Measure(
    "lead", "best − worst prompt", "the largest minus the smallest M-MEM, in a bootstrap over names", unit=Unit.CHANGE
)
LEAD_P = Measure(
    "equal_prompts_p_value", "p of equal prompts", "the bootstrap's p-value of equal prompts", unit=Unit.P_VALUE
)
TAU = Measure(
    "kendall_tau",
    "Kendall's τ",
    "the rank correlation of the prompts' M-MEM on dev, on test, or from dev to test; the case is the other model",
    unit=Unit.NUMBER,
)
TAU_P = Measure("kendall_p_value", "p of Kendall's τ", "the p-value of no correlation of the orders", unit=Unit.P_VALUE)
BY_TYPE = Measure("m_mem_by_type", "mean M-MEM", "the mean M-MEM of the prompts of a sentence type")
PROPERTY = Measure(
    "property_correlation",
    "correlation",
    "the correlation of M-MEM with the length and the name's position in model tokens (Pearson's r, Spearman's ρ), and "
    "with the "
    "sentence type (correlation ratio η)",
    unit=Unit.NUMBER,
)
BY_POSITION = Measure(
    "m_mem_by_position",
    "mean M-MEM",
    "the mean M-MEM of the prompts with the name at a position",
    at="{} before the name",
    at_name="model tokens before the name",
)
BY_LENGTH = Measure(
    "m_mem_by_length",
    "mean M-MEM",
    "the mean M-MEM of the prompts of a length",
    at="{} tokens",
    at_name="model tokens of the prompt, in which the name counts as one",
)
ATTENTION = Measure(
    "attention",
    "attention to the name",
    "the mean attention that the other tokens of a prompt give to a token of the name, over heads and layers",
)
TESTS = (COCHRAN, COCHRAN_P, LEAD, LEAD_P, TAU, TAU_P)
MEASURES = (
    *(M_MEM, TIES, PROMPTS_M_MEM, RANK, CHANCE_ERROR),
    *(*TESTS, BY_TYPE, BY_POSITION, BY_LENGTH, PROPERTY, ATTENTION),
)
DEV, TEST, DEV_TO_TEST = "dev", "test", "dev to test"
INSIDE, OUTSIDE = "in-train", "out-of-train"
BEST_ON_DEV, WORST_ON_DEV = "B-PT: best on dev", "W-PT: worst on dev"
BEST_MODIFIED, WORST_MODIFIED = "BM-PT: best modified", "WM-PT: worst modified"


class PairScore(NamedTuple):
    """M-MEM and its parts. wins, ties: how many of `pairs`; low, high: 95 % interval (DeLong et al. 1988), or NaN."""

    wins: int
    ties: int
    pairs: int
    low: float = math.nan
    high: float = math.nan

    @property
    def m_mem(self) -> float:
        """The share of pairs that the trained name wins, in [0, 1]; NaN without a pair."""
        return self.wins / self.pairs if self.pairs else math.nan


class Placements(NamedTuple):
    """The rank of each name among those of the other list.

    of_inside: [n] share of outside names below; of_outside: [m] share of inside names above.
    """

    of_inside: Floats
    of_outside: Floats


def score_pairs(inside: Floats, outside: Floats) -> PairScore:
    """Score all pairs of `inside` [n] and `outside` [m] confidences in O((n + m) log(n + m)). NaN is in no pair."""
    inside, outside = np.sort(inside[~np.isnan(inside)]), np.sort(outside[~np.isnan(outside)])
    wins = int(np.searchsorted(outside, inside, side="left").sum())
    ties = int(np.searchsorted(outside, inside, side="right").sum()) - wins
    has_interval = min(len(inside), len(outside)) >= 2
    interval = delong_interval(placements(inside, outside)) if has_interval else ()
    return PairScore(wins, ties, len(inside) * len(outside), *interval)


def placements(inside: Floats, outside: Floats) -> Placements:
    """Return the placements of `inside` [n] and `outside` [m], which contain no NaN, in their order."""
    below = np.searchsorted(np.sort(outside), inside, side="left")
    above = len(inside) - np.searchsorted(np.sort(inside), outside, side="right")
    return Placements(below / len(outside), above / len(inside))


def delong_interval(placed: Placements) -> tuple[float, float]:
    """Return the 95 % interval of M-MEM, or of its mean over prompts from mean placements (DeLong et al. 1988)."""
    centre = float(placed.of_inside.mean())
    variance = sum(float(part.var(ddof=1)) / len(part) for part in placed)
    half = NORMAL_975 * math.sqrt(variance)
    return max(0.0, centre - half), min(1.0, centre + half)


def chance_error(inside: int, outside: int) -> float:
    """Return the standard error of M-MEM under chance: sqrt((n + m + 1) / 12nm) (Mann & Whitney 1947)."""
    return math.sqrt((inside + outside + 1) / (12 * inside * outside))


def count_votes(inside: Floats, outside: Floats) -> NDArray[np.uint16]:
    """Return how many prompts each pair wins, [n, m].

    inside, outside: confidences [prompts, n] and [prompts, m]. Raises HarnessError for more than 65,535 prompts.
    """
    if len(inside) > np.iinfo(np.uint16).max:
        raise HarnessError(f"the majority vote takes at most 65,535 prompts, not {len(inside):,}. Shorten --prompts.")
    counters = np.zeros((inside.shape[1], outside.shape[1]), np.uint16)
    for of_inside, of_outside in zip(inside, outside, strict=True):
        counters += of_inside[:, None] > of_outside
    return counters


def majority_vote(counters: NDArray[np.uint16], prompts: int) -> PairScore:
    """Score pairs by whether the trained name wins more than half of `prompts`; exactly half is a tie."""
    doubled = counters.astype(np.uint32) * 2
    return PairScore(int((doubled > prompts).sum()), int((doubled == prompts).sum()), counters.size)


def cochran_q(votes: NDArray[np.uint16], wins: Sequence[int]) -> tuple[float, float]:
    """Return Cochran's (1950) Q and its p-value: do all prompts win equally many pairs (Xia et al. 2024)?

    votes: [n, m] prompts that win each pair.
    wins: [prompts] pairs that each prompt wins. The test takes the pairs as independent. Pairs that share a name are
    not, so the p-value is too small. NaN if all prompts agree in every pair.
    """
    from scipy.stats import chi2

    prompts, columns = len(wins), np.array(wins, np.float64)
    # Sums of at most 65,535² in 64-bit integers. A matrix [pairs, prompts] would have hundreds of millions of cells.
    rows, squares = int(votes.sum(dtype=np.int64)), int((votes.astype(np.int64) ** 2).sum())
    divisor = prompts * rows - squares
    if prompts < 2 or divisor == 0:
        return math.nan, math.nan
    q = (prompts - 1) * (prompts * float((columns**2).sum()) - float(columns.sum()) ** 2) / divisor
    return q, float(chi2.sf(q, prompts - 1))


def spread_over_names(inside: Floats, outside: Floats, seed: int) -> tuple[Estimate, float]:
    """Bootstrap the names of both lists, [prompts, n] and [prompts, m], in 1,000 replicates.

    To first order (DeLong et al. 1988) a replicate changes a prompt's M-MEM by the mean placement of the sampled names
    minus that of all. Returns M-MEM of the best prompt minus that of the worst, with its percentile interval, and the
    share of replicates in which prompts with equal M-MEM spread as widely as observed.
    """
    placed = [np.array(part) for part in zip(*map(placements, inside, outside), strict=True)]  # [prompts, names] each
    names = [part.shape[1] for part in placed]
    (drawn,) = draw_units(names, seed=[seed, 5], replicates=REPLICATES, at_once=REPLICATES)
    changes = [(times - 1) @ part.T / number for times, part, number in zip(drawn, placed, names, strict=True)]
    change = changes[0] + changes[1]  # [replicates, prompts]
    m_mem = placed[0].mean(axis=1)
    p = (1 + int((change.var(axis=1) >= m_mem.var()).sum())) / (1 + REPLICATES)
    best, worst = int(m_mem.argmax()), int(m_mem.argmin())
    lead = float(m_mem[best] - m_mem[worst])
    low, high = percentiles(lead + change[:, best] - change[:, worst])
    return Estimate(lead, float(low), float(high)), p


def rank_correlation(first: Floats, second: Floats) -> tuple[float, float]:
    """Return Kendall's tau-b between the M-MEM of the same prompts and its p-value; NaN for fewer than two prompts."""
    from scipy.stats import kendalltau

    if len(first) < 2:
        return math.nan, math.nan
    result = kendalltau(first, second)
    return float(result.statistic), float(result.pvalue)


def correlation_ratio(groups: Sequence[str], values: Floats) -> float:
    """Return η, the root of the share of the variance of `values` that lies between groups; NaN if all are equal."""
    if len(set(values.tolist())) < 2:
        return math.nan
    means = means_by_group(groups, values)
    between = np.array([means[group].value for group in groups])
    return min(1.0, float(between.std() / values.std()))


def property_correlations(
    kinds: Sequence[str], sizes: Mapping[str, Ints], m_mem: Floats
) -> Iterator[tuple[str, float]]:
    """Yield the correlation of each property of prompts with their M-MEM, by its name; NaN if one of both is constant.

    kinds: [prompts] sentence types. sizes: [prompts] each, such as lengths, by name. m_mem: [prompts].
    """
    from scipy.stats import pearsonr, spearmanr

    for name, values in sizes.items():
        varies = len(set(values.tolist())) > 1 and len(set(m_mem.tolist())) > 1
        for coefficient, correlate in (("Pearson's r", pearsonr), ("Spearman's ρ", spearmanr)):
            yield f"{name}, {coefficient}", float(correlate(values, m_mem).statistic) if varies else math.nan
    yield "type, η", correlation_ratio(kinds, m_mem)


def means_by_group(groups: Sequence[str | int], values: Floats) -> dict[str | int, Estimate]:
    """Return the mean of `values`, in [0, 1], of each group, ordered by group.

    A group of several values has a normal 95 % interval.
    """
    means = {}
    for group in sorted(set(groups), key=lambda name: (isinstance(name, str), name)):
        members = values[[name == group for name in groups]]
        mean, low, high = normal_interval(members)
        interval = (max(0.0, low), min(1.0, high)) if len(members) > 1 else (math.nan, math.nan)
        means[group] = Estimate(mean, *interval, len(members))
    return means
