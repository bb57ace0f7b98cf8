"""Candidates from a search, ordered by a trained classifier's probability that they are correct.

Step one searches the likeliest suffixes of every prefix, for attacked and training examples alike. Step two trains a
classifier on the training candidates, for which the answers are known, and orders all candidates by its calibrated
probability. A second guess for an example is placed by its own probability, because a wrong row costs one error for any
example. Without training examples the likelihood under the target decides.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness import (
    Attack,
    Bools,
    Context,
    Field,
    Floats,
    Guesses,
    HarnessError,
    Ints,
    Params,
    Tokens,
    Training,
    compressed_bytes,
    folds_by_cluster,
    place_among_equals,
)

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingClassifier

    from harness import Target


TIE = 1e-9
SEGMENTS = 5  # The mean log-probability of a suffix is a feature for the whole and for each segment.
SURPRISES = (0.7, 2.0)  # In nats: tokens with a probability below 1/2 and below 1/8.


class TwoStepParams(Params):
    width: int = Field(8, ge=1, le=256, description="Beam width, the number of candidates per prefix.")
    examples: int = Field(0, ge=0, description="Training examples used, drawn at random; 0 for all.")
    folds: int = Field(5, ge=2, le=50, description="Folds for the calibration, split by cluster.")


class TwoStep(Attack[TwoStepParams]):
    name = "two_step"
    reference = (
        "Al-Kaswan et al., Targeted Attack on GPT-Neo for the SATML Language Model Data Extraction Challenge, 2023"
    )
    guesses_per_example = 0
    requires = ("scikit-learn",)

    def run(self, context: Context) -> Iterator[Guesses]:
        train = self.training(context)
        context.announce("guess")
        if train is not None:
            context.announce("train", over=train)
        for batch in context.batches():
            candidates = find_candidates(context.target, batch.ids, batch.prefixes, self.params.width)
            context.keep(f"attacked {batch.ids[0]}", candidates.as_array())
            # Until the classifier is trained, the likelihood orders the candidates.
            yield Guesses(candidates.ids, candidates.suffixes, candidates.likelihood)
        for batch in context.batches(stage="train", over=train, in_order=False) if train is not None else ():
            candidates = find_candidates(context.target, batch.ids, batch.prefixes, self.params.width)
            context.keep(f"trained {batch.ids[0]}", candidates.as_array())
        classifier = None if train is None else self.classifier(context, train)
        if classifier is None:
            return
        for candidates in kept_candidates(context, "attacked", len(context.ids)):
            # Trees give many candidates equal odds. The likelihood orders those.
            probability = classifier.probabilities(candidates.features)
            yield Guesses(candidates.ids, candidates.suffixes, probability + TIE * candidates.likelihood)

    def training(self, context: Context) -> Training | None:
        """Return the training examples, None if the round has none."""
        try:
            return context.train.drawn(self.params.examples, context.seed)
        except HarnessError:
            print("two_step: the round has no training examples, so the likelihood orders the candidates.")
            return None

    def classifier(self, context: Context, train: Training) -> "Classifier | None":
        """Return a classifier trained on the training candidates, or None if it cannot be trained.

        This is so if there are no training candidates, or if those outside some fold are all right or all wrong.
        """
        parts = list(kept_candidates(context, "trained", len(train)))
        if not parts:
            # The run was asked to finish before the second step.
            return None
        ids = np.concatenate([part.ids for part in parts])
        is_right = (np.concatenate([part.suffixes for part in parts]) == train.suffixes[ids]).all(axis=1)
        fold = folds_by_cluster(train.clusters, self.params.folds)[ids]
        if any(len(np.unique(is_right[fold != number])) < 2 for number in np.unique(fold)):
            print("two_step: too few training candidates are right, or wrong. The likelihood orders the candidates.")
            return None
        return Classifier(np.concatenate([part.features for part in parts]), is_right, fold)


@dataclass(frozen=True)
class Candidates:
    """Candidates of some examples.

    ids: [rows].
    suffixes: [rows, length].
    likelihood: [rows].
    features: [rows, features].
    """

    ids: Ints
    suffixes: Tokens
    likelihood: Floats
    features: Floats

    def as_array(self) -> Floats:
        """Return one array that `context.keep` can store."""
        width = np.full(len(self.ids), self.suffixes.shape[1])
        return np.column_stack([width, self.ids, self.likelihood, self.suffixes, self.features]).astype(np.float64)

    @classmethod
    def of_array(cls, table: Floats) -> "Candidates":
        """Return the candidates of an array from `as_array`."""
        end = 3 + int(table[0, 0])
        return cls(table[:, 1].astype(np.int64), table[:, 3:end].astype(np.int64), table[:, 2], table[:, end:])


def find_candidates(target: "Target", ids: Ints, prefixes: Tokens, width: int) -> Candidates:
    """Return the likeliest suffixes of the examples `ids` [n] with `prefixes` [n, prefix length], with features."""
    likely = target.search(prefixes, width)
    prefix_logprobs = target.score(prefixes[:, :1], prefixes[:, 1:]).token_logprobs
    features = candidate_features(prefixes, prefix_logprobs, likely.row, likely.suffixes, likely.token_logprobs)
    return Candidates(ids[likely.row], likely.suffixes, likely.token_logprobs.sum(axis=1), features)


def kept_candidates(context: Context, name: str, examples: int) -> Iterator[Candidates]:
    """Yield the candidates of all batches kept under `name`, in the order of their examples."""
    for first in range(examples):
        if (table := context.kept(f"{name} {first}")) is not None and len(table):
            yield Candidates.of_array(table)


def candidate_features(
    prefixes: Tokens, prefix_logprobs: Floats, row: Ints, suffixes: Tokens, logprobs: Floats
) -> Floats:
    """Return the features of each candidate, [rows, features].

    prefixes: [n, prefix length].
    prefix_logprobs: [n, prefix length - 1], the log-probabilities of their tokens, which are high if the target
    memorized the example.
    row: [rows], the prefix of each candidate.
    suffixes and logprobs: [rows, length], ordered by prefix and likelihood.
    """
    total = logprobs.sum(axis=1)
    hardest = np.sort(logprobs, axis=1)[:, :3]
    place = place_among_equals(row)
    columns: list[Any] = [
        total,
        logprobs.std(axis=1),
        logprobs[:, 0],
        *hardest.T,
        *((logprobs < -surprise).sum(axis=1) for surprise in SURPRISES),
        *(part.mean(axis=1) for part in np.array_split(logprobs, SEGMENTS, axis=1)),
        place,
        *compare_with_others(row, total, place),
        # The likelihood of the prefix: whole, in halves, median, spread and minimum.
        *(part.mean(axis=1)[row] for part in (prefix_logprobs, *np.array_split(prefix_logprobs, 2, axis=1))),
        np.median(prefix_logprobs, axis=1)[row],
        prefix_logprobs.std(axis=1)[row],
        prefix_logprobs.min(axis=1)[row],
        # The complexity of the text: repetitive text is likely without being memorized.
        compressed_bytes(suffixes),
        compressed_bytes(np.concatenate([prefixes[row], suffixes], axis=1)),
        [len(set(tokens)) for tokens in suffixes.tolist()],
        np.array([len(set(tokens)) for tokens in prefixes.tolist()])[row],
        [len(set(new) - set(old)) for new, old in zip(suffixes.tolist(), prefixes[row].tolist(), strict=True)],
    ]
    return np.stack([np.asarray(column, np.float64) for column in columns], axis=1)


def compare_with_others(row: Ints, total: Floats, place: Ints) -> list[Floats]:
    """Compare each candidate with the others of its prefix, three arrays [rows] in nats.

    They are its share of their total probability, that total, and its lead over the second or distance to the first.
    """
    table = np.full((int(row.max(initial=-1)) + 1, int(place.max(initial=0)) + 1), -np.inf)
    table[row, place] = total
    together = np.logaddexp.reduce(table, axis=1)
    second = table[:, 1] if table.shape[1] > 1 else table[:, 0]
    rival = np.where(place == 0, np.where(np.isfinite(second), second, table[:, 0])[row], table[row, 0])
    return [total - together[row], together[row], total - rival]


class Classifier:
    """Boosted trees, whose log-odds are calibrated by a logistic regression (Platt 1999)."""

    def __init__(self, features: Floats, is_right: Bools, fold: Ints) -> None:
        """Train on features [rows, features], truth [rows] and the fold of each row, [rows].

        The calibration uses log-odds of trees that were trained without the row's fold.
        """
        from sklearn.linear_model import LogisticRegression

        odds = np.empty(len(fold))
        for number in np.unique(fold):
            held_out = fold == number
            odds[held_out] = train_trees(features[~held_out], is_right[~held_out]).decision_function(features[held_out])
        self._calibration = LogisticRegression().fit(odds[:, None], is_right)
        self._trees = train_trees(features, is_right)

    def probabilities(self, features: Floats) -> Floats:
        """Return the probability that each candidate is right, [rows]."""
        odds = self._trees.decision_function(features)
        probabilities: Floats = self._calibration.predict_proba(odds[:, None])[:, 1]
        return probabilities


def train_trees(features: Floats, is_right: Bools) -> "HistGradientBoostingClassifier":
    """Return trees trained on features [rows, features] and truth [rows]. The result is deterministic."""
    from sklearn.ensemble import HistGradientBoostingClassifier  # slow, and not needed to show the parameters

    trees = HistGradientBoostingClassifier(
        max_iter=150,
        learning_rate=0.05,
        max_leaf_nodes=8,
        min_samples_leaf=60,
        l2_regularization=5.0,
        # Early stopping would hold out rows that share prefixes and clusters with the rest.
        early_stopping=False,
        random_state=0,
    )
    return trees.fit(features, is_right)
