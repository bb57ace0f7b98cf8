"""Draw distinct prefixes of a corpus, and find their continuations.

Prefixes are drawn by a hash of their tokens, so all occurrences of a drawn prefix are found in one pass over the
corpus, and each distinct prefix has the same chance however often it occurs. Occurrences with equal hashes are compared
by their tokens. A context ends with the prefix and begins earlier in the same document, so it may be longer than what
an attack sees.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from harness.core.arrays import Bools, Ints, Tokens, mix_bits
from harness.core.windows import Hashes, window_hashes
from harness.corpora.token_stream import TokenStream, blocks

_HASHED_AT_ONCE = 1 << 18  # tokens
_MAX_KEY = (1 << 64) - 1


class Sequences(NamedTuple):
    """Distinct sequences, in random order.

    tokens: [sequences, prefix and suffix].
    positions: [sequences], the first occurrence in the stream.
    copies: [sequences], the number of occurrences in the corpus.
    contexts: [sequences], the tokens from which a model completes the suffix, 0 if that is unknown.
    """

    tokens: Tokens
    positions: Ints
    copies: Ints
    contexts: Ints

    def select(self, rows: Bools | Ints) -> "Sequences":
        """Return some of the sequences: a mask, or their numbers."""
        return Sequences(self.tokens[rows], self.positions[rows], self.copies[rows], self.contexts[rows])

    @classmethod
    def join(cls, parts: Iterable["Sequences"]) -> "Sequences":
        """Return the sequences of all parts, of which there is at least one."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


class Prefixes(NamedTuple):
    """Distinct prefixes that were drawn, in random order.

    positions: [prefixes], the first occurrence in the stream.
    copies: [prefixes], the number of occurrences.
    is_ambiguous: [prefixes], whether there are several continuations.
    """

    positions: Ints
    copies: Ints
    is_ambiguous: Bools


def draw_prefixes(
    stream: TokenStream,
    prefix_length: int,
    suffix_length: int,
    *,
    between: tuple[float, float],
    seed: int,
    on_progress: Callable[[int], None],
) -> Prefixes:
    """Draw the prefixes whose hash is in a part of all hashes, and compare all their continuations.

    between: the part, such as (0, 0.1) for a tenth of the distinct prefixes and (0.1, 0.3) for two other tenths. Memory
    is proportional to the number of their occurrences.
    on_progress: called with the number of tokens that were read.
    """
    positions, keys = _occurrences(stream, prefix_length, between, seed, on_progress)
    # Occurrences of a prefix become neighbors, the first one in front.
    order = np.argsort(keys, kind="stable")
    positions, keys = positions[order], keys[order]
    begins = np.concatenate([[True], keys[1:] != keys[:-1]])[: len(keys)]
    suffix_differs, prefix_differs = _compare_neighbors(stream, positions, begins, prefix_length, suffix_length)
    first = np.flatnonzero(begins)
    group = np.cumsum(begins) - 1
    copies = np.bincount(group, minlength=len(first))
    is_ambiguous = np.bincount(group[suffix_differs], minlength=len(first)) > 0
    # Different prefixes with the same hash are left out. This happens by chance once in billions.
    is_one = np.bincount(group[prefix_differs], minlength=len(first)) == 0
    return Prefixes(positions[first][is_one], copies[is_one], is_ambiguous[is_one])


def _occurrences(
    stream: TokenStream, length: int, between: tuple[float, float], seed: int, on_progress: Callable[[int], None]
) -> tuple[Ints, Hashes]:
    """Return where the drawn prefixes begin, in the order of the stream, and their keys, [occurrences] each."""
    low, high = (int(share * _MAX_KEY) for share in between)
    places: list[Ints] = [np.empty(0, np.int64)]
    found_keys: list[Hashes] = [np.empty(0, np.uint64)]
    offset = np.uint64((seed + 1) * 0x9E3779B97F4A7C15 & _MAX_KEY)
    for begin in range(0, len(stream.tokens) - length + 1, _HASHED_AT_ONCE):
        part = np.asarray(stream.tokens[begin : begin + _HASHED_AT_ONCE + length - 1])
        # The order of the keys depends on the seed and no longer on the tokens.
        keys = mix_bits(window_hashes(part, length) + offset)
        is_drawn = keys <= np.uint64(min(_MAX_KEY, high))
        if low:
            is_drawn &= keys > np.uint64(low)
        separators = np.concatenate([[0], np.cumsum(part == stream.separator)])
        begins = np.flatnonzero(is_drawn & (separators[length:] == separators[:-length]))
        places.append(begin + begins)
        found_keys.append(keys[begins])
        on_progress(min(begin + _HASHED_AT_ONCE, len(stream.tokens)))
    return np.concatenate(places), np.concatenate(found_keys)


def _compare_neighbors(
    stream: TokenStream, positions: Ints, begins: Bools, prefix_length: int, suffix_length: int
) -> tuple[Bools, Bools]:
    """Compare each occurrence with the one in front of it, unless a group begins there.

    Returns where only the suffixes differ, and where the prefixes do, [occurrences] each.
    """
    suffix_differs, prefix_differs = np.zeros(len(positions), np.bool_), np.zeros(len(positions), np.bool_)
    compared, length = np.flatnonzero(~begins), prefix_length + suffix_length
    for block in blocks(len(compared), length):
        matching = compared[block]
        differs = stream.rows(positions[matching], length) != stream.rows(positions[matching - 1], length)
        prefix_differs[matching] = differs[:, :prefix_length].any(axis=1)
        suffix_differs[matching] = differs[:, prefix_length:].any(axis=1) & ~prefix_differs[matching]
    return suffix_differs, prefix_differs
