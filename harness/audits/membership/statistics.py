"""Scores of membership, ROC curves, and a classifier that sees only the words.

A larger score speaks for membership. A replicate of the bootstrap of a curve draws units of members and of non-members
separately, with replacement. A unit is the documents of one side in one cluster, which are not independent of each
other.

The classifier knows no model and measures whether members and non-members are of different kinds. A membership score is
evidence only if it cannot tell the two apart (Meeus et al. 2024; Das et al. 2025).
"""

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from harness.core.arrays import Bools, Floats, Ints
from harness.core.examples import folds_by_cluster
from harness.core.intervals import draw_units, percentiles, wilson
from harness.core.measures import NO_ESTIMATE, Estimate

_LEAST = 1e-12
"""The smallest deviation and loss by which something is divided."""


def loss_score(logprobs: Floats) -> float:
    """Return the mean log-probability of the tokens, [tokens] in nats (Yeom et al. 2018)."""
    return float(logprobs.mean())


def zlib_score(logprobs: Floats, text: str) -> float:
    """Return the mean log-probability per byte of the compressed text (Carlini et al. 2021)."""
    return float(logprobs.mean()) / len(zlib.compress(text.encode("utf-8", "replace")))


def min_k_score(logprobs: Floats, k: float) -> float:
    """Return the mean log-probability of the share `k` of the tokens that are least likely (Shi et al. 2024)."""
    return float(np.sort(logprobs)[: _count(len(logprobs), k)].mean())


def min_k_plus_score(logprobs: Floats, means: Floats, deviations: Floats, k: float) -> float:
    """Return the same of log-probabilities that are standardized at each position (Zhang et al. 2025).

    means, deviations: [tokens], of the log-probability of a token drawn from the model.
    """
    return min_k_score((logprobs - means) / np.maximum(deviations, _LEAST), k)


def recall_score(logprobs: Floats, after_non_members: Floats) -> float:
    """Return the log-likelihood after non-members divided by that of the text alone (Xie et al. 2024, ReCaLL)."""
    return float(after_non_members.mean() / min(-_LEAST, logprobs.mean()))


def _count(tokens: int, k: float) -> int:
    return max(1, int(tokens * k))


REPLICATES = 1000
_SEED = 20241111
_AT_ONCE = 50
_ROUNDING = 1e-12


class Roc(NamedTuple):
    """The curve of one score: rates of false and of true positives, [points] each, and what is reported of it."""

    false_positives: Floats
    true_positives: Floats
    auc: Estimate
    at: list[Estimate]
    """The rate of true positives at each of the given rates of false positives, NaN with too few non-members."""

    def steps(self, least: float) -> tuple[Floats, Floats]:
        """Return the corners of the curve as steps from the rate of false positives `least` to 1, as x and y.

        The height at x is the largest rate of true positives whose rate of false positives does not exceed x.
        """
        levels = np.unique(np.append(self.false_positives[self.false_positives > least], least))
        heights = self.true_positives[np.searchsorted(self.false_positives, levels + _ROUNDING, side="right") - 1]
        return np.repeat(levels, 2)[1:], np.repeat(heights, 2)[:-1]


def roc_of(scores: Floats, is_member: Bools, clusters: Ints, rates: tuple[float, ...]) -> Roc:
    """Return the curve of scores [n]. A larger score speaks for membership. clusters: [n].

    An interval that reaches 0 or 1, or has no width, is extended to Wilson's (1927), because the bootstrap has no width
    at 0 and 1. For a rate, the observations are the units of members. For an area, they are as many disjoint pairs of a
    member and a non-member as there are units on the smaller side: the area is the probability that a pair is in order.
    """
    # Equal scores are one step of the curve.
    _, step = np.unique(-scores, return_inverse=True)
    sides = [(side, np.unique(clusters[side], return_inverse=True)[1]) for side in (is_member, ~is_member)]
    units = [int(unit.max()) + 1 for _, unit in sides]

    def curves(weights: Floats) -> list[Floats]:
        return [_curve(weights, step, side) for side, _ in sides]

    parts = []
    for of_units in draw_units(units, seed=_SEED, replicates=REPLICATES, at_once=_AT_ONCE):
        drawn = np.zeros((_AT_ONCE, len(scores)))
        for (side, unit), times in zip(sides, of_units, strict=True):
            drawn[:, side] = times[:, unit]
        parts.append(_measures(curves(drawn), rates))
    true, false = curves(np.ones((1, len(scores))))
    bounds = np.array([_measures([true, false], rates)[0], *percentiles(np.concatenate(parts))]).T.tolist()
    area, *at = [
        _rate(value, low, high, units[0] if place else min(units)) for place, (value, low, high) in enumerate(bounds)
    ]
    non_members = int((~is_member).sum())
    at = [estimate if non_members * rate >= 1 else NO_ESTIMATE for estimate, rate in zip(at, rates, strict=True)]
    return Roc(false[0], true[0], area, at)


def _rate(value: float, low: float, high: float, observations: int) -> Estimate:
    if low <= 0 or high >= 1 or low == high:
        outer_low, outer_high = wilson(value, observations)
        low, high = min(low, outer_low), max(high, outer_high)
    # Rounding may put the end of Wilson's interval beyond the value.
    return Estimate(value, min(low, value), max(high, value))


def _curve(weights: Floats, step: Ints, chosen: Bools) -> Floats:
    """Return the share of the chosen documents up to each step, from 0 on, [replicates, steps + 1]."""
    steps = int(step.max()) + 1
    sums = np.zeros((len(weights), steps + 1))
    places = np.flatnonzero(chosen)
    np.add.at(sums.T, step[places] + 1, weights[:, places].T)
    total = np.cumsum(sums, axis=1)
    return total / np.maximum(total[:, -1:], 1)


def _measures(curves: Sequence[Floats], rates: tuple[float, ...]) -> Floats:
    """Return the area and the rates of true positives at `rates` of curves, [replicates, 1 + rates].

    curves: the rates of true and of false positives, [replicates, steps + 1] each.
    """
    true, false = curves
    area = ((true[:, 1:] + true[:, :-1]) / 2 * np.diff(false, axis=1)).sum(axis=1)
    # The largest rate of true positives whose rate of false positives does not exceed the given one.
    at = [np.where(false <= rate + _ROUNDING, true, 0).max(axis=1) for rate in rates]
    return np.stack([area, *at], axis=1)


PERMUTATIONS = 499
FOLDS = 5
_FEWEST_DOCUMENTS = 2
_MOST_WORDS = 50_000
_WORD = r"\S+"
_PENALTY = 1.0
_DECIMALS = 9  # so that texts of the same words have the same score


class WordShift(NamedTuple):
    """The score of each text by its words, [n], and the p-value of the area under their ROC curve.

    All are NaN if a side has fewer clusters than there are folds.
    """

    scores: Floats
    p_value: float


def word_shift(texts: Sequence[str], is_member: Bools, clusters: Ints, *, seed: int) -> WordShift:
    """Score each text by a classifier that was trained on texts of other clusters, and test the area for chance.

    The classifier is a ridge regression of membership on which words occur, with five folds that separate no cluster.
    clusters: [n]. The p-value is that of a one-sided permutation test (Ojala and Garriga 2010): the clusters exchange
    their labels, and each permutation is fitted again, so the test includes the variance of training.
    """
    folds = _folds(is_member, clusters, seed)
    if folds is None:
        return WordShift(np.full(len(texts), np.nan), np.nan)
    labels = np.column_stack([is_member, _permuted_labels(is_member, clusters, seed)])
    scores = _out_of_fold_scores(_similarities(texts), labels, folds)
    areas = _areas(scores, labels)
    return WordShift(scores[:, 0], float((areas >= areas[0]).mean()))


def _folds(is_member: Bools, clusters: Ints, seed: int) -> Ints | None:
    """Return the fold of each text, [n], None with too few clusters.

    The folds do not depend on the labels, so all permutations of the labels are equally likely.
    """
    if min(len(np.unique(clusters[is_member == side])) for side in (False, True)) < FOLDS:
        return None
    names, cluster_of_text = np.unique(clusters, return_inverse=True)
    shuffled = np.random.default_rng([seed, 5]).permutation(len(names))
    return folds_by_cluster(shuffled[cluster_of_text], FOLDS)


def _permuted_labels(is_member: Bools, clusters: Ints, seed: int) -> Bools:
    """Return permutations of the labels, [n, permutations]. Texts of one side in one cluster keep a common label."""
    _, first, unit = np.unique(clusters * 2 + is_member, return_index=True, return_inverse=True)
    labels = np.tile(is_member[first], (PERMUTATIONS, 1))
    return np.random.default_rng([seed, 6]).permuted(labels, axis=1)[:, unit].T


def _similarities(texts: Sequence[str]) -> Floats:
    """Return the cosine similarities of the texts by which words of at least two texts occur, [n, n]."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.preprocessing import normalize

    words = CountVectorizer(binary=True, min_df=_FEWEST_DOCUMENTS, max_features=_MOST_WORDS, token_pattern=_WORD)
    try:
        occurrences = normalize(words.fit_transform(texts).astype(np.float64))
    except ValueError:  # no word occurs in two texts
        return np.zeros((len(texts), len(texts)))
    similarities: Floats = (occurrences @ occurrences.T).toarray()
    return similarities


def _out_of_fold_scores(similarities: Floats, labels: Bools, folds: Ints) -> Floats:
    """Return the predictions of ridge regressions, one per column of `labels` [n, m], on the other folds, [n, m].

    The intercept is not penalized. The columns share one factorization (Saunders et al. 1998). The mean of a fold's
    scores is zero, because the offset between folds depends on how many members they have by chance.
    """
    from scipy.linalg import cho_factor, cho_solve

    scores = np.empty(labels.shape)
    targets = labels.astype(np.float64)
    for fold in range(FOLDS):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        inside, outside = similarities[np.ix_(train, train)], similarities[np.ix_(test, train)]
        # Products of features minus their means over the training texts.
        mean = inside.mean(axis=0)
        outside -= mean + outside.mean(axis=1, keepdims=True) - mean.mean()
        inside -= mean + mean[:, None] - mean.mean()
        inside[np.diag_indices_from(inside)] += _PENALTY
        centred = targets[train] - targets[train].mean(axis=0)
        dual = cho_solve(cho_factor(inside, overwrite_a=True), centred, overwrite_b=True)
        predicted = outside @ dual
        scores[test] = predicted - predicted.mean(axis=0)
    return scores.round(_DECIMALS)


def _areas(scores: Floats, labels: Bools) -> Floats:
    """Return the area under the ROC curve of each column, [m], from ranks (Mann and Whitney 1947)."""
    from scipy.stats import rankdata

    members = labels.sum(axis=0)
    non_members = len(labels) - members
    ranks = (rankdata(scores, axis=0) * labels).sum(axis=0)
    with np.errstate(invalid="ignore"):
        areas: Floats = (ranks - members * (members + 1) / 2) / (members * non_members)
    return areas
