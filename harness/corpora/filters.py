"""Find trivial sequences: their suffix can be guessed without having memorized anything."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from harness.core.arrays import Bools, Floats, Tokens
from harness.core.windows import window_hashes

_SHORTEST_COPY = 8  # tokens


@dataclass(frozen=True)
class Filters:
    """Limits for suffixes.

    max_token_share: the largest share that one token may have. min_entropy_share: of the distribution of the tokens of
    a suffix, relative to that of different tokens, which is 5.6 bits for 50. copied_share: the part of a suffix that
    may not occur earlier in the sequence. It has at least 8 tokens, because shorter parts recur by chance, or is the
    whole suffix.
    """

    max_token_share: float = 0.5
    min_entropy_share: float = 0.5
    copied_share: float = 0.5

    def copied_tokens(self, suffix_length: int) -> int:
        """Return how many tokens of a suffix may not occur earlier in the sequence."""
        return min(suffix_length, max(_SHORTEST_COPY, math.ceil(self.copied_share * suffix_length)))


def trivial_sequences(tokens: Tokens, prefix_length: int, filters: Filters) -> dict[str, Bools]:
    """Return which of the sequences [rows, tokens] each filter removes, [rows] by its name.

    A sequence that several filters would remove counts for the first one only. A suffix of one token is never trivial.
    """
    suffixes = tokens[:, prefix_length:]
    length = suffixes.shape[1]
    share, entropy = token_statistics(suffixes)
    removed = np.full(len(tokens), length < 2)
    found: dict[str, Bools] = {}
    for name, is_trivial in (
        ("repeated token", share > filters.max_token_share),
        ("low entropy", entropy < filters.min_entropy_share * math.log2(length)),
        ("copied from the prefix", copies_itself(tokens, prefix_length, filters.copied_tokens(length))),
    ):
        found[name] = is_trivial & ~removed
        removed |= is_trivial
    return found


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
