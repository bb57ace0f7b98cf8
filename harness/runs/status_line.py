"""A run in one line, and the last lines of its log."""

import os
from pathlib import Path

from harness.core.text import format_number, pluralize, sanitize, shorten
from harness.runs.facts import score_text
from harness.runs.folder import RunFolder
from harness.runs.status import Status
from harness.runs.summary import RunSummary

_FIGURES_IN_A_LINE = 2
_LOG_END_BYTES = 8 << 10
_LONGEST_LOG_LINE = 200


def status_line(summary: RunSummary) -> str:
    """Return the run in one line: status, time spent of the budget, progress, ETA, guesses, recall at the error cap."""
    parts = [
        summary.id,
        f"queued ({sanitize(summary.reason.rstrip('.'))})" if summary.status is Status.QUEUED else summary.status.words,
        summary.time_text,
    ]
    if summary.progress_text:
        parts.append(summary.progress_text)
    if summary.has_score:
        parts += [f"{summary.guesses:,} guesses", score_text(summary)]
    else:
        parts.append(pluralize(summary.guesses, "row"))
        figures = [(name, value) for name, value in summary.figures.items() if value is not None]
        for name, value in figures[:_FIGURES_IN_A_LINE]:
            of = summary.figure_counts.get(name)
            parts.append(f"{sanitize(name)} {format_number(value)}{f' of {of:,}' if of else ''}")
    return " · ".join(parts)


def failure_text(summary: RunSummary) -> str:
    """Return why a run crashed or was lost, with the last line of its log and the command that prints the log."""
    text = f"{summary.id} {summary.status}: {sanitize(summary.reason)}"
    line = _last_log_line(RunFolder(Path(summary.directory)))
    return text if line is None else f'{text} Last line of its log: "{line}". See harness show {summary.id} --log.'


def last_log_lines(folder: RunFolder, limit: int) -> list[str]:
    """Return the last lines of the log, of up to `limit` bytes; none if it cannot be read."""
    try:
        with folder.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - limit))
            lines = file.read(limit).decode(errors="replace").splitlines()
    except OSError:
        return []
    return lines[1:] or lines if size > limit else lines


def _last_log_line(folder: RunFolder) -> str | None:
    """Return the last line of the log that is not empty, shortened and safe to print; None without one."""
    lines = reversed(last_log_lines(folder, _LOG_END_BYTES))
    last = next((line.strip() for line in lines if line.strip()), None)
    return None if last is None else shorten(sanitize(last), _LONGEST_LOG_LINE)
