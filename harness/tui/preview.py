"""The preview of the run under the cursor."""

from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Floats
from harness.core.inputs import as_harness_error
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from harness.runs.summary import RunSummary

PREVIEW = (
    "recall",
    "exact_at_1",
    "any_guess_correct",
    "status",
    "round",
    "parameters",
    "tags",
    "parent",
    "target",
    "time",
    "guesses",
    "device",
    "created",
    "note",
)
"""The facts of the preview, in its order."""


@dataclass(frozen=True)
class Preview:
    """spent: [points] seconds of budget. values: [points] recall, or committed guesses if the round is blind."""

    summary: RunSummary
    spent: Floats
    values: Floats


def read_preview(folder: RunFolder, summary: RunSummary) -> Preview:
    """Return the preview of the run. Raises HarnessError if its record cannot be read."""
    points = []
    with as_harness_error(folder.path):
        if folder.store.exists():
            with RunReader(folder.store) as reader:
                points = reader.points()
    values = [float(point.guesses) if summary.is_blind else point.recall or 0.0 for point in points]
    return Preview(summary, np.array([point.spent for point in points], np.float64), np.array(values, np.float64))
