"""The measured windows of texts, the characters that they cover, and the uncertainty of shares by block bootstrap.

Windows overlap, so neighbours are not independent. A replicate draws blocks of consecutive characters with replacement
from all texts. A block lies in one text, whose end is joined to its beginning (the circular block bootstrap, Politis
and Romano 1992), and a text that is shorter than a block is one block.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from harness.audits.book.inputs import THRESHOLDS
from harness.audits.near_results import NEAR, NEAR_MEASURES
from harness.audits.probabilities import DISCOVERABLE, SCHEMES, Scheme
from harness.core.arrays import Floats, Ints
from harness.core.audit import RowsOf, last_rows
from harness.core.intervals import percentiles, wilson
from harness.core.measures import NO_ESTIMATE, Estimate, Measure, Unit
from harness.core.rows import Kind, table

_OF_WINDOW = dict.fromkeys(("model", "text", "window", "start", "cut", "end"), Kind.INTEGER)
WINDOWS = table("window", **_OF_WINDOW, **{scheme.value: Kind.REAL for scheme in SCHEMES})
"""A window of a text, its characters, and the log-probability of its suffix under each scheme, NaN if not measured."""
COUNTS = table("count", model=Kind.INTEGER, text=Kind.INTEGER, windows=Kind.INTEGER, near=Kind.INTEGER)
"""The windows of a text in the tokens of a model, and those whose near-verbatim probability is to be measured."""
TABLES = (WINDOWS, COUNTS, NEAR)
_AT: Any = {"at": "p ≥ {}", "at_unit": Unit.BOUND, "at_name": "smallest probability of a suffix"}
COVERAGE = Measure(
    "coverage",
    "coverage",
    "the share of characters in a suffix of at least the given probability, among those in any measured suffix",
    Unit.PERCENT,
    **_AT,
)
GAP = Measure(
    "coverage_minus_control",
    "coverage − control",
    "the coverage of the texts minus that of the control",
    Unit.PERCENT,
    **_AT,
)
EXTRACTABLE = Measure(
    "extractable_windows",
    "windows",
    "the share of windows whose suffix has at least the given probability",
    Unit.PERCENT,
    **_AT,
)
MEAN = Measure("mean_probability", "mean probability", "the mean probability of the suffix of a window")
CHARACTERS = Measure("characters", "characters", "the characters of the text", Unit.NUMBER)
MEASURED_WINDOWS = Measure(
    "measured_windows", "windows measured", "the windows of the text that were measured", Unit.NUMBER
)
LONGEST = Measure(
    "longest_passage", "longest passage", "the characters of the longest run of covered characters", Unit.NUMBER, **_AT
)
MEASURES = (
    COVERAGE,
    GAP,
    EXTRACTABLE,
    MEAN,
    CHARACTERS,
    MEASURED_WINDOWS,
    LONGEST,
    *DISCOVERABLE.values(),
    *NEAR_MEASURES,
)
REPLICATES = 2000
_SEED = 20250501
_BLOCK_WINDOWS = 10
"""Length of a block in windows, but at most an eighth of all texts and at least one window."""
_FEWEST_BLOCKS, _MAX_BLOCKS = 8, 500
_FEW_BLOCKS = 5
"""With fewer blocks, an interval is Wilson's with one observation per block."""
_CELLS_OF_WINDOW = 4
"""Positions are summed by cells before blocks are drawn: the cells of a window."""
_DRAWN_AT_ONCE = 1 << 18
_CHARACTERS, _WINDOWS = 0, 1
"""Places of the numbers of characters and windows in the sums of a text. The sums of `_SHARES` follow."""
_SHARES = (
    *((COVERAGE, at, _CHARACTERS) for at in THRESHOLDS),
    *((EXTRACTABLE, at, _WINDOWS) for at in THRESHOLDS),
    (MEAN, None, _WINDOWS),
)
"""The measures that are shares, with their threshold and the place of the whole."""


@dataclass(frozen=True)
class TextWindows:
    """The measured windows of one text under one model, in order."""

    model: int
    text: int
    start: Ints
    """The character at which each window begins, [n]."""
    cut: Ints
    """The character at which its suffix begins, [n]."""
    end: Ints
    """The character after its last one, [n]."""
    logs: Mapping[Scheme, Floats]
    """The log-probability of each suffix, [n]."""

    def __len__(self) -> int:
        return len(self.start)


def read_windows(rows: RowsOf) -> tuple[list[TextWindows], int]:
    """Return the measured windows by model and text, in the order in which these were named.

    The second result is the number of windows that an endpoint could not measure.
    """
    columns = last_rows(rows(WINDOWS.name), "model", "text", "window")
    is_unmeasured = np.isnan([columns[scheme.value] for scheme in SCHEMES]).all(axis=0)
    columns = {name: values[~is_unmeasured] for name, values in columns.items()}
    parts = []
    for model, text in np.unique(np.column_stack([columns["model"], columns["text"]]), axis=0).tolist():
        part = last_rows(columns, model=model, text=text)
        logs = {scheme: part[scheme.value] for scheme in SCHEMES}
        parts.append(TextWindows(model, text, part["start"], part["cut"], part["end"], logs))
    return parts, int(is_unmeasured.sum())


class Passage(NamedTuple):
    """Characters `start` to `end` of a text, all covered at some threshold, and the largest probability among them."""

    start: int
    end: int
    probability: float


def character_peaks(windows: TextWindows, scheme: Scheme, length: int) -> Floats:
    """Return the largest probability of a suffix that contains each of `length` characters, NaN if none does."""
    peaks = np.full(length, np.nan)
    probabilities = np.exp(windows.logs[scheme])
    # The largest ones are written last.
    for window in np.argsort(probabilities, kind="stable"):
        peaks[windows.cut[window] : windows.end[window]] = probabilities[window]
    return peaks


def passages_of(peaks: Floats, threshold: float) -> list[Passage]:
    """Return the longest runs of characters whose probability is at least `threshold`, in order."""
    is_covered = np.concatenate([[False], peaks >= threshold, [False]])
    edges = np.flatnonzero(is_covered[1:] != is_covered[:-1])
    return [
        Passage(int(start), int(end), float(peaks[start:end].max()))
        for start, end in zip(edges[::2], edges[1::2], strict=True)
    ]


def window_length(parts: Sequence[TextWindows]) -> int:
    """Return the mean number of characters of a window, at least 1."""
    lengths = np.concatenate([part.end - part.start for part in parts])
    return max(1, round(float(lengths.mean())))


class TextSums(NamedTuple):
    """Sums over the cells of one text."""

    series: Floats
    """The characters in a measured suffix, the windows, and the sum of each of `_SHARES`, [sums, cells]."""
    cell: int
    """Characters of a cell."""
    block: int
    """Cells of a block."""


def sum_over_text(windows: TextWindows, scheme: Scheme, peaks: Floats, *, window: int, total: int) -> TextSums:
    """Return the sums of one text.

    peaks: [characters], the probabilities of its characters.
    window: `window_length`.
    total: characters of all texts.
    """
    length, cell = len(peaks), max(1, window // _CELLS_OF_WINDOW)
    cells = math.ceil(length / cell)
    probabilities = np.exp(windows.logs[scheme])
    of_character, of_window = np.arange(length) // cell, windows.start // cell
    series = [
        np.bincount(places, weights=values, minlength=cells)
        for places, values in (
            (of_character, ~np.isnan(peaks)),
            (of_window, np.ones(len(windows))),
            *((of_character, peaks >= threshold) for threshold in THRESHOLDS),
            *((of_window, probabilities >= threshold) for threshold in THRESHOLDS),
            (of_window, probabilities),
        )
    ]
    block = max(min(_BLOCK_WINDOWS * window, total // _FEWEST_BLOCKS), window, total // _MAX_BLOCKS)
    return TextSums(np.array(series), cell, min(cells, max(1, round(block / cell))))


def count_blocks(texts: Sequence[TextSums]) -> int:
    """Return the number of blocks of some texts."""
    return sum(math.ceil(text.series.shape[1] / text.block) for text in texts)


def estimate_shares(texts: Sequence[TextSums]) -> dict[tuple[Measure, float | None], Estimate]:
    """Return each of the shares of some texts with its 95 % interval, NaN without a measured window."""
    totals: Floats = np.sum([text.series.sum(axis=1) for text in texts], axis=0)
    blocks = count_blocks(texts)
    replicates = _replicates(texts, blocks) if blocks >= _FEW_BLOCKS else None
    shares = {}
    for place, (measure, at, whole) in enumerate(_SHARES, _WINDOWS + 1):
        if totals[whole] == 0:
            shares[measure, at] = NO_ESTIMATE
            continue
        value = min(1.0, float(totals[place] / totals[whole]))
        low, high = wilson(value, blocks)
        if replicates is not None:
            is_drawn = replicates[:, whole] > 0
            values = replicates[is_drawn, place] / replicates[is_drawn, whole]
            if np.ptp(values) > 1e-12:
                low, high = map(float, percentiles(values))
        shares[measure, at] = Estimate(value, min(low, value), max(high, value))
    return shares


def _replicates(texts: Sequence[TextSums], blocks: int) -> Floats:
    """Return the sums of each bootstrap replicate of some texts, [REPLICATES, sums]."""
    joined, first, block = [], [], []
    before = 0
    for text in texts:
        sums, cells = text.series.shape
        joined.append(np.concatenate([np.zeros((sums, 1)), np.cumsum(np.tile(text.series, 2), axis=1)], axis=1))
        # A block can begin at every cell of every text.
        first.append(before + np.arange(cells))
        block.append(np.full(cells, text.block))
        before += 2 * cells + 1
    sums_before, starts, lengths = np.concatenate(joined, axis=1), np.concatenate(first), np.concatenate(block)
    generator = np.random.default_rng(_SEED)
    parts = []
    for done in range(0, REPLICATES, step := max(1, _DRAWN_AT_ONCE // blocks)):
        drawn: Ints = generator.integers(len(starts), size=(min(step, REPLICATES - done), blocks))
        ends = sums_before[:, starts[drawn] + lengths[drawn]]
        parts.append((ends - sums_before[:, starts[drawn]]).sum(axis=2).T)
    return np.concatenate(parts)
