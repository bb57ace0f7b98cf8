"""Rows that share a value, counted in the order that they stand in."""

import numpy as np

from harness.core.arrays import Ints


def place_among_equals(values: Ints) -> Ints:
    """How many equal values stand before each, [values] int64."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    place = np.empty(len(values), np.int64)
    place[order] = np.arange(len(values)) - np.searchsorted(ordered, ordered)
    return place
