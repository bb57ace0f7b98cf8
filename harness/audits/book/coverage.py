"""The measured windows of texts, the characters that they cover, and the uncertainty of shares by block bootstrap.

Windows overlap, so neighbours are not independent. A replicate draws blocks of consecutive characters with replacement
from all texts. A block lies in one text, whose end is joined to its beginning (the circular block bootstrap, Politis
and Romano 1992), and a text that is shorter than a block is one block.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from harness.audits.book.inputs import THRESHOLDS
from harness.audits.near_results import NEAR
from harness.audits.probabilities import SCHEMES, Scheme
from harness.core.arrays import Bools, Floats, Ints
from harness.core.audit import RowsOf
from harness.core.intervals import percentiles, wilson
from harness.core.measures import Estimate
from harness.core.rows import Kind, Rows, table

_OF_WINDOW = dict.fromkeys(("model", "text", "window", "start", "cut", "end"), Kind.INTEGER)
WINDOWS = table("window", **_OF_WINDOW, **{scheme.value: Kind.REAL for scheme in SCHEMES})
"""A window of a text, its characters, and the log-probability of its suffix under each scheme, NaN if not measured."""
COUNTS = table("count", model=Kind.INTEGER, text=Kind.INTEGER, windows=Kind.INTEGER, near=Kind.INTEGER)
"""The windows of a text in the tokens of a model, and those whose near-verbatim probability is to be measured."""
TABLES = (WINDOWS, COUNTS, NEAR)


@dataclass(frozen=True)
class Measured:
    """The measured windows of one text under one model, in order.

    start, cut, end: [n] int64. log_probabilities: [schemes, n], of the suffixes under each of `SCHEMES`.
    """

    model: int
    text: int
    start: Ints
    cut: Ints
    end: Ints
    log_probabilities: Floats

    def __len__(self) -> int:
        return len(self.start)

    def log_probability(self, scheme: Scheme) -> Floats:
        """The log-probability of each suffix under `scheme`, [n]."""
        return np.asarray(self.log_probabilities[SCHEMES.index(scheme)])


def read_measured(rows: RowsOf) -> list[Measured]:
    """Return the measured windows by model and text, in the order in which these were named."""
    windows = rows(WINDOWS.name)
    model, text, window = (np.asarray(windows[name], np.int64) for name in ("model", "text", "window"))
    order = np.lexsort((window, text, model))
    order = order[_is_measured(windows)[order]]
    model, text = model[order], text[order]
    start, cut, end = (np.asarray(windows[name], np.int64)[order] for name in ("start", "cut", "end"))
    logs = np.array([np.asarray(windows[scheme.value], np.float64)[order] for scheme in SCHEMES])
    edges = [0, *(np.flatnonzero(np.diff(model) | np.diff(text)) + 1).tolist(), len(order)]
    return [
        Measured(
            int(model[first]),
            int(text[first]),
            start[first:stop],
            cut[first:stop],
            end[first:stop],
            logs[:, first:stop],
        )
        for first, stop in pairwise(edges)
        if stop > first
    ]


def count_unmeasured(rows: RowsOf) -> int:
    """Return the number of windows that an endpoint could not measure."""
    return int((~_is_measured(rows(WINDOWS.name))).sum())


def _is_measured(windows: Rows) -> Bools:
    """Return which windows have a probability under some scheme, [windows]."""
    return np.asarray(~np.isnan([np.asarray(windows[scheme.value], np.float64) for scheme in SCHEMES]).all(axis=0))


def read_counts(rows: RowsOf) -> Mapping[tuple[int, int], tuple[int, int]]:
    """Return the numbers of windows and of near-verbatim windows by model and text."""
    counts = rows(COUNTS.name)
    columns = (np.asarray(counts[name], np.int64).tolist() for name in ("model", "text", "windows", "near"))
    return {(model, text): (windows, near) for model, text, windows, near in zip(*columns, strict=True)}


REPLICATES = 2000
_SEED = 20250501
_BLOCK_WINDOWS = 10
"""Length of a block in windows, but at most an eighth of all texts and at least one window."""
_FEWEST_BLOCKS, _MOST_BLOCKS = 8, 500
_FEW_BLOCKS = 5
"""With fewer blocks, an interval is Wilson's with one observation per block."""
_CELLS_OF_WINDOW = 4
"""Positions are summed by cells before blocks are drawn: the cells of a window."""
_DRAWN_AT_ONCE = 1 << 18
_CHARACTERS, _WINDOWS = 0, 1 + len(THRESHOLDS)
"""Places of the numbers of characters and windows in the sums."""


class Passage(NamedTuple):
    """Characters `start` to `end` of a text, all covered at some threshold, and the largest probability among them."""

    start: int
    end: int
    probability: float


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


def window_length(measured: Sequence[Measured]) -> int:
    """Return the mean number of characters of a window, at least 1."""
    lengths = np.concatenate([np.empty(0, np.int64), *(each.end - each.start for each in measured)])
    return max(1, round(float(lengths.mean()))) if len(lengths) else 1


class TextSums(NamedTuple):
    """Sums over the cells of one text.

    series: [sums, cells], with the sums of `Sums`. cell: characters of a cell. block: cells of a block.
    """

    series: Floats
    cell: int
    block: int


def sum_over_text(measured: Measured, scheme: Scheme, peaks: Floats, *, window: int, total: int) -> TextSums:
    """Return the sums of one text.

    peaks: [characters], the probabilities of its characters. window: `window_length`. total: characters of all texts.
    """
    length, cell = len(peaks), max(1, window // _CELLS_OF_WINDOW)
    cells = math.ceil(length / cell)
    probabilities = np.exp(measured.log_probability(scheme))
    of_character, of_window = np.arange(length) // cell, measured.start // cell
    characters = (~np.isnan(peaks), *(peaks >= threshold for threshold in THRESHOLDS))
    windows = (np.ones(len(measured)), *(probabilities >= threshold for threshold in THRESHOLDS), probabilities)
    series = [np.bincount(of_character, weights=each, minlength=cells) for each in characters]
    series += [np.bincount(of_window, weights=each, minlength=cells) for each in windows]
    block = max(min(_BLOCK_WINDOWS * window, total // _FEWEST_BLOCKS), window, total // _MOST_BLOCKS)
    return TextSums(np.array(series), cell, min(cells, max(1, round(block / cell))))


class Sums:
    """Sums over the characters and windows of some texts, and over each bootstrap replicate of them.

    The sums are: characters in a measured suffix; those covered at each of `THRESHOLDS`; windows; those whose suffix
    reaches each threshold; the sum of their probabilities.
    """

    def __init__(self, texts: Sequence[TextSums]) -> None:
        self._texts = texts
        self._total: Floats = np.sum([each.series.sum(axis=1) for each in texts], axis=0)
        self._estimates: dict[tuple[int, int], Estimate] = {}

    @property
    def windows(self) -> int:
        """The number of measured windows."""
        return int(self._total[_WINDOWS])

    @property
    def blocks(self) -> int:
        """The number of blocks of all texts."""
        return sum(math.ceil(each.series.shape[1] / each.block) for each in self._texts)

    def coverage(self, threshold: float) -> Estimate:
        """Return the share of characters that some suffix of at least this probability contains."""
        return self._ratio(_CHARACTERS + 1 + THRESHOLDS.index(threshold), _CHARACTERS)

    def extractable(self, threshold: float) -> Estimate:
        """Return the share of windows whose suffix has at least this probability."""
        return self._ratio(_WINDOWS + 1 + THRESHOLDS.index(threshold), _WINDOWS)

    def mean_probability(self) -> Estimate:
        """Return the mean probability of a suffix."""
        return self._ratio(_WINDOWS + 1 + len(THRESHOLDS), _WINDOWS)

    def _ratio(self, part: int, whole: int) -> Estimate:
        if (part, whole) not in self._estimates:
            self._estimates[part, whole] = self._estimate(part, whole)
        return self._estimates[part, whole]

    def _estimate(self, part: int, whole: int) -> Estimate:
        if self._total[whole] == 0:
            return Estimate(math.nan, math.nan, math.nan)
        value = min(1.0, float(self._total[part] / self._total[whole]))
        low, high = wilson(value, self.blocks)
        if self.blocks >= _FEW_BLOCKS:
            drawn = self._replicates[:, whole]
            values = self._replicates[drawn > 0, part] / drawn[drawn > 0]
            if np.ptp(values) > 1e-12:
                low, high = map(float, percentiles(values))
        return Estimate(value, min(low, value), max(high, value))

    @cached_property
    def _replicates(self) -> Floats:
        """The sums of each replicate, [REPLICATES, sums]."""
        joined, first, block = [], [], []
        before = 0
        for text in self._texts:
            sums, cells = text.series.shape
            joined.append(np.concatenate([np.zeros((sums, 1)), np.cumsum(np.tile(text.series, 2), axis=1)], axis=1))
            # A block can begin at every cell of every text.
            first.append(before + np.arange(cells))
            block.append(np.full(cells, text.block))
            before += 2 * cells + 1
        sums_before, starts, lengths = np.concatenate(joined, axis=1), np.concatenate(first), np.concatenate(block)
        generator, blocks = np.random.default_rng(_SEED), self.blocks
        parts = []
        for done in range(0, REPLICATES, step := max(1, _DRAWN_AT_ONCE // blocks)):
            drawn: Ints = generator.integers(len(starts), size=(min(step, REPLICATES - done), blocks))
            ends = sums_before[:, starts[drawn] + lengths[drawn]]
            parts.append((ends - sums_before[:, starts[drawn]]).sum(axis=2).T)
        return np.concatenate(parts)
