"""From paths of distinct prefixes to the rows of an answer, for each of the prefixes that were asked for."""

import numpy as np

from harness.core.arrays import Ints, token_dtype
from harness.engine.decoding import Paths
from harness.engine.drawn import Drawn, Found


def drawn_rows(paths: Paths, distinct_of_prefix: Ints, repeats: int, vocabulary: int) -> Drawn:
    """Paths of distinct prefixes, each as good as `repeats`, for each of the prefixes that were asked for."""
    owned = np.column_stack([paths.prefix, paths.suffixes])  # [paths, 1 + length]
    rows, path, same = np.unique(owned, axis=0, return_index=True, return_inverse=True)
    count = np.bincount(same.reshape(-1), paths.count).astype(np.int64) * repeats
    blocks = _blocks(rows[:, 0], len(paths.last_prefix_logprob), distinct_of_prefix)
    order = np.concatenate(blocks)
    path = path[order]
    return Drawn(
        row=np.repeat(np.arange(len(blocks)), [len(block) for block in blocks]),
        suffixes=paths.suffixes[path].astype(token_dtype(vocabulary)),
        count=count[order],
        token_logprobs=paths.token_logprobs[path],
        policy_logprob=paths.policy_logprob[path],
        last_prefix_logprob=paths.last_prefix_logprob[distinct_of_prefix],
    )


def found_rows(paths: Paths, distinct_of_prefix: Ints, vocabulary: int) -> Found:
    """Paths of distinct prefixes for each of the prefixes that were asked for, the likeliest first."""
    ordered = np.lexsort((*paths.suffixes.T[::-1], -paths.policy_logprob, paths.prefix))
    blocks = _blocks(paths.prefix[ordered], len(paths.last_prefix_logprob), distinct_of_prefix)
    path = ordered[np.concatenate(blocks)]
    return Found(
        row=np.repeat(np.arange(len(blocks)), [len(block) for block in blocks]),
        suffixes=paths.suffixes[path].astype(token_dtype(vocabulary)),
        token_logprobs=paths.token_logprobs[path],
        policy_logprob=paths.policy_logprob[path],
        last_prefix_logprob=paths.last_prefix_logprob[distinct_of_prefix],
        certificate=paths.dropped[distinct_of_prefix],
    )


def _blocks(owner: Ints, owners: int, wanted: Ints) -> list[Ints]:
    """The rows of each of the `wanted` owners, where `owner` [rows] is sorted."""
    starts = np.searchsorted(owner, np.arange(owners + 1))
    return [np.arange(starts[one], starts[one + 1]) for one in wanted]


def nothing_drawn(length: int, vocabulary: int) -> Drawn:
    """No rows of no prefixes."""
    return Drawn(
        row=np.empty(0, np.int64),
        suffixes=np.empty((0, length), token_dtype(vocabulary)),
        count=np.empty(0, np.int64),
        token_logprobs=np.empty((0, length)),
        policy_logprob=np.empty(0),
        last_prefix_logprob=np.empty(0),
    )


def nothing_found(length: int, vocabulary: int) -> Found:
    """No rows of no prefixes."""
    none = nothing_drawn(length, vocabulary)
    return Found(none.row, none.suffixes, none.token_logprobs, none.policy_logprob, np.empty(0), np.empty(0))
