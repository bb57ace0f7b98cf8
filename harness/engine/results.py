"""The results of a target's methods, as NumPy arrays on the host."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.core.arrays import Floats, Ints, Tokens, token_dtype
from harness.engine.tree import Paths


@dataclass(frozen=True)
class Samples:
    """Sampled suffixes: one row for each distinct suffix of each prefix, ordered by prefix and then by suffix.

    row: [rows] int64, the index of the prefix.
    suffixes: [rows, length] uint16 or uint32.
    count: [rows] int64, how many trials drew the suffix; the counts of a prefix sum to `trials`.
    first: [rows] int64, the first trial that drew the suffix, counted from 0.
    token_logprobs: [rows, length] float64, natural logarithms under the unmodified model (temperature 1, no filter).
    policy_logprob: [rows] float64, the suffix's log-probability under the sampling policy.
    last_prefix_logprob: [prefixes] float64, the model's log-probability of the last prefix token given the earlier ones
    (NaN for prefixes of one token).
    """

    row: Ints
    suffixes: Tokens
    count: Ints
    first: Ints
    token_logprobs: Floats
    policy_logprob: Floats
    last_prefix_logprob: Floats

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True)
class SearchResult:
    """Likely distinct suffixes, ordered by prefix and then by descending probability under the policy.

    All fields are defined as in `Samples`.
    """

    row: Ints
    suffixes: Tokens
    token_logprobs: Floats
    policy_logprob: Floats
    last_prefix_logprob: Floats

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True)
class Scores:
    """Scores of given suffixes under the unmodified model.

    token_logprobs: [rows, length] float64, in nats.
    margin: [rows, length] float64, the log-probability of the most likely token minus that of the second.
    rank: [rows, length] int64, the number of tokens that are more likely (0 is the most likely token; ties are broken
    by id).
    last_prefix_logprob: [rows] float64, as in `Samples`.
    """

    token_logprobs: Floats
    margin: Floats
    rank: Ints
    last_prefix_logprob: Floats

    def __len__(self) -> int:
        return len(self.token_logprobs)


def samples_from_paths(paths: Paths, distinct_of_prefix: Ints, repeats: int, vocabulary: int) -> Samples:
    """Return the samples of each requested prefix, from the paths of the distinct prefixes.

    distinct_of_prefix: [prefixes] int64, the distinct prefix that each requested prefix equals.
    repeats: how many trials each draw stands for.
    """
    owned = np.column_stack([paths.prefix, paths.suffixes])  # [paths, 1 + length]
    rows, path, same = np.unique(owned, axis=0, return_index=True, return_inverse=True)
    count = np.bincount(same.reshape(-1), paths.count).astype(np.int64) * repeats
    first = np.full(len(rows), np.iinfo(np.int64).max)
    np.minimum.at(first, same.reshape(-1), paths.first)
    columns, order = _columns(paths, rows[:, 0], path, distinct_of_prefix, vocabulary)
    return Samples(**columns, count=count[order], first=first[order])


def search_result_from_paths(paths: Paths, distinct_of_prefix: Ints, vocabulary: int) -> SearchResult:
    """Return the search result of each requested prefix, from the paths of the distinct prefixes.

    distinct_of_prefix: [prefixes] int64, the distinct prefix that each requested prefix equals.
    """
    by_likelihood = np.lexsort((*paths.suffixes.T[::-1], -paths.policy_logprob, paths.prefix))
    columns, _ = _columns(paths, paths.prefix[by_likelihood], by_likelihood, distinct_of_prefix, vocabulary)
    return SearchResult(**columns)


def _columns(
    paths: Paths, owner: Ints, path: Ints, distinct_of_prefix: Ints, vocabulary: int
) -> tuple[dict[str, Any], Ints]:
    """Return the columns of a result for each requested prefix, and the index into `owner` [rows] of each row.

    owner: sorted ids of the distinct prefixes whose suffixes are the paths number `path` [rows].
    """
    starts = np.searchsorted(owner, np.arange(len(paths.last_prefix_logprob) + 1))
    blocks = [np.arange(starts[number], starts[number + 1]) for number in distinct_of_prefix]
    order = np.concatenate([np.empty(0, np.int64), *blocks])
    path = path[order]
    columns = {
        "row": np.repeat(np.arange(len(blocks)), [len(block) for block in blocks]),
        "suffixes": paths.suffixes[path].astype(token_dtype(vocabulary)),
        "token_logprobs": paths.token_logprobs[path],
        "policy_logprob": paths.policy_logprob[path],
        "last_prefix_logprob": paths.last_prefix_logprob[distinct_of_prefix],
    }
    return columns, order
