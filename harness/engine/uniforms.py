"""Stateless random numbers: each one is a pure function of (seed, prefix, draw, position).

So a draw does not depend on its batch, on earlier draws or on the device. The mixing function is the finaliser of
SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.core.arrays import Floats, Tokens

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_MASK = (1 << 64) - 1


def uniforms(seed: int, keys: NDArray[np.uint64], draws: ArrayLike, position: ArrayLike) -> Floats:
    """Return uniform numbers in [0, 1), float64 with 53 random bits, one for each element of the broadcast arguments.

    keys: from `prefix_keys`. draws, position: non-negative integers. With keys and draws [rows] and one position the
    result is [rows].
    """
    state = _mixed(np.full(1, int(seed) & _MASK, np.uint64))
    for part in (keys, draws, position):
        state = _mixed(state ^ np.asarray(part).astype(np.uint64))
    shape = np.broadcast_shapes(*(np.shape(part) for part in (keys, draws, position)))
    return ((state >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(shape)


def prefix_keys(prefixes: Tokens) -> NDArray[np.uint64]:
    """Return a hash of each prefix's tokens, [rows] uint64, which does not depend on their integer type."""
    keys = np.zeros(len(prefixes), np.uint64)
    for column in np.asarray(prefixes).astype(np.uint64).T:
        keys = _mixed(keys ^ column)
    return keys


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = state + _GOLDEN
    state = (state ^ (state >> np.uint64(30))) * _FIRST
    state = (state ^ (state >> np.uint64(27))) * _SECOND
    return state ^ (state >> np.uint64(31))
