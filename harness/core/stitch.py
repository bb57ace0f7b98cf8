"""Stitching: continuing a prefix with nothing but windows of training rows, and no model at all.

The walk: look for the last `window` tokens (as many as a prefix has) anywhere inside the training rows; of the places
found take the one nearest to its row's start, in the earliest such row, for it says most about what follows; copy that
row to its end; look again with the last tokens of what there is now. A walk ends with its suffix complete, or at the
first context that no row continues. One row hands over to another, so a suffix may be found that stands whole in none.
"""

from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Bools, Ints, Tokens
from harness.core.windows import Hashes, window_hashes


@dataclass(frozen=True)
class Stitched:
    """What a walk found for each prefix: suffixes [prefixes, suffix length] and the number of tokens found, [prefixes].

    Past the tokens found a suffix holds zeros.
    """

    suffixes: Tokens
    found: Ints

    @property
    def is_complete(self) -> Bools:
        """[prefixes]: whether the walk reached the end of the suffix."""
        complete: Bools = self.found == self.suffixes.shape[1]
        return complete


class Continuations:
    """Where in training rows [rows, tokens] a context of `window` tokens stands with at least one token after it."""

    def __init__(self, rows: Tokens, window: int) -> None:
        count, width = rows.shape
        places = max(0, width - window)
        hashes = window_hashes(rows[:, :-1], window) if places else np.empty((count, 0), np.uint64)
        by_place: Hashes = hashes.T.ravel()  # place by place, each in row order: the order of preference
        order = np.argsort(by_place, kind="stable")
        self.rows, self.window = rows, window
        self._hashes = by_place[order]
        self._row, self._place = order % max(count, 1), order // max(count, 1)

    def places_of(self, contexts: Tokens) -> tuple[Ints, Ints]:
        """Row and place of the preferred occurrence of each context [n, window]; both [n] int64, -1 where none is."""
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
            standing = self.rows[row[:, None], place[:, None] + np.arange(self.window)]
            equal = (standing == contexts[sought]).all(axis=1)
            found_row[sought[equal]], found_place[sought[equal]] = row[equal], place[equal]
            # Another window has the same hash: the one sought may stand behind it.
            entry, sought = entry[~equal] + 1, sought[~equal]


def stitched(prefixes: Tokens, rows: Tokens, suffix_length: int) -> Stitched:
    """What the walk over training rows [rows, tokens] finds for `prefixes` [prefixes, prefix length]."""
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
