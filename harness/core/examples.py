"""What a round's files hold: the attacked examples, their answers, and the training examples."""

import numpy as np

from harness.core.arrays import Ints, Tokens, token_rows
from harness.core.clusters import cluster_ids
from harness.core.errors import HarnessError
from harness.core.rounds import Round
from harness.core.training import Training


def load_prefixes(round_: Round) -> Tokens:
    """The attacked prefixes, [examples, prefix length]; an example's id is its row here."""
    if round_.fold is not None:
        return _fold(round_)[0].prefixes
    return token_rows(
        round_.prefix_file, length=round_.prefix_length, vocabulary=round_.vocabulary, rows=round_.answer_rows
    )


def error_cap_of(round_: Round) -> int:
    """The cap on errors; a fold's is in proportion to its examples among its round's own, and at least 1."""
    if round_.fold is None:
        return round_.error_cap
    whole = round_.model_copy(update={"fold": None})
    if not whole.prefix_file.exists():
        return round_.error_cap
    return max(1, round(round_.error_cap * len(load_prefixes(round_)) / len(load_prefixes(whole))))


def load_answers(round_: Round) -> Tokens | None:
    """The attacked examples' suffixes, [examples, suffix length]; None for a blind round."""
    if round_.fold is not None:
        return _fold(round_)[0].suffixes
    if round_.answer_file is None or round_.is_blind:
        return None
    return token_rows(
        round_.answer_file, length=round_.suffix_length, vocabulary=round_.vocabulary, rows=round_.answer_rows
    )


def load_training(round_: Round) -> Training | None:
    """The round's training examples; None when it names none.

    Raises HarnessError, naming the file, when one that it names is absent or does not fit.
    """
    return _fold(round_)[1] if round_.fold is not None else _whole_training(round_)


def load_clusters(round_: Round, answers: Tokens | None = None) -> Ints | None:
    """The cluster of each attacked example, [examples] int64, taken over attacked and training rows together.

    `answers` [examples, suffix length] stand in for those of a blind round. None when the round has no clusters. Reads
    the answers: for scoring, never for an attack.
    """
    if round_.clusters == "none":
        return None
    if round_.fold is not None:
        return _fold(round_)[0].clusters
    prefixes = load_prefixes(round_)
    if answers is None:
        answers = load_answers(round_)
    before = None
    if round_.preprefix_file is not None and round_.preprefix_file.exists():
        before = token_rows(round_.preprefix_file, length=None, vocabulary=round_.vocabulary, rows=round_.answer_rows)
    attacked = _whole_rows(before, prefixes, answers)
    training = _whole_training(round_)
    if training is None:
        return cluster_ids([attacked])
    rows = _whole_rows(training.preprefixes, training.prefixes, training.suffixes)
    return cluster_ids([attacked, rows])[: len(attacked)]


def _whole_training(round_: Round) -> Training | None:
    if round_.train_prefix_file is None or round_.train_suffix_file is None:
        return None
    rows, vocabulary = round_.train_rows, round_.vocabulary
    prefixes = token_rows(round_.train_prefix_file, length=round_.prefix_length, vocabulary=vocabulary, rows=rows)
    suffixes = token_rows(round_.train_suffix_file, length=round_.suffix_length, vocabulary=vocabulary, rows=rows)
    if len(prefixes) != len(suffixes):
        raise HarnessError(
            f"{round_.train_suffix_file}: {len(suffixes)} rows beside {len(prefixes)} training prefixes."
        )
    preprefixes = None
    if round_.train_preprefix_file is not None and round_.train_preprefix_file.exists():
        preprefixes = token_rows(round_.train_preprefix_file, length=None, vocabulary=vocabulary, rows=rows)
    if round_.clusters == "none":
        clusters = np.arange(len(prefixes))
    else:
        clusters = cluster_ids([_whole_rows(preprefixes, prefixes, suffixes)])
    return Training(prefixes, suffixes, preprefixes, clusters)


def _whole_rows(*parts: Tokens | None) -> Tokens:
    return np.concatenate([part for part in parts if part is not None], axis=1)


def _fold(round_: Round) -> tuple[Training, Training]:
    """The rows of the round's fold, and the others."""
    training, fold = _whole_training(round_), round_.fold
    assert training is not None and fold is not None
    fold_of_row = folds_by_cluster(training.clusters, fold.folds)
    return (
        training.part(np.flatnonzero(fold_of_row == fold.index)),
        training.part(np.flatnonzero(fold_of_row != fold.index)),
    )


def folds_by_cluster(clusters: Ints, folds: int) -> Ints:
    """A fold in 0..folds-1 for each row, [rows] int64, no cluster in two folds, their sizes as equal as that allows."""
    names, cluster_of_row, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    fold_of_cluster = np.empty(len(names), np.int64)
    filled = np.zeros(folds, np.int64)
    for cluster in np.argsort(-sizes, kind="stable"):
        fold_of_cluster[cluster] = fold = int(np.argmin(filled))
        filled[fold] += sizes[cluster]
    return fold_of_cluster[cluster_of_row]
