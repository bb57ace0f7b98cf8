"""M-MEM: the share of pairs of names in which the trained name has the higher confidence.

S-MEM of a pair is 1 if the name of the training set has the higher confidence, else 0; a tie is 0. M-MEM is the mean of
S-MEM over all pairs (Xia et al. 2024): the Mann-Whitney statistic without its half for ties.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.audits.report import NORMAL_975
from harness.core.arrays import Floats


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

    @property
    def value(self) -> float:
        """M-MEM, by the name that charts use."""
        return self.m_mem


class Placements(NamedTuple):
    """The rank of each name among those of the other list.

    of_inside: [n] share of outside names below; of_outside: [m] share of inside names above.
    """

    of_inside: Floats
    of_outside: Floats


def score_pairs(inside: Floats, outside: Floats) -> PairScore:
    """Score all pairs of `inside` [n] and `outside` [m] confidences in O((n + m) log(n + m)). NaN is in no pair."""
    inside, outside = np.sort(inside[~np.isnan(inside)]), np.sort(outside[~np.isnan(outside)])
    below = np.searchsorted(outside, inside, side="left")
    wins = int(below.sum())
    ties = int(np.searchsorted(outside, inside, side="right").sum()) - wins
    pairs = len(inside) * len(outside)
    if min(len(inside), len(outside)) < 2:
        return PairScore(wins, ties, pairs)
    above = len(inside) - np.searchsorted(inside, outside, side="right")
    return PairScore(wins, ties, pairs, *delong_interval(Placements(below / len(outside), above / len(inside))))


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


def count_votes(prompts: Iterable[tuple[Floats, Floats]], inside: int, outside: int) -> NDArray[np.uint16]:
    """Return how many prompts each pair wins, [inside, outside].

    prompts: at most 65,535; for each, the confidences of the inside names [inside] and of the outside names [outside].
    """
    counters = np.zeros((inside, outside), np.uint16)
    won = np.empty((inside, outside), bool)
    for of_inside, of_outside in prompts:
        np.greater(of_inside[:, None], of_outside[None, :], out=won)
        counters += won
    return counters


def majority_vote(counters: NDArray[np.uint16], prompts: int) -> PairScore:
    """Score pairs by whether the trained name wins more than half of `prompts`; exactly half is a tie."""
    doubled = counters.astype(np.uint32) * 2
    return PairScore(int((doubled > prompts).sum()), int((doubled == prompts).sum()), counters.size)
