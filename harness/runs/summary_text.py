"""A run on one line: how a terminal and a notebook show it."""

import os
from pathlib import Path

from harness.core.text import format_number, format_score, pluralize, sanitize, shorten
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
        parts += [
            f"{sanitize(name.replace('_', ' '))} {format_number(value)}" for name, value in figures[:_FIGURES_IN_A_LINE]
        ]
    return " · ".join(parts)


def score_text(summary: RunSummary) -> str:
    """Return, for example, `Recall@100: 0.301 [0.256, 0.357]`, or why there is no score."""
    if summary.is_blind:
        return "blind round"
    if summary.known_recall is None:
        return "no score" if summary.status.is_over else "no score yet"
    part = " (a part of the round)" if summary.is_partial else ""
    return f"Recall@{summary.error_cap:,}: {format_score(summary.known_recall)}{summary.interval_text}{part}"


def failure_text(summary: RunSummary) -> str:
    """Return why a run crashed or was lost, with the last line of its log and the command that prints the log."""
    text = f"{summary.id} {summary.status}: {sanitize(summary.reason)}"
    line = _last_log_line(RunFolder(Path(summary.directory)))
    return text if line is None else f'{text} Last line of its log: "{line}". See harness logs {summary.id}.'


def _last_log_line(folder: RunFolder) -> str | None:
    """Return the last line of the log that is not empty, shortened and safe to print; None without one."""
    try:
        with folder.log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_END_BYTES))
            lines = file.read(_LOG_END_BYTES).decode(errors="replace").split("\n")
    except OSError:
        return None
    last = next((line.strip() for line in reversed(lines) if line.strip()), None)
    return None if last is None else shorten(sanitize(last), _LONGEST_LOG_LINE)
