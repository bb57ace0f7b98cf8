"""The audit's tables, and their rows as arrays by model and text."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from harness.audits.near_results import NEAR
from harness.audits.schemes import SCHEMES, Scheme
from harness.core.arrays import Bools, Floats, Ints
from harness.core.audit import RowsOf
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
    found = rows(WINDOWS.name)
    model, text, window = (np.asarray(found[name], np.int64) for name in ("model", "text", "window"))
    order = np.lexsort((window, text, model))
    order = order[_is_measured(found)[order]]
    model, text = model[order], text[order]
    start, cut, end = (np.asarray(found[name], np.int64)[order] for name in ("start", "cut", "end"))
    logs = np.array([np.asarray(found[scheme.value], np.float64)[order] for scheme in SCHEMES])
    edges = [0, *(np.flatnonzero(np.diff(model) | np.diff(text)) + 1).tolist(), len(order)]
    return [
        Measured(int(model[first]), int(text[first]), start[part], cut[part], end[part], logs[:, part])
        for first, stop in pairwise(edges)
        if stop > first and (part := slice(first, stop))
    ]


def count_unmeasured(rows: RowsOf) -> int:
    """Return the number of windows that an endpoint could not measure."""
    return int((~_is_measured(rows(WINDOWS.name))).sum())


def _is_measured(found: Rows) -> Bools:
    """Return which windows have a probability under some scheme, [windows]."""
    return np.asarray(~np.isnan([np.asarray(found[scheme.value], np.float64) for scheme in SCHEMES]).all(axis=0))


def read_counts(rows: RowsOf) -> Mapping[tuple[int, int], tuple[int, int]]:
    """Return the numbers of windows and of near-verbatim windows by model and text."""
    counts = rows(COUNTS.name)
    columns = (np.asarray(counts[name], np.int64).tolist() for name in ("model", "text", "windows", "near"))
    return {(model, text): (windows, near) for model, text, windows, near in zip(*columns, strict=True)}
