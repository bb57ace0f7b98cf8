"""Numbers over time, which plots show."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Floats
from harness.core.inputs import as_harness_error
from harness.runs.folder import RunFolder
from harness.runs.reader import Point, RunReader
from harness.runs.summary import RunSummary


@dataclass(frozen=True, eq=False)
class Series:
    """A number over time.

    title: of the axis of the number.
    at: [points] seconds, ascending.
    value: [points], NaN where there was no number.
    min_high: the axis reaches at least to this number.
    """

    title: str
    at: Floats
    value: Floats
    min_high: float = 0.05


def recall_series(points: Sequence[Point], summary: RunSummary) -> Series:
    """Return the recall of a run over the budget spent; in a blind round, the number of committed guesses."""
    title = "Guesses" if summary.is_blind else f"Recall@{summary.error_cap}"
    # numpy reads None as NaN.
    values = [point.guesses if summary.is_blind else point.recall for point in points]
    spent = np.array([point.spent for point in points], np.float64)
    return Series(title, spent, np.array(values, np.float64), min_high=1.0 if summary.is_blind else 0.05)


def read_recall(folder: RunFolder, summary: RunSummary) -> Series:
    """Return the recall of a run over time from its record. Raises HarnessError if it cannot be read."""
    points = []
    with as_harness_error(folder.path):
        if folder.store.exists():
            with RunReader(folder.store) as reader:
                points = reader.points()
    return recall_series(points, summary)
