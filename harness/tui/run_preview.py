"""The preview of a run: the running curve and the figures, read from its record without its guesses."""

from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Floats
from harness.core.text import NO_VALUE, format_score
from harness.core.times import date_and_time
from harness.runs.errors import as_harness_error
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from harness.runs.summary import RunSummary


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


def preview_facts(summary: RunSummary) -> list[tuple[str, str]]:
    """Return the figures of a run as labels and values."""
    recall, first, bound = "blind round" if summary.is_blind else NO_VALUE, "", ""
    if summary.known_recall is not None:
        recall = f"{format_score(summary.known_recall)}{summary.interval_text}"
        first = "" if summary.exact_at_1 is None else format_score(summary.exact_at_1)
        bound = "" if summary.any_of_n is None else f"{format_score(summary.any_of_n)} (any guess)"
    facts = [
        (f"Recall@{summary.error_cap}" if summary.error_cap else "Recall", recall),
        ("exact@1", first),
        ("upper bound", bound),
        ("status", summary.status.words),
        ("", summary.reason),
        ("round", summary.round),
        ("parameters", summary.changed_text),
        ("tags", " ".join(summary.tags)),
        ("group", summary.parent or ""),
        ("target", summary.target or ""),
        ("budget", summary.time_text),
        ("guesses", f"{summary.guesses:,}"),
        ("device", summary.device or ""),
        ("started", date_and_time(summary.created_at)),
        ("note", summary.note),
    ]
    return [(label, value) for label, value in facts if value]
