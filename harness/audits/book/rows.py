"""The audit's table, and its rows as arrays by model and text."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from harness.audits.near_results import NEAR
from harness.audits.schemes import SCHEMES, Scheme
from harness.core.arrays import Floats, Ints
from harness.core.audit import RowsOf
from harness.core.rows import Kind, table

WINDOWS = table(
    "window",
    model=Kind.INTEGER,
    text=Kind.INTEGER,
    start=Kind.INTEGER,
    cut=Kind.INTEGER,
    end=Kind.INTEGER,
    **{scheme.value: Kind.REAL for scheme in SCHEMES},
)
"""A window: its characters, and the log-probability of its suffix under each scheme, NaN for those not measured."""
COUNTS = table("count", model=Kind.INTEGER, text=Kind.INTEGER, windows=Kind.INTEGER)
"""The number of windows of a text in the tokens of a model."""
TABLES = (WINDOWS, COUNTS, NEAR)


@dataclass(frozen=True)
class Measured:
    """The measured windows of one text under one model, in order of their start.

    start, cut, end: [n] int64. log_probabilities: [schemes, n], of the suffixes under each of `SCHEMES`. windows: how
    many windows the text has.
    """

    model: int
    text: int
    start: Ints
    cut: Ints
    end: Ints
    log_probabilities: Floats
    windows: int

    def __len__(self) -> int:
        return len(self.start)

    def log_probability(self, scheme: Scheme) -> Floats:
        """The log-probability of each suffix under `scheme`, [n]."""
        return np.asarray(self.log_probabilities[SCHEMES.index(scheme)])


def read_measured(rows: RowsOf) -> list[Measured]:
    """Return the measured windows by model and text, in the order in which these were named."""
    found = rows(WINDOWS.name)
    model, text, start = (np.asarray(found[name], np.int64) for name in ("model", "text", "start"))
    order = np.lexsort((start, text, model))
    model, text, start = model[order], text[order], start[order]
    cut, end = (np.asarray(found[name], np.int64)[order] for name in ("cut", "end"))
    logs = np.array([np.asarray(found[scheme.value], np.float64)[order] for scheme in SCHEMES])
    counts = rows(COUNTS.name)
    windows = {
        (int(each[0]), int(each[1])): int(each[2])
        for each in zip(counts["model"], counts["text"], counts["windows"], strict=True)
    }
    edges = [0, *(np.flatnonzero(np.diff(model) | np.diff(text)) + 1).tolist(), len(order)]
    measured = []
    for first, stop in pairwise(edges):
        if stop > first:
            part, key = slice(first, stop), (int(model[first]), int(text[first]))
            count = windows.get(key, stop - first)
            measured.append(Measured(*key, start[part], cut[part], end[part], logs[:, part], count))
    return measured
