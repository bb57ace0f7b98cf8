"""The comparison of `two_step` with the baseline on folds."""

import numpy as np
import pytest

from attacks.two_step import Candidates
from tests.bench import folds

ROWS = 30


class _Oracle:
    """A classifier that remembers the examples it was trained on, and knows the answers."""

    trained: list[set[int]] = []  # noqa: RUF012 - emptied by the test

    def __init__(self, features: np.ndarray, is_right: np.ndarray, fold: np.ndarray) -> None:
        assert len(features) == len(is_right) == len(fold)
        self.trained.append(set(features[:, 0].astype(int).tolist()))

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        return features[:, 1]


def test_each_fold_is_attacked_by_a_classifier_that_has_not_seen_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folds, "Classifier", _Oracle)
    _Oracle.trained.clear()
    # Every row is a cluster of its own, so the folds have 10 examples and a cap of 1.
    whole = np.arange(ROWS * 200).reshape(ROWS, 200)
    answers = whole[:, 150:]
    ids = np.repeat(np.arange(ROWS), 2)
    # The second candidate of an even example is right, and no candidate of an odd one.
    suffixes = np.where(((ids % 2 == 0) & (np.arange(len(ids)) % 2 == 1))[:, None], answers[ids], -1)
    is_right = (suffixes == answers[ids]).all(axis=1)
    found = Candidates(ids, suffixes, np.zeros(len(ids)), np.column_stack([ids, is_right]))
    # The only draw of every fourth example is right. It has the best score or, for one half of them, the worst.
    drawn_right = np.arange(ROWS) % 4 == 0
    score = np.where(drawn_right, np.where(np.arange(ROWS) % 8 == 0, 1.0, -1.0), 0.0)
    drawn = Candidates(np.arange(ROWS), np.where(drawn_right[:, None], answers, -1), score, np.zeros((ROWS, 0)))
    scores = folds.scores_by_fold(whole, found, drawn)
    assert [fold.examples for fold in scores] == [10, 10, 10]
    for trained in _Oracle.trained:
        assert len(trained) == 20
    assert sorted(row for trained in _Oracle.trained for row in set(range(ROWS)) - trained) == list(range(ROWS))
    for number, trained in enumerate(_Oracle.trained):
        attacked = sorted(set(range(ROWS)) - trained)
        fold = scores[number]
        even, fourth, eighth = (sum(row % divisor == 0 for row in attacked) for divisor in (2, 4, 8))
        assert fold.two_step == fold.two_step_exact == fold.two_step_any == even / 10
        assert fold.baseline_exact == fold.baseline_any == fourth / 10
        # The first wrong draw ends the walk.
        assert fold.baseline == eighth / 10 and 0 < eighth < fourth < even
