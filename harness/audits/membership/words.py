"""A classifier that sees only the words.

It knows no model and measures whether members and non-members are of different kinds. A membership score is evidence
only if it cannot tell the two apart (Meeus et al. 2024; Das et al. 2025).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from harness.core.arrays import Bools, Floats, Ints
from harness.core.examples import folds_by_cluster

PERMUTATIONS = 499
FOLDS = 5
_FEWEST_DOCUMENTS = 2
_MAX_WORDS = 50_000
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

    words = CountVectorizer(binary=True, min_df=_FEWEST_DOCUMENTS, max_features=_MAX_WORDS, token_pattern=_WORD)
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
