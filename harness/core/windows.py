"""Windows of k tokens inside rows, and which of them are equal. Hashes find candidates, their tokens decide."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from harness.core.arrays import Bools, Ints, Tokens

Hashes = NDArray[np.uint64]

_COMPARED_AT_ONCE = 1 << 16
_ODD = np.uint64(0x9E3779B97F4A7C15)
_OTHER_ODD = np.uint64(0xC2B2AE3D27D4EB4F)


@dataclass(frozen=True)
class Windows:
    """All windows of `length` tokens inside rows, row by row and from left to right.

    tokens: all rows, flat. start: [windows] int64, the first token of each in `tokens`. row: [windows] int64.
    """

    length: int
    tokens: Tokens
    start: Ints
    row: Ints

    def at(self, which: Ints) -> Tokens:
        """Return the tokens of the windows `which`, [which, length]."""
        if len(self.tokens) < self.length:
            return np.empty((0, self.length), self.tokens.dtype)[which]
        positions: Tokens = sliding_window_view(self.tokens, self.length)
        return positions[self.start[which]]


def windows_of(blocks: Sequence[Tokens], length: int) -> Windows:
    """Return the windows of all blocks, each [rows, tokens]. Rows are numbered across blocks; short rows have none."""
    if length < 1:
        raise ValueError("a window has at least one token")
    tokens: list[Tokens] = [np.empty(0, np.uint16)]
    starts, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    first_row, first_token = 0, 0
    for block in blocks:
        count, width = block.shape
        places = max(0, width - length + 1)
        row = np.arange(count)
        tokens.append(block.ravel() if block.dtype == np.uint16 else block.astype(np.int64).ravel())
        starts.append((first_token + row[:, None] * width + np.arange(places)).ravel())
        rows.append(np.repeat(first_row + row, places))
        first_row, first_token = first_row + count, first_token + block.size
    return Windows(length, np.concatenate(tokens), np.concatenate(starts), np.concatenate(rows))


def window_hashes(tokens: Tokens, length: int) -> Hashes:
    """Return a hash of each window of `length` tokens along the last axis, [..., tokens - length + 1]."""
    hashes = tokens.astype(np.uint64)
    covered = 1
    while covered < length:
        # The two halves may overlap, but together they still cover every token of the window.
        step = min(covered, length - covered)
        hashes = hashes[..., :-step] * _ODD + hashes[..., step:] * _OTHER_ODD
        hashes ^= hashes >> np.uint64(29)
        covered += step
    return hashes


def first_equals(windows: Windows) -> Ints:
    """Return for each window the first one with the same tokens, [windows] int64, which may be itself."""
    first = np.arange(len(windows.start))
    if len(first) == 0:
        return first
    hashes = window_hashes(windows.tokens, windows.length)[windows.start]
    order = np.argsort(hashes, kind="stable")
    hashes = hashes[order]
    while True:
        opens = np.concatenate([[True], hashes[1:] != hashes[:-1]])[
            : len(hashes)
        ]  # True where a group of equal hashes begins
        follows = np.flatnonzero(~opens)
        leader = order[np.maximum.accumulate(np.where(opens, np.arange(len(order)), 0))[follows]]
        member = order[follows]
        equal = _are_equal(windows, leader, member)
        first[member[equal]] = leader[equal]
        if equal.all():
            return first
        # Different windows with the same hash are compared again among themselves. A collision only costs time.
        order, hashes = member[~equal], hashes[follows[~equal]]


def _are_equal(windows: Windows, left: Ints, right: Ints) -> Bools:
    equal = np.empty(len(left), np.bool_)
    for begin in range(0, len(left), _COMPARED_AT_ONCE):
        part = slice(begin, begin + _COMPARED_AT_ONCE)
        equal[part] = (windows.at(left[part]) == windows.at(right[part])).all(axis=1)
    return equal
