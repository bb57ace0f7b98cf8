"""Find sequences of a corpus whose prefix has one continuation in the whole corpus.

Prefixes are drawn by a hash of their tokens, so all occurrences of a drawn prefix are found in one pass over the
corpus, and each distinct prefix has the same chance however often it occurs. Occurrences with equal hashes are compared
by their tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Bools, Ints, Tokens
from harness.core.windows import Hashes, window_hashes
from harness.corpora.token_stream import TokenStream

_HASHED_AT_ONCE = 1 << 18  # tokens
_COMPARED_AT_ONCE = 1 << 16  # rows
_LARGEST = (1 << 64) - 1


@dataclass(frozen=True)
class Sequences:
    """Distinct sequences with one continuation, in random order.

    tokens: [sequences, prefix and suffix]. positions: [sequences], the first occurrence in the stream. copies:
    [sequences], the number of occurrences in the corpus. contexts: [sequences], the tokens from which a model completes
    the suffix, 0 if that is unknown.
    """

    tokens: Tokens
    positions: Ints
    copies: Ints
    contexts: Ints

    def only(self, which: Bools | Ints) -> "Sequences":
        """Return some of the sequences: a mask, or their numbers."""
        return Sequences(self.tokens[which], self.positions[which], self.copies[which], self.contexts[which])


@dataclass(frozen=True)
class Drawn:
    """The sequences of a draw, and counts of what it found.

    occurrences: of all drawn prefixes. prefixes: distinct ones. ambiguous: prefixes with several continuations.
    cut_off: prefixes that occur only so close to the end of a document that the suffix is not complete.
    """

    sequences: Sequences
    occurrences: int
    prefixes: int
    ambiguous: int
    cut_off: int


def draw_sequences(
    stream: TokenStream,
    prefix_length: int,
    suffix_length: int,
    *,
    share: float,
    seed: int,
    on_progress: Callable[[int], None],
) -> Drawn:
    """Draw about `share` of the distinct prefixes, and return those with one continuation.

    A larger share with the same seed contains what a smaller one drew. on_progress: called with the number of tokens
    that were read.
    """
    positions, keys = _occurrences(stream, prefix_length, share, seed, on_progress)
    # Occurrences of a prefix become neighbors, the first one in front.
    order = np.argsort(keys, kind="stable")
    positions, keys = positions[order], keys[order]
    begins = np.concatenate([[True], keys[1:] != keys[:-1]])[: len(keys)]
    is_ambiguous, is_collision = _compare_neighbors(stream, positions, begins, prefix_length, suffix_length)
    first = np.flatnonzero(begins)
    group = np.cumsum(begins) - 1
    copies = np.bincount(group, minlength=len(first))
    several = np.bincount(group[is_ambiguous], minlength=len(first)) > 0
    # Different prefixes with the same hash are not drawn. This happens by chance once in billions.
    collides = np.bincount(group[is_collision], minlength=len(first)) > 0
    rows = _gathered(stream, positions[first], prefix_length + suffix_length)
    is_cut_off = (rows == stream.separator).any(axis=1)
    several &= ~collides
    is_cut_off &= ~several & ~collides
    kept = ~(several | collides | is_cut_off)
    return Drawn(
        Sequences(rows[kept], positions[first][kept], copies[kept], np.zeros(int(kept.sum()), np.int64)),
        occurrences=int(copies[~collides].sum()),
        prefixes=int((~collides).sum()),
        ambiguous=int(several.sum()),
        cut_off=int(is_cut_off.sum()),
    )


def _occurrences(
    stream: TokenStream, length: int, share: float, seed: int, on_progress: Callable[[int], None]
) -> tuple[Ints, Hashes]:
    """Return where the drawn prefixes begin, in the order of the stream, and their keys, [occurrences] each."""
    threshold = np.uint64(min(_LARGEST, int(share * _LARGEST)))
    found: list[Ints] = [np.empty(0, np.int64)]
    found_keys: list[Hashes] = [np.empty(0, np.uint64)]
    for begin in range(0, len(stream.tokens) - length + 1, _HASHED_AT_ONCE):
        part = np.asarray(stream.tokens[begin : begin + _HASHED_AT_ONCE + length - 1])
        keys = _scrambled(window_hashes(part, length), seed)
        chosen = np.flatnonzero(keys <= threshold)
        is_inside = (part[chosen[:, None] + np.arange(length)] != stream.separator).all(axis=1)
        found.append(begin + chosen[is_inside])
        found_keys.append(keys[chosen[is_inside]])
        on_progress(min(begin + _HASHED_AT_ONCE, len(stream.tokens)))
    return np.concatenate(found), np.concatenate(found_keys)


def _scrambled(hashes: Hashes, seed: int) -> Hashes:
    """Return hashes whose order depends on the seed and no longer on the tokens (the finalizer of SplitMix64)."""
    keys = hashes + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 & _LARGEST)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        keys ^= keys >> np.uint64(shift)
        keys *= np.uint64(factor)
    keys ^= keys >> np.uint64(31)
    return keys


def _compare_neighbors(
    stream: TokenStream, positions: Ints, begins: Bools, prefix_length: int, suffix_length: int
) -> tuple[Bools, Bools]:
    """Compare each occurrence with the one in front of it, unless a group begins there.

    Returns where only the suffixes differ, and where the prefixes do, [occurrences] each.
    """
    suffix_differs, prefix_differs = np.zeros(len(positions), np.bool_), np.zeros(len(positions), np.bool_)
    compared = np.flatnonzero(~begins)
    for first in range(0, len(compared), _COMPARED_AT_ONCE):
        which = compared[first : first + _COMPARED_AT_ONCE]
        length = prefix_length + suffix_length
        differs = stream.rows(positions[which], length) != stream.rows(positions[which - 1], length)
        prefix_differs[which] = differs[:, :prefix_length].any(axis=1)
        suffix_differs[which] = differs[:, prefix_length:].any(axis=1) & ~prefix_differs[which]
    return suffix_differs, prefix_differs


def _gathered(stream: TokenStream, positions: Ints, length: int) -> Tokens:
    parts = range(0, len(positions), _COMPARED_AT_ONCE)
    rows = [stream.rows(positions[first : first + _COMPARED_AT_ONCE], length) for first in parts]
    return np.concatenate(rows) if rows else np.empty((0, length), stream.tokens.dtype)
