"""Stitching: continue a prefix with windows of training rows and without a model.

The algorithm looks up the last `window` tokens (as many as a prefix has) inside the training rows. Among the matches it
takes the one nearest to the start of its row, in the earliest such row, because more tokens follow it. It copies that
row to its end and continues with the last tokens of the result, until the suffix is complete or no row continues it. A
suffix may be assembled from several rows, so it need not occur in any single one.
"""

from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Bools, Ints, Tokens
from harness.core.windows import Hashes, window_hashes


@dataclass(frozen=True)
class Stitched:
    """The result of stitching. suffixes: [prefixes, suffix length], zero after the tokens found; found: [prefixes], the
    number of tokens found.
    """

    suffixes: Tokens
    found: Ints

    @property
    def is_complete(self) -> Bools:
        """Return which suffixes were found completely, [prefixes]."""
        complete: Bools = self.found == self.suffixes.shape[1]
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
    """Continue `prefixes` [prefixes, prefix length] from training rows [rows, tokens]."""
    count, window = prefixes.shape
    table = Continuations(rows, window)
    whole = np.zeros((count, window + suffix_length), prefixes.dtype)
    whole[:, :window] = prefixes
    found = np.zeros(count, np.int64)
    walking = np.arange(count)
    while len(walking):
        contexts = whole[walking[:, None], found[walking, None] + np.arange(window)]
        row, place = table.places_of(contexts)
        walking, row, place = walking[row >= 0], row[row >= 0], place[row >= 0]
        copied = np.minimum(rows.shape[1] - place - window, suffix_length - found[walking])
        for example, source, first, tokens in zip(walking, row, place + window, copied, strict=True):
            end = window + found[example]
            whole[example, end : end + tokens] = rows[source, first : first + tokens]
        found[walking] += copied
        walking = walking[found[walking] < suffix_length]
    return Stitched(whole[:, window:], found)
