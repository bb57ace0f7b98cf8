"""A run followed from a terminal, or from a file: the plain live line, and the log as it grows."""

import sys
import time
from collections.abc import Iterator

from harness.cli.output import fitted, pluralize, print_json, sanitize, say
from harness.core.errors import HarnessError
from harness.core.times import format_duration
from harness.runs.folder import RunFolder
from harness.runs.status import Status
from harness.runs.summary import RunSummary, run_summary

_REFRESH_SECONDS = 0.5
_FIRST_REFRESH_SECONDS = 0.1
_YOUNG_SECONDS = 3.0
_SECONDS_BETWEEN_LINES = 30.0
_FIGURES_IN_A_LINE = 2


def follow(folder: RunFolder, *, json: bool) -> None:
    """Show the run until it is over, then what came of it; Ctrl-C ends the showing alone.

    Raises HarnessError when the run ended badly, so that the exit code says so.
    """
    _tell_outcome(_followed(folder), json=json)


def follow_audit(folder: RunFolder) -> None:
    """The same for an audit, whose outcome is told elsewhere."""
    _tell_ending(_followed(folder))


def _followed(folder: RunFolder) -> RunSummary:
    """The run's summary once it is over.

    On a terminal one line is repainted meanwhile; elsewhere a line is written each half minute and on each change of
    status.
    """
    is_terminal = sys.stderr.isatty()
    began = time.monotonic()
    last_status: Status | None = None
    last_line_at = 0.0
    try:
        while True:
            summary = run_summary(folder)
            at = time.monotonic()
            if is_terminal:
                print(f"\r\x1b[2K{fitted(live_line(summary))}", end="", file=sys.stderr, flush=True)
            elif summary.status != last_status or at - last_line_at >= _SECONDS_BETWEEN_LINES:
                say(live_line(summary))
                last_line_at = at
            last_status = summary.status
            if summary.status.is_over:
                break
            is_young = at - began < _YOUNG_SECONDS
            time.sleep(_FIRST_REFRESH_SECONDS if is_young else _REFRESH_SECONDS)
    except KeyboardInterrupt:
        say(f"\n{folder.id} goes on; harness watch {folder.id} shows it, harness stop {folder.id} ends it.")
        raise SystemExit(130) from None
    if is_terminal:
        print(file=sys.stderr)
    return summary


def live_line(summary: RunSummary) -> str:
    """The run in one line: elapsed of budget, progress, ETA, guesses, recall at the cap."""
    parts = [
        summary.id,
        summary.status.words,
        f"{format_duration(summary.elapsed_s)} of {format_duration(summary.budget_s)}",
    ]
    if summary.progress is not None:
        parts.append(f"{summary.progress:.0%}")
    if summary.eta_s is not None:
        fits = "" if summary.eta_s <= summary.budget_s - summary.elapsed_s else " (beyond the budget)"
        parts.append(f"ETA {format_duration(summary.eta_s)}{fits}")
    if summary.kind == "audit":
        parts.append(pluralize(summary.guesses, "row"))
        told = [(name, value) for name, value in summary.figures.items() if value is not None]
        parts += [f"{sanitize(name.replace('_', ' '))} {value:.3g}" for name, value in told[:_FIGURES_IN_A_LINE]]
    else:
        parts.append(f"{summary.guesses:,} guesses")
        parts.append(score_in_words(summary))
    return " · ".join(parts)


def score_in_words(summary: RunSummary) -> str:
    """`recall at 100 errors: 0.301 [0.256, 0.357]`, or that there is none to tell."""
    if summary.is_blind:
        return "blind round"
    if summary.recall_at_cap is None:
        return "no score yet"
    interval = summary.recall_interval
    bounds = "" if interval is None else f" [{interval[0]:.3f}, {interval[1]:.3f}]"
    part = " (a part of the round)" if summary.is_partial else ""
    return f"recall at {pluralize(summary.error_cap, 'error')}: {summary.recall_at_cap:.3f}{bounds}{part}"


def log_lines(folder: RunFolder, *, last: int, follow: bool) -> Iterator[str]:
    """The log's last lines (0: all), then, with `follow`, each new one until the run is over."""
    if not folder.log.exists() and not follow:
        raise HarnessError(f"{folder.id} has no log: its worker never started.")
    position = 0
    pending = ""
    is_first = True
    while True:
        is_over = run_summary(folder).status.is_over
        if folder.log.exists():
            if folder.log.stat().st_size < position:
                position = 0
            with folder.log.open("rb") as file:
                file.seek(position)
                chunk = file.read()
            position += len(chunk)
            *lines, pending = (pending + chunk.decode(errors="replace")).split("\n")
            yield from lines[-last:] if is_first and last else lines
            is_first = False
        if not follow or is_over:
            break
        time.sleep(_REFRESH_SECONDS)
    if pending:
        yield pending


def _tell_outcome(summary: RunSummary, *, json: bool) -> None:
    if json or summary.kind == "audit":
        print_json(summary.as_json()) if json else say(f"harness audit show {summary.id} tells what it found")
    else:
        if summary.rows_left_out:
            say(f"{summary.rows_left_out:,} rows beyond the round's row cap were left out.")
        if not summary.is_blind and summary.recall_at_cap is not None:
            print(score_in_words(summary))
        elif summary.is_blind:
            print(f"blind round: {summary.rows or 0:,} rows, no score")
        if summary.submission is not None:
            print(summary.submission)
    _tell_ending(summary)


def _tell_ending(summary: RunSummary) -> None:
    if summary.status in (Status.CRASHED, Status.LOST):
        raise HarnessError(f"{summary.id} {summary.status}: {sanitize(summary.reason)}")
    if summary.reason:
        say(f"{summary.status}: {sanitize(summary.reason)}")
