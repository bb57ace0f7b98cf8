"""The files of a round: attacked examples, answers, clusters, training examples, and what the training rows reveal."""

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from harness.core.arrays import Bools, Ints, Tokens, token_rows
from harness.core.errors import HarnessError
from harness.core.files import file_version
from harness.core.rounds import Round
from harness.core.scoring import scaled_cap
from harness.core.windows import cluster_ids, stitched


@dataclass(frozen=True)
class Training:
    """Training examples of a round, n rows.

    prefixes: [n, prefix length].
    suffixes: [n, suffix length].
    preprefixes: [n, any] or None.
    clusters: [n] int64, equal for training rows that share a 32-token window.
    """

    prefixes: Tokens
    suffixes: Tokens
    preprefixes: Tokens | None
    clusters: Ints

    def __len__(self) -> int:
        return len(self.prefixes)

    @property
    def whole(self) -> Tokens:
        """The tokens of each example, [n, any]: the known tokens before its prefix, its prefix and its suffix."""
        parts = (self.preprefixes, self.prefixes, self.suffixes)
        return np.concatenate([part for part in parts if part is not None], axis=1)

    def part(self, rows: Ints) -> "Training":
        """Return the training examples at `rows`."""
        preprefixes = None if self.preprefixes is None else self.preprefixes[rows]
        return Training(self.prefixes[rows], self.suffixes[rows], preprefixes, self.clusters[rows])

    def drawn(self, count: int, seed: int) -> "Training":
        """Return `count` random training examples in their original order, or all if `count` is 0 or too large."""
        order = np.random.default_rng(seed).permutation(len(self))[: count or None]
        return self.part(np.sort(order))


@dataclass(frozen=True)
class Schedule:
    """The learning rate: linear up to `rate` in `warmup` steps, then linear down to 0 at `steps`.

    It is constant after the warm-up if `steps` is 0.
    """

    rate: float
    warmup: int = 0
    steps: int = 0

    def at(self, step: int) -> float:
        """Return the rate of step number `step`, counted from 0."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        if not self.steps:
            return self.rate
        return self.rate * max(0.0, (self.steps - step) / max(1, self.steps - self.warmup))


def load_prefixes(round_: Round) -> Tokens:
    """Return the attacked prefixes, [examples, prefix length]. The id of an example is its row."""
    if round_.fold is not None:
        return _fold(round_)[0].prefixes
    return token_rows(
        round_.prefix_file, length=round_.prefix_length, vocabulary=round_.vocabulary, rows=round_.answer_rows
    )


def error_cap_of(round_: Round) -> int:
    """Return the cap on errors. The cap of a fold is in proportion to its number of examples."""
    if round_.fold is None:
        return round_.error_cap
    whole = round_.model_copy(update={"fold": None})
    if not whole.prefix_file.exists():
        return round_.error_cap
    return scaled_cap(round_.error_cap, len(load_prefixes(round_)), len(load_prefixes(whole)))


def load_answers(round_: Round) -> Tokens | None:
    """Return the suffixes of the attacked examples, [examples, suffix length], or None for a blind round."""
    if round_.fold is not None:
        return _fold(round_)[0].suffixes
    if round_.answer_file is None or round_.is_blind:
        return None
    return token_rows(
        round_.answer_file, length=round_.suffix_length, vocabulary=round_.vocabulary, rows=round_.answer_rows
    )


def load_training(round_: Round) -> Training | None:
    """Return the training examples of the round, or None if it names none.

    Raises HarnessError, naming the file, if one is absent or does not fit.
    """
    return _fold(round_)[1] if round_.fold is not None else _whole_training(round_)


def require_fitting_files(round_: Round) -> None:
    """Raise HarnessError, naming the file, if a file for training or clusters is absent or does not fit.

    Files of pre-prefixes may be absent: clusters are then computed without them.
    """
    _training_rows(round_)
    if round_.fold is None:
        _preprefixes(round_, load_prefixes(round_))


def load_clusters(round_: Round, answers: Tokens | None = None) -> Ints | None:
    """Return the cluster of each attacked example, [examples] int64, computed over attacked and training rows together.

    `answers` [examples, suffix length] replace those of a blind round. Returns None if the round has no clusters. This
    reads the answers, so it serves scoring and never an attack.
    """
    if round_.clusters == "none":
        return None
    if round_.fold is not None:
        return _fold(round_)[0].clusters
    return joint_clusters(round_, answers)[0]


def joint_clusters(round_: Round, answers: Tokens | None = None) -> tuple[Ints, Ints]:
    """Return the clusters of the attacked examples and of the training rows, numbered together, both [rows] int64.

    `round_` is not a fold; `answers` are as in `load_clusters`.
    """
    prefixes = load_prefixes(round_)
    parts = (_preprefixes(round_, prefixes), prefixes, load_answers(round_) if answers is None else answers)
    attacked = np.concatenate([part for part in parts if part is not None], axis=1)
    training = _training_rows(round_)
    clusters = cluster_ids([attacked] if training is None else [attacked, training.whole])
    return clusters[: len(attacked)], clusters[len(attacked) :]


def _preprefixes(round_: Round, prefixes: Tokens) -> Tokens | None:
    """Return the tokens before the attacked prefixes, or None if they are unknown."""
    file = round_.preprefix_file
    if file is None or not file.exists():
        return None
    before = token_rows(file, length=None, vocabulary=round_.vocabulary, rows=round_.answer_rows)
    _require_same_rows(file, before, prefixes, "attacked prefixes")
    return before


def _require_same_rows(file: Path, rows: Tokens, prefixes: Tokens, noun: str) -> None:
    if len(rows) != len(prefixes):
        raise HarnessError(f"{file}: {len(rows):,} rows for {len(prefixes):,} {noun}. Store one row for each.")


def _whole_training(round_: Round) -> Training | None:
    training = _training_rows(round_)
    if training is None or round_.clusters == "none":
        return training
    return replace(training, clusters=cluster_ids([training.whole]))


def _training_rows(round_: Round) -> Training | None:
    """Return the training examples, each in a cluster of its own: to compute the clusters takes longer."""
    if round_.train_prefix_file is None or round_.train_suffix_file is None:
        return None
    rows, vocabulary = round_.train_rows, round_.vocabulary
    prefixes = token_rows(round_.train_prefix_file, length=round_.prefix_length, vocabulary=vocabulary, rows=rows)
    suffixes = token_rows(round_.train_suffix_file, length=round_.suffix_length, vocabulary=vocabulary, rows=rows)
    _require_same_rows(round_.train_suffix_file, suffixes, prefixes, "training prefixes")
    preprefixes, file = None, round_.train_preprefix_file
    if file is not None and file.exists():
        preprefixes = token_rows(file, length=None, vocabulary=vocabulary, rows=rows)
        _require_same_rows(file, preprefixes, prefixes, "training prefixes")
    return Training(prefixes, suffixes, preprefixes, np.arange(len(prefixes)))


def _fold(round_: Round) -> tuple[Training, Training]:
    """Return the training examples in the fold of the round, and the others."""
    versions = tuple(file_version(file) if file.exists() else None for file in round_.files)
    return _fold_as_read(round_.model_dump_json(), versions)


@lru_cache(maxsize=4)  # computing the clusters of the training rows takes seconds
def _fold_as_read(fields: str, _versions: tuple[object, ...]) -> tuple[Training, Training]:
    """Return both parts of the training examples of the round with these fields, whose files have these versions."""
    round_ = Round.model_validate_json(fields)
    training, fold = _whole_training(round_), round_.fold
    assert training is not None and fold is not None
    fold_of_row = folds_by_cluster(training.clusters, fold.folds)
    return (
        training.part(np.flatnonzero(fold_of_row == fold.index)),
        training.part(np.flatnonzero(fold_of_row != fold.index)),
    )


def folds_by_cluster(clusters: Ints, folds: int) -> Ints:
    """Return a fold in 0..folds-1 for each row, [rows] int64. No cluster is in two folds; sizes are nearly equal."""
    names, cluster_of_row, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    fold_of_cluster = np.empty(len(names), np.int64)
    filled = np.zeros(folds, np.int64)
    for cluster in np.argsort(-sizes, kind="stable"):
        fold_of_cluster[cluster] = fold = int(np.argmin(filled))
        filled[fold] += sizes[cluster]
    return fold_of_cluster[cluster_of_row]


@dataclass(frozen=True)
class Overlap:
    """The information in training rows about each attacked example; every array is [examples].

    has_known_prefix: its prefix is the prefix of a training row.
    known_prefix_is_right: the first such row has its suffix.
    is_stitched: stitching (harness.core.windows) completes a suffix.
    is_in_train: this suffix is the answer.
    clusters: the cluster of each example.
    is_clustered: this cluster has a training row. Fields that need answers are None for a blind round, and those about
    clusters if the round has none.
    """

    has_known_prefix: Bools
    known_prefix_is_right: Bools | None
    is_stitched: Bools
    is_in_train: Bools | None
    clusters: Ints | None
    is_clustered: Bools | None
    training_rows: int


def overlap(round_: Round, answers: Tokens | None = None) -> Overlap:
    """Return the overlap of the examples of a round with its training rows.

    answers: [examples, suffix length], for a blind round.
    Raises HarnessError if the round has no training rows, or a needed file is absent or does not fit.
    """
    training = load_training(round_)
    if training is None or len(training) == 0:
        raise HarnessError(f"round {round_.name} has no training rows to overlap with. Choose another round.")
    prefixes, answers = load_prefixes(round_), load_answers(round_) if answers is None else answers
    walk = stitched(prefixes, training.whole, round_.suffix_length)
    source = exact_rows(prefixes, training.prefixes)
    has_source = source >= 0
    clusters = is_clustered = None
    if round_.clusters != "none" and round_.fold is not None:
        # Folds are cut by cluster, so attacked examples share no cluster with training rows.
        clusters, is_clustered = load_clusters(round_), np.zeros(len(prefixes), np.bool_)
    elif round_.clusters != "none":
        clusters, trained = joint_clusters(round_)
        is_clustered = np.isin(clusters, trained)
    return Overlap(
        has_known_prefix=has_source,
        known_prefix_is_right=None if answers is None else has_source & _equal_rows(training.suffixes[source], answers),
        is_stitched=walk.is_complete,
        is_in_train=None if answers is None else walk.is_complete & _equal_rows(walk.suffixes, answers),
        clusters=clusters,
        is_clustered=is_clustered,
        training_rows=len(training),
    )


def exact_rows(sought: Tokens, rows: Tokens) -> Ints:
    """Return the index of the first of `rows` that equals each row of `sought`, [sought] int64, or -1."""
    first: dict[bytes, int] = {}
    for index, row in enumerate(rows):
        first.setdefault(row.tobytes(), index)
    return np.array([first.get(row.tobytes(), -1) for row in sought.astype(rows.dtype)], np.int64)


def rows_with(suffix: Tokens, round_: Round) -> int | None:
    """Return how many training rows of the round contain `suffix` [suffix length]; None if the round names none.

    Raises HarnessError, naming the file, if one is absent or does not fit.
    """
    training = _training_rows(round_) if round_.fold is None else _fold(round_)[1]
    if training is None:
        return None
    rows = training.whole
    row, start = np.nonzero(rows[:, : rows.shape[1] - len(suffix) + 1] == suffix[0])
    for place, token in enumerate(suffix):
        is_equal = rows[row, start + place] == token
        row, start = row[is_equal], start[is_equal]
    return len(np.unique(row))


def _equal_rows(left: Tokens, right: Tokens) -> Bools:
    equal: Bools = (left == right).all(axis=1)
    return equal
