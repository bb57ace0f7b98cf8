"""Clusters: which rows of tokens share a long window, and so are no independent observations of a model.

Nothing here knows what the rows are.
"""

from collections.abc import Sequence

import numpy as np

from harness.core.arrays import Ints, Tokens
from harness.core.windows import first_equals, windows_of

WINDOW = 32


def cluster_ids(blocks: Sequence[Tokens], window: int = WINDOW) -> Ints:
    """The cluster of every row: a connected component of rows that share a window of `window` tokens.

    Each block is [rows, tokens]; rows may be longer in one block than in another, and one shorter than the window is
    alone. Returns [rows of all blocks] int64, clusters numbered from 0 by their first row.
    """
    windows = windows_of(blocks, window)
    owner_of_first = windows.row[first_equals(windows)]
    return _components(sum(len(block) for block in blocks), owner_of_first, windows.row)


def _components(rows: int, left: Ints, right: Ints) -> Ints:
    """The connected component of each row, [rows], when row left[i] belongs with row right[i]; numbered by first row.

    Each row points at a root; the roots of joined rows hook onto the smaller one until no pair has two.
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
