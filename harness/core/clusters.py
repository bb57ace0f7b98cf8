"""Clusters of token rows that share a long window and are therefore not independent observations of a model."""

from collections.abc import Sequence

import numpy as np

from harness.core.arrays import Ints, Tokens
from harness.core.windows import first_equals, windows_of

WINDOW = 32


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
