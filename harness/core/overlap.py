"""Overlap: which answers of a round the training rows reveal without a model, and how examples cluster."""

from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Bools, Ints, Tokens
from harness.core.errors import HarnessError
from harness.core.examples import joint_clusters, load_answers, load_clusters, load_prefixes, load_training
from harness.core.rounds import Round
from harness.core.stitch import stitched


@dataclass(frozen=True)
class Overlap:
    """The information in training rows about each attacked example; every array is [examples].

    has_known_prefix: its prefix is the prefix of a training row. known_prefix_is_right: the first such row has its
    suffix. is_stitched: stitching (harness.core.stitch) completes a suffix. is_reachable: this suffix is the answer.
    clusters: the cluster of each example. is_clustered: this cluster has a training row. Fields that need answers are
    None for a blind round, and those about clusters if the round has none.
    """

    has_known_prefix: Bools
    known_prefix_is_right: Bools | None
    is_stitched: Bools
    is_reachable: Bools | None
    clusters: Ints | None
    is_clustered: Bools | None
    training_rows: int


def overlap(round_: Round) -> Overlap:
    """Return the overlap of the examples of a round with its training rows.

    Raises HarnessError if the round has no training rows, or a needed file is absent or does not fit.
    """
    training = load_training(round_)
    if training is None or len(training) == 0:
        raise HarnessError(f"round {round_.name} has no training rows to overlap with.")
    prefixes, answers = load_prefixes(round_), load_answers(round_)
    walk = stitched(prefixes, training.whole, round_.suffix_length)
    source = exact_rows(prefixes, training.prefixes)
    known = source >= 0
    clusters = is_clustered = None
    if round_.clusters != "none" and round_.fold is not None:
        # Folds are cut by cluster, so attacked examples share no cluster with training rows.
        clusters, is_clustered = load_clusters(round_), np.zeros(len(prefixes), np.bool_)
    elif round_.clusters != "none":
        clusters, trained = joint_clusters(round_)
        is_clustered = np.isin(clusters, trained)
    return Overlap(
        has_known_prefix=known,
        known_prefix_is_right=None if answers is None else known & _equal_rows(training.suffixes[source], answers),
        is_stitched=walk.is_complete,
        is_reachable=None if answers is None else walk.is_complete & _equal_rows(walk.suffixes, answers),
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


def _equal_rows(left: Tokens, right: Tokens) -> Bools:
    equal: Bools = (left == right).all(axis=1)
    return equal
