"""A classifier that sees only the words: it measures whether members and non-members are of different kinds.

A membership score is evidence only if such a classifier, which knows no model, cannot tell the two apart (Meeus et al.
2024; Das et al. 2025).
"""

from collections.abc import Sequence

import numpy as np

from harness.core.arrays import Floats

_FOLDS = 5
_FEWEST_DOCUMENTS = 2
_MOST_WORDS = 50_000
_WORD = r"\S+"


def out_of_fold_scores(texts: Sequence[str], is_member: Floats, *, seed: int) -> Floats:
    """Return the log-odds of membership of each text by a classifier that was trained on other texts, [n].

    Logistic regression on which words of at least two texts occur, with five folds. NaN if a side has fewer texts than
    folds.
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold
    from sklearn.pipeline import make_pipeline

    found = np.full(len(texts), np.nan)
    if min(int((is_member == side).sum()) for side in (0, 1)) < _FOLDS:
        return found
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed % 2**32)
    for train, test in folds.split(texts, is_member):
        words = CountVectorizer(binary=True, min_df=_FEWEST_DOCUMENTS, max_features=_MOST_WORDS, token_pattern=_WORD)
        classifier = make_pipeline(words, LogisticRegression(max_iter=1000))
        try:
            classifier.fit([texts[place] for place in train], is_member[train])
        except ValueError:  # no word occurs in two texts
            found[test] = 0.0
            continue
        found[test] = classifier.decision_function([texts[place] for place in test])
    return found
