"""Find trivial sequences: their suffix can be guessed without having memorized anything."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from harness.core.arrays import Bools, Floats, Tokens
from harness.core.windows import window_hashes

_JUDGED_AT_ONCE = 1 << 14  # rows
_SHORTEST_COPY = 8  # tokens


@dataclass(frozen=True)
class Filters:
    """Limits for suffixes.

    most_repeated: the largest share that one token may have. least_entropy: of the distribution of the tokens of a
    suffix, relative to that of different tokens, which is 5.6 bits for 50. copied_share: a part of the suffix, relative
    to its length, that may not occur earlier in the sequence; it has at least 8 tokens, because shorter ones recur by
    chance.
    """

    most_repeated: float = 0.5
    least_entropy: float = 0.5
    copied_share: float = 0.5


def trivial_sequences(tokens: Tokens, prefix_length: int, filters: Filters) -> dict[str, Bools]:
    """Return which of the sequences [rows, tokens] each filter removes, [rows] by its name.

    A sequence that several filters would remove counts for the first one only.
    """
    found: dict[str, list[Bools]] = {"repeated token": [], "low entropy": [], "copied from the prefix": []}
    for first in range(0, max(1, len(tokens)), _JUDGED_AT_ONCE):
        part = tokens[first : first + _JUDGED_AT_ONCE]
        suffixes = part[:, prefix_length:]
        share, entropy = token_statistics(suffixes)
        length = max(_SHORTEST_COPY, math.ceil(filters.copied_share * suffixes.shape[1]))
        removed = np.zeros(len(part), np.bool_)
        for name, is_trivial in zip(
            found,
            (
                (share > filters.most_repeated) & (suffixes.shape[1] > 1),
                entropy < filters.least_entropy * math.log2(suffixes.shape[1]),
                copies_itself(part, prefix_length, length),
            ),
            strict=True,
        ):
            found[name].append(is_trivial & ~removed)
            removed |= is_trivial
    return {name: np.concatenate(parts) for name, parts in found.items()}


def token_statistics(suffixes: Tokens) -> tuple[Floats, Floats]:
    """Return the share of the commonest token of each suffix, and the entropy of its tokens in bits, [rows] each."""
    rows, length = suffixes.shape
    ordered = np.sort(suffixes, axis=1)
    opens = np.concatenate([np.ones((rows, 1), np.bool_), ordered[:, 1:] != ordered[:, :-1]], axis=1)
    run = np.cumsum(opens.ravel()) - 1
    counts = np.bincount(run, minlength=0)
    row_of_run = np.repeat(np.arange(rows), opens.sum(axis=1))
    share = counts / length
    entropy = np.bincount(row_of_run, weights=-share * np.log2(share), minlength=rows)
    largest = np.zeros(rows)
    np.maximum.at(largest, row_of_run, share)
    return largest, np.asarray(entropy, np.float64)


def copies_itself(tokens: Tokens, prefix_length: int, length: int) -> Bools:
    """Return for each sequence whether `length` tokens inside its suffix also occur earlier in the sequence, [rows].

    The earlier occurrence begins in the prefix and may run into the suffix, as in text that repeats itself.
    """
    found = np.zeros(len(tokens), np.bool_)
    if tokens.shape[1] - prefix_length < length:
        return found
    hashes = window_hashes(tokens, length)
    windows = sliding_window_view(tokens, length, axis=1)
    # Equal hashes decide which pairs are compared.
    for late in range(prefix_length, hashes.shape[1]):
        row, early = np.nonzero(hashes[:, :prefix_length] == hashes[:, late, None])
        equal = (windows[row, early] == windows[row, late]).all(axis=1)
        found[row[equal]] = True
    return found
