"""The 95 % band around a curve of recall vs. errors."""

from typing import NamedTuple

import numpy as np

from harness.analysis.parts import Part
from harness.core.arrays import Floats, Ints
from harness.core.intervals import JudgedRows, recall_interval
from harness.core.scoring import log_spaced

_CAPS = 12
_REPLICATES = 200
"""Fewer than those of a score: the band is drawn in characters, and again while the run goes on."""


class CurveBand(NamedTuple):
    """low, high: [points] the bounds of recall at each of `errors` [points], with 200 replicates."""

    errors: Ints
    low: Floats
    high: Floats


def curve_band(submission: JudgedRows, part: Part) -> CurveBand:
    """Return the pointwise 95 % intervals of recall at a few error caps from 1 to all wrong rows; the cap is one."""
    rows = part.rows_of(submission)
    wrong = int((~rows.is_correct).sum())
    errors = np.union1d(log_spaced(wrong + 1, most=_CAPS), min(part.cap, wrong + 1))
    bounds = [
        recall_interval(*rows, cap=int(cap), examples=len(part), clusters=part.clusters, replicates=_REPLICATES)[:2]
        for cap in errors
    ]
    low, high = np.array(bounds, np.float64).T
    return CurveBand(errors, low, high)
