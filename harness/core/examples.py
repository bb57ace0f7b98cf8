"""Load the files of a round: the attacked examples, their answers and clusters, and the training examples."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from harness.core.arrays import Ints, Tokens, token_rows
from harness.core.clusters import cluster_ids
from harness.core.errors import HarnessError
from harness.core.rounds import Round
from harness.core.scoring import scaled_cap
from harness.core.training import Training


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
        raise HarnessError(f"{file} has {len(rows):,} rows, but there are {len(prefixes):,} {noun}.")


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
    return _fold_as_read(_RoundAsRead(round_))


class _RoundAsRead:
    """A round that equals another one if the fields of both and the state of their files are the same."""

    def __init__(self, round_: Round) -> None:
        self.round = round_
        states = [file.stat() if file.exists() else None for file in round_.files]
        self._key = (round_.model_dump_json(), *(state and (state.st_mtime_ns, state.st_size) for state in states))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _RoundAsRead) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@lru_cache(maxsize=4)  # computing the clusters of the training rows takes seconds
def _fold_as_read(read: _RoundAsRead) -> tuple[Training, Training]:
    training, fold = _whole_training(read.round), read.round.fold
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
