"""The classifier by words: folds by cluster, and a permutation test whose false alarms have the nominal rate."""

import numpy as np
import pytest

from harness.audits.membership import words as module
from harness.audits.membership.inputs import Documents
from harness.audits.membership.words import FOLDS, word_shift
from tests.bench.word_shift import false_alarm_rate


def test_words_tell_kinds_apart_on_texts_that_were_not_trained_on():
    from sklearn.metrics import roc_auc_score

    is_member = np.repeat([True, False], 40)
    same = word_shift([f"a b c {number}" for number in range(80)], is_member, np.arange(80), seed=1)
    assert (same.scores == 0).all() and same.p_value == 1
    texts = [f"{'old' if member else 'new'} b {number}" for number, member in enumerate(is_member)]
    shift = word_shift(texts, is_member, np.arange(80), seed=1)
    assert roc_auc_score(is_member, shift.scores) == 1
    assert shift.p_value == 1 / (1 + module.PERMUTATIONS)


def test_no_word_in_two_texts_tells_nothing():
    shift = word_shift([f"w{number}" for number in range(20)], np.arange(20) % 2 == 0, np.arange(20), seed=1)
    assert (shift.scores == 0).all() and shift.p_value == 1


def test_fewer_clusters_than_folds_on_a_side_are_too_few():
    is_member = np.repeat([True, False], 20)
    for clusters in (4, FOLDS):
        cluster = np.where(is_member, np.arange(40) % clusters, np.arange(40))
        shift = word_shift(["a b"] * 40, is_member, cluster, seed=1)
        assert np.isnan(shift.scores).all() == np.isnan(shift.p_value) == (clusters < FOLDS)


def test_the_scores_are_those_of_a_ridge_regression_on_other_clusters():
    from sklearn.linear_model import Ridge
    from sklearn.preprocessing import normalize

    generator = np.random.default_rng(2)
    occurs = generator.random((60, 30)) < 0.3
    texts = [" ".join(f"w{word}" for word in np.flatnonzero(row)) for row in occurs]
    is_member, clusters = generator.random(60) < 0.5, np.arange(60) // 2
    scores = word_shift(texts, is_member, clusters, seed=3).scores
    folds = module._folds(is_member, clusters, 3)
    assert folds is not None and set(folds.tolist()) == set(range(FOLDS))
    assert (folds[::2] == folds[1::2]).all()
    features = normalize(occurs.astype(float))
    for fold in range(FOLDS):
        test = folds == fold
        wanted = Ridge(alpha=1.0).fit(features[~test], is_member[~test].astype(float)).predict(features[test])
        assert scores[test] == pytest.approx(wanted - wanted.mean(), abs=1e-6)


def test_the_permutations_keep_the_texts_of_a_cluster_and_side_together():
    is_member = np.array([True, True, False, False, True, False])
    permuted = module._permuted_labels(is_member, np.array([0, 0, 0, 1, 2, 3]), 1)
    assert permuted.shape == (6, module.PERMUTATIONS)
    assert (permuted[0] == permuted[1]).all() and (permuted[0] != permuted[2]).any()
    # Two of the five units are members, and each unit equally often.
    assert (permuted[1:].sum(axis=0) == 2).all()
    assert permuted.mean(axis=1) == pytest.approx(np.full(6, 0.4), abs=0.1)


def test_near_copies_are_found_by_a_common_run_of_tokens():
    tokens = [np.arange(0, 40), np.arange(24, 60), np.arange(45, 80), np.arange(100, 110)]
    lengths = np.array([len(text) for text in tokens])
    documents = Documents(
        np.concatenate(tokens), lengths, [""] * 4, [""] * 4, np.ones(4, bool), np.empty(0, np.int64), []
    )
    # The first two share 16 tokens. The second and the third share 15.
    assert documents.clusters().tolist() == [0, 0, 1, 2]


def test_near_copies_on_one_side_are_no_difference_in_kind(monkeypatch: pytest.MonkeyPatch):
    from sklearn.metrics import roc_auc_score

    monkeypatch.setattr(module, "PERMUTATIONS", 99)
    generator = np.random.default_rng(8)
    clusters = np.arange(120) // 6
    base = [generator.choice(400, 30) for _ in range(20)]
    texts = [" ".join(f"w{word}" for word in [*base[cluster], *generator.choice(400, 3)]) for cluster in clusters]
    is_member = clusters < 10
    by_text, by_cluster = (word_shift(texts, is_member, units, seed=1) for units in (np.arange(120), clusters))
    assert roc_auc_score(is_member, by_text.scores) > 0.95 and by_text.p_value <= 0.025
    assert by_cluster.p_value > 0.025


@pytest.mark.slow
def test_equal_kinds_are_called_different_at_the_nominal_rate():
    # At a rate of 2.5 %, more than 8 % in 150 data sets have a probability of 1 in 10,000.
    for is_clustered in (False, True):
        assert false_alarm_rate(data_sets=150, documents=60, is_clustered=is_clustered) <= 0.08
