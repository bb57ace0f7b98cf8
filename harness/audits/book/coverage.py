"""Which characters of a text the extractable suffixes cover, and the uncertainty of every share by block bootstrap.

Windows overlap, so neighbours are not independent. A replicate draws blocks of consecutive characters with replacement
from a text whose end is joined to its beginning (the circular block bootstrap, Politis and Romano 1992). Texts are
drawn separately. All models share the replicates.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from harness.audits.book.params import THRESHOLDS
from harness.audits.book.rows import Measured
from harness.audits.schemes import Scheme
from harness.core.arrays import Floats, Ints
from harness.core.intervals import wilson

REPLICATES = 2000
_SEED = 20250501
_BLOCK_WINDOWS = 10
"""Length of a block in windows, but at most an eighth of the text."""
_FEWEST_BLOCKS = 8
_CELLS = 32
"""Cells of a block: positions are summed by cell before blocks are drawn."""


class Passage(NamedTuple):
    """Characters `start` to `end` of a text, all covered at some threshold, and the largest probability among them."""

    start: int
    end: int
    probability: float


class Estimate(NamedTuple):
    """A share or a mean and its 95 % interval."""

    value: float
    low: float
    high: float


def character_peaks(measured: Measured, scheme: Scheme, length: int) -> Floats:
    """Return the largest probability of a suffix that contains each of `length` characters, NaN if none does."""
    peaks = np.full(length, np.nan)
    probabilities = np.exp(measured.log_probability(scheme))
    # The largest ones are written last.
    for window in np.argsort(probabilities, kind="stable"):
        peaks[measured.cut[window] : measured.end[window]] = probabilities[window]
    return peaks


def passages_of(peaks: Floats, threshold: float) -> list[Passage]:
    """Return the longest runs of characters whose probability is at least `threshold`, in order."""
    is_covered = np.concatenate([[False], peaks >= threshold, [False]])
    edges = np.flatnonzero(is_covered[1:] != is_covered[:-1])
    return [
        Passage(int(start), int(end), float(peaks[start:end].max()))
        for start, end in zip(edges[::2], edges[1::2], strict=True)
    ]


class Sums:
    """Sums over the characters and windows of some texts, and over each bootstrap replicate of them.

    series: characters in a measured suffix; those covered at each of `THRESHOLDS`; windows; those whose suffix reaches
    each threshold; the sum of their probabilities. total: [series]. replicates: [REPLICATES, series]. blocks: how many.
    """

    def __init__(self, total: Floats, replicates: Floats, blocks: int) -> None:
        self.total, self.replicates, self.blocks = total, replicates, blocks

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(self.total + other.total, self.replicates + other.replicates, self.blocks + other.blocks)

    def coverage(self, threshold: float) -> Estimate:
        """Return the share of characters that some suffix of at least this probability contains."""
        return self._ratio(1 + THRESHOLDS.index(threshold), 0)

    def extractable(self, threshold: float) -> Estimate:
        """Return the share of windows whose suffix has at least this probability."""
        return self._ratio(2 + len(THRESHOLDS) + THRESHOLDS.index(threshold), 1 + len(THRESHOLDS))

    def mean_probability(self) -> Estimate:
        """Return the mean probability of a suffix."""
        return self._ratio(2 + 2 * len(THRESHOLDS), 1 + len(THRESHOLDS))

    def _ratio(self, part: int, whole: int) -> Estimate:
        if self.total[whole] == 0:
            return Estimate(math.nan, math.nan, math.nan)
        value = float(self.total[part] / self.total[whole])
        drawn = self.replicates[:, whole]
        values = self.replicates[drawn > 0, part] / drawn[drawn > 0]
        if np.ptp(values) < 1e-12:
            low, high = wilson(min(1.0, value), self.blocks)
        else:
            low, high = (float(end) for end in np.quantile(values, (0.025, 0.975)))
        return Estimate(value, min(low, value), max(high, value))


def sum_over_text(measured: Measured, scheme: Scheme, peaks: Floats) -> Sums:
    """Return the sums of one text. peaks: its characters' probabilities, [characters]."""
    length = len(peaks)
    block = block_length(measured, length)
    cell = max(1, block // _CELLS)
    cells = math.ceil(length / cell)
    probabilities = np.exp(measured.log_probability(scheme))
    of_character, of_window = np.arange(length) // cell, measured.start // cell
    series = np.array(
        [
            *(
                np.bincount(of_character, weights=each, minlength=cells)
                for each in (~np.isnan(peaks), *(peaks >= threshold for threshold in THRESHOLDS))
            ),
            *(
                np.bincount(of_window, weights=each, minlength=cells)
                for each in (
                    np.ones(len(measured)),
                    *(probabilities >= threshold for threshold in THRESHOLDS),
                    probabilities,
                )
            ),
        ]
    )  # [series, cells]
    per_block = max(1, round(block / cell))
    blocks = math.ceil(cells / per_block)
    joined = np.concatenate([np.zeros((len(series), 1)), np.cumsum(np.tile(series, 2), axis=1)], axis=1)
    starts: Ints = np.random.default_rng([_SEED, measured.text]).integers(cells, size=(REPLICATES, blocks))
    length_of_block = min(per_block, cells)
    drawn = joined[:, starts + length_of_block] - joined[:, starts]  # [series, replicates, blocks]
    return Sums(series.sum(axis=1), drawn.sum(axis=2).T, blocks)


def block_length(measured: Measured, length: int) -> int:
    """Return the characters of a block of a text of `length` characters."""
    window = float((measured.end - measured.start).mean()) if len(measured) else 1.0
    return max(1, int(min(_BLOCK_WINDOWS * window, length / _FEWEST_BLOCKS)))


def difference(one: Estimate, other: Estimate) -> Estimate:
    """Return one - other of independent texts and its 95 % interval from both intervals (Zou and Donner 2008)."""
    value = one.value - other.value
    low = value - math.hypot(one.value - one.low, other.high - other.value)
    return Estimate(value, low, value + math.hypot(one.high - one.value, other.value - other.low))


def total_of(parts: Sequence[Sums]) -> Sums | None:
    """Return the sums over all parts, or None if there is none."""
    found = None
    for part in parts:
        found = part if found is None else found + part
    return found
