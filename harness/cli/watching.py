"""Follow a run from a terminal: the status line, the outcome, and the log as it grows."""

import codecs
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

import typer

from harness.cli.output import print_json, sanitize, say
from harness.cli.progress import StatusLine
from harness.core.errors import HarnessError
from harness.runs.facts import score_text
from harness.runs.folder import RunFolder
from harness.runs.status import Status
from harness.runs.status_line import failure_text, status_line
from harness.runs.summary import RunSummary, run_status, run_summary

EXIT_INCOMPLETE = 3
"""Exit code of a run that ran out of time or was stopped, and of a verification that differs."""

_REFRESH_SECONDS = 0.5
_FIRST_REFRESH_SECONDS = 0.1
_FIRST_SECONDS = 3.0
_SECONDS_BETWEEN_LINES = 30.0


def follow(folder: RunFolder, *, json: bool) -> None:
    """Show the run until it is over, then print its outcome. Ctrl-C ends only the showing.

    Raises HarnessError if the run crashed or was lost, and typer.Exit(3) if it ran out of time or was stopped.
    """
    summary = _wait_for_end(folder)
    if json:
        print_json(summary.as_json())
    elif not summary.has_score:
        say(f"`harness show {summary.id}` prints what it found")
    elif summary.status not in (Status.CRASHED, Status.LOST):
        _print_outcome(summary)
    _exit_as(summary)


@contextlib.contextmanager
def interrupts_after_start(run_id: str) -> Iterator[threading.Event]:
    """Let Ctrl-C end the block only as long as the run has no record, so that no run starts without being named.

    Afterwards Ctrl-C sets the event, and the block is completed.
    """
    record, is_interrupted = RunFolder.of(run_id).spec_file, threading.Event()

    def handle(number: int, frame: object) -> None:
        if not record.exists():
            raise KeyboardInterrupt
        is_interrupted.set()

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield is_interrupted
        return
    signal.signal(signal.SIGINT, handle)
    try:
        yield is_interrupted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def start_and_follow(run_id: str, start: Callable[[], RunFolder], *, detach: bool, json: bool) -> None:
    """Start a run, then follow it, or only name it. Raises as `start` and `follow` do."""
    with interrupts_after_start(run_id) as is_interrupted:
        folder = start()
        if detach:
            print_detached(folder, json=json)
            return
    if is_interrupted.is_set():
        leave(folder)
    follow_or_detach(folder, detach=False, json=json)


def leave(folder: RunFolder) -> NoReturn:
    """Say that the run continues, and raise typer.Exit(130), the exit code of Ctrl-C."""
    say(f"{folder.id} continues. `harness watch {folder.id}` shows it, `harness stop {folder.id}` stops it.")
    raise typer.Exit(130)


def follow_or_detach(folder: RunFolder, *, detach: bool, json: bool) -> None:
    """Follow a run that has just started, or only name it. Raises as `follow` does."""
    if detach:
        print_detached(folder, json=json)
        return
    say(f"run {folder.id} · Ctrl-C leaves it running")
    follow(folder, json=json)


def print_detached(folder: RunFolder, *, json: bool) -> None:
    """Print the id of a run that continues in the background."""
    if json:
        print_json(run_summary(folder).as_json())
    else:
        print(folder.id)
        say(f"`harness watch {folder.id}` follows it, `harness show {folder.id}` prints what it found.")


def follow_audit(folder: RunFolder) -> None:
    """Show the audit until it is over. Raises as `follow` does; the caller prints the findings."""
    _exit_as(_wait_for_end(folder))


def _wait_for_end(folder: RunFolder) -> RunSummary:
    """Show the run on a status line, and return its summary once it is over."""
    began = time.monotonic()
    try:
        with StatusLine(seconds=_SECONDS_BETWEEN_LINES) as line:
            while True:
                summary = run_summary(folder)
                warning = f"\n! {sanitize(summary.warning)}" if summary.warning else ""
                line.update(status_line(summary) + warning, key=(summary.status.words, warning))
                if summary.status.is_over:
                    return summary
                is_young = time.monotonic() - began < _FIRST_SECONDS
                time.sleep(_FIRST_REFRESH_SECONDS if is_young else _REFRESH_SECONDS)
    except KeyboardInterrupt:
        leave(folder)


def log_lines(folder: RunFolder, *, follow: bool) -> Iterator[str]:
    """Yield the lines of the log, then, with `follow`, each new line until the run is over."""
    if not folder.log.exists() and not follow:
        raise HarnessError(f"{folder.id} has no log: its worker never started. `harness show {folder.id}` says why.")
    position, pending = 0, ""
    # A character may be split between two reads.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        is_over = run_status(folder).is_over
        if folder.log.exists():
            if folder.log.stat().st_size < position:
                position = 0
                decoder.reset()
            with folder.log.open("rb") as file:
                file.seek(position)
                chunk = file.read()
            position += len(chunk)
            *lines, pending = (pending + decoder.decode(chunk)).split("\n")
            yield from lines
        if not follow or is_over:
            break
        time.sleep(_REFRESH_SECONDS)
    pending += decoder.decode(b"", final=True)
    if pending:
        yield pending


def _print_outcome(summary: RunSummary) -> None:
    if summary.rows_left_out:
        say(f"{summary.rows_left_out:,} rows beyond the round's row cap were left out.")
    if summary.is_blind:
        print(f"blind round: {summary.rows or 0:,} rows, no score")
    elif summary.recall_at_cap is not None:
        print(score_text(summary))
    if summary.submission is not None:
        print(summary.submission)


def _exit_as(summary: RunSummary) -> None:
    """Raise what gives the command the exit code of the run's status."""
    if summary.status in (Status.CRASHED, Status.LOST):
        raise HarnessError(failure_text(summary))
    if summary.reason:
        say(f"{summary.status.words}: {sanitize(summary.reason)}")
    if summary.status is not Status.FINISHED:
        raise typer.Exit(EXIT_INCOMPLETE)
