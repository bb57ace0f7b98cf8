"""Windows of k tokens inside rows: which of them are equal, the clusters of rows that share one, and stitching.

Hashes find candidates, their tokens decide. Rows that share a long window are not independent observations of a model.

Stitching continues a prefix with windows of training rows and without a model. It looks up the last `window` tokens (as
many as a prefix has) inside the training rows. Among the matches it takes the one nearest to the start of its row, in
the earliest such row, because more tokens follow it. It copies that row to its end and continues with the last tokens
of the result, until the suffix is complete or no row continues it. A suffix may be assembled from several rows, so it
need not occur in any single one.
"""

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
WINDOW = 32
"""Tokens that two rows of a cluster have in common."""


@dataclass(frozen=True)
class Windows:
    """All windows of `length` tokens inside rows, row by row and from left to right.

    tokens: all rows, flat.
    start: [windows] int64, the first token of each in `tokens`.
    row: [windows] int64.
    """

    length: int
    tokens: Tokens
    start: Ints
    row: Ints

    def at(self, numbers: Ints) -> Tokens:
        """Return the tokens of the windows `numbers` [windows], [windows, length]."""
        if len(self.tokens) < self.length:
            return np.empty((0, self.length), self.tokens.dtype)[numbers]
        positions: Tokens = sliding_window_view(self.tokens, self.length)
        return positions[self.start[numbers]]


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
        # Equal hashes are neighbors. The first of each group leads, and the others are its members.
        is_first = np.ones(len(hashes), np.bool_)
        is_first[1:] = hashes[1:] != hashes[:-1]
        members = np.flatnonzero(~is_first)
        leader = order[np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))[members]]
        member = order[members]
        equal = _are_equal(windows, leader, member)
        first[member[equal]] = leader[equal]
        if equal.all():
            return first
        # Different windows with the same hash are compared again among themselves. A collision only costs time.
        order, hashes = member[~equal], hashes[members[~equal]]


def _are_equal(windows: Windows, left: Ints, right: Ints) -> Bools:
    equal = np.empty(len(left), np.bool_)
    for begin in range(0, len(left), _COMPARED_AT_ONCE):
        part = slice(begin, begin + _COMPARED_AT_ONCE)
        equal[part] = (windows.at(left[part]) == windows.at(right[part])).all(axis=1)
    return equal


def cluster_ids(blocks: Sequence[Tokens], window: int = WINDOW) -> Ints:
    """Return the cluster of every row, [rows of all blocks] int64, numbered from 0 by first row.

    A cluster is a connected component of rows that share a window of `window` tokens. Each block is [rows, tokens];
    blocks may differ in their number of tokens. A row shorter than the window is a cluster of its own.
    """
    windows = windows_of(blocks, window)
    owner_of_first = windows.row[first_equals(windows)]
    return _components(sum(len(block) for block in blocks), owner_of_first, windows.row)


def _components(rows: int, left: Ints, right: Ints) -> Ints:
    """Return the connected component of each row, [rows], if left[i] and right[i] are connected; numbered by first row.

    Each row points at a root. The roots of connected rows are attached to the smaller one until no pair has two roots.
    """
    root = np.arange(rows)
    apart = left != right
    pairs = np.unique(left[apart] * rows + right[apart])
    left, right = pairs // max(rows, 1), pairs % max(rows, 1)
    while len(left):
        low, high = np.minimum(root[left], root[right]), np.maximum(root[left], root[right])
        apart = low != high
        left, right = left[apart], right[apart]
        np.minimum.at(root, high[apart], low[apart])
        while not np.array_equal(root, above := root[root]):
            root = above
    # A root is the smallest row of its component, so the order of roots is the order of first rows.
    return np.unique(root, return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True)
class Stitched:
    """The result of stitching.

    suffixes: [prefixes, suffix length], zero after the copied tokens.
    copied: [prefixes], the number of tokens copied from training rows.
    """

    suffixes: Tokens
    copied: Ints

    @property
    def is_complete(self) -> Bools:
        """Return which suffixes were copied completely, [prefixes]."""
        complete: Bools = self.copied == self.suffixes.shape[1]
        return complete


class Continuations:
    """An index of the contexts of `window` tokens in training rows [rows, tokens] that at least one token follows."""

    def __init__(self, rows: Tokens, window: int) -> None:
        count, width = rows.shape
        places = max(0, width - window)
        hashes = window_hashes(rows[:, :-1], window) if places else np.empty((count, 0), np.uint64)
        by_place: Hashes = hashes.T.ravel()  # ordered by place, then by row: the order of preference
        order = np.argsort(by_place, kind="stable")
        self.rows, self.window = rows, window
        self._hashes = by_place[order]
        self._row, self._place = order % max(count, 1), order // max(count, 1)

    def places_of(self, contexts: Tokens) -> tuple[Ints, Ints]:
        """Return row and place of the preferred occurrence of each context [n, window]; both [n] int64, -1 for none."""
        found_row, found_place = np.full(len(contexts), -1), np.full(len(contexts), -1)
        hashes = window_hashes(contexts, self.window)[:, 0]
        entry, sought = np.searchsorted(self._hashes, hashes), np.arange(len(contexts))
        while True:
            inside = entry < len(self._hashes)
            entry, sought = entry[inside], sought[inside]
            candidate = self._hashes[entry] == hashes[sought]
            entry, sought = entry[candidate], sought[candidate]
            if len(sought) == 0:
                return found_row, found_place
            row, place = self._row[entry], self._place[entry]
            candidates = self.rows[row[:, None], place[:, None] + np.arange(self.window)]
            equal = (candidates == contexts[sought]).all(axis=1)
            found_row[sought[equal]], found_place[sought[equal]] = row[equal], place[equal]
            # A different window has the same hash. The next entry may be the right one.
            entry, sought = entry[~equal] + 1, sought[~equal]


def stitched(prefixes: Tokens, rows: Tokens, suffix_length: int) -> Stitched:
    """Continue `prefixes` [prefixes, prefix length] with tokens copied from training rows [rows, tokens].

    The result contains `suffixes` [prefixes, suffix length], with zeros after the copied tokens, and `copied`
    [prefixes], the number of tokens copied for each.
    """
    count, window = prefixes.shape
    table = Continuations(rows, window)
    whole = np.zeros((count, window + suffix_length), prefixes.dtype)
    whole[:, :window] = prefixes
    copied = np.zeros(count, np.int64)
    walking = np.arange(count)
    while len(walking):
        contexts = whole[walking[:, None], copied[walking, None] + np.arange(window)]
        row, place = table.places_of(contexts)
        walking, row, place = walking[row >= 0], row[row >= 0], place[row >= 0]
        available = np.minimum(rows.shape[1] - place - window, suffix_length - copied[walking])
        for example, source, first, tokens in zip(walking, row, place + window, available, strict=True):
            end = window + copied[example]
            whole[example, end : end + tokens] = rows[source, first : first + tokens]
        copied[walking] += available
        walking = walking[copied[walking] < suffix_length]
    return Stitched(whole[:, window:], copied)
