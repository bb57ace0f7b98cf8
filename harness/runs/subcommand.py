"""Commands of the harness that run in a process of their own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from typing import IO, Any

from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.text import shorten

PROGRAM = (sys.executable, "-P", "-m", "harness")
_PROGRESS_BYTES = 4096
_ERRORS = ("harness: ", "Error: ")
_POLL_SECONDS = 0.05
_INTERRUPT_SECONDS = 60.0
"""Longer than a supervisor takes to start, during which a command cannot be interrupted."""
_INTERRUPTED_CODES = (130, -signal.SIGINT, -signal.SIGKILL)
"""With another code a cancelled command failed, perhaps with a run that goes on."""


def run_subcommand(
    command: Sequence[str],
    *,
    on_progress: Callable[[str], object],
    is_cancelled: Callable[[], bool] = lambda: False,
    is_abandoned: Callable[[], bool] = lambda: False,
    answer_codes: Collection[int] = (0,),
) -> dict[str, Any] | None:
    """Run `harness COMMAND --json` and return the object that it prints.

    `on_progress` gets each new line of the command's stderr. Once `is_cancelled`, the process is interrupted and
    awaited; the result is None unless it had done its work. It is None once `is_abandoned`, which leaves it running.
    answer_codes: the exit codes with which a printed object is an answer.
    Raises HarnessError with the last error on stderr if the command fails, also while it is cancelled: a run that it
    has started may go on. A KeyboardInterrupt interrupts the process.
    """
    # Files, not pipes: a process that writes to a closed pipe would die once its reader is gone.
    with contextlib.ExitStack() as files:
        try:
            stdout, stderr = (files.enter_context(tempfile.TemporaryFile()) for _ in range(2))
            process = subprocess.Popen(
                [*PROGRAM, *command, "--json"],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=paths.environment_with_package(),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise HarnessError(f"harness {command[0]} cannot be started ({error}).") from None
        progress, interrupted_at = "", None
        try:
            while process.poll() is None:
                if is_abandoned():
                    return None
                if interrupted_at is None and is_cancelled():
                    interrupted_at = time.monotonic()
                    # As from Ctrl-C, so that the command removes its temporary files.
                    process.send_signal(signal.SIGINT)
                elif interrupted_at is not None and time.monotonic() > interrupted_at + _INTERRUPT_SECONDS:
                    process.kill()
                if (line := _plain(_lines(stderr)[-1])) != progress:
                    progress = line
                    on_progress(line)
                time.sleep(_POLL_SECONDS)
        except KeyboardInterrupt:
            _interrupt(process)
            raise
        try:
            stdout.seek(0)
            answer = json.loads(stdout.read())
        except ValueError:
            answer = None
        # An interpreter that is interrupted while it imports may end with any exception, such as a RuntimeError.
        has_no_error = answer is None and not any(line.startswith(_ERRORS) for line in _lines(stderr))
        is_interrupted = process.returncode in _INTERRUPTED_CODES or (process.returncode == 1 and has_no_error)
        if interrupted_at is not None and is_interrupted:
            return None
        if process.returncode not in answer_codes or (process.returncode and not isinstance(answer, dict)):
            raise HarnessError(
                _last_error(stderr)
                or f"harness {command[0]} failed without a message (exit code {process.returncode})."
            )
        if not isinstance(answer, dict):
            raise HarnessError(f"harness {command[0]} --json did not print a JSON object.")
        return answer


def _interrupt(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_INTERRUPT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_error(stderr: IO[bytes]) -> str:
    """Return the last line that is marked as an error, or else the last line."""
    lines = _lines(stderr)
    return _plain(next((line for line in reversed(lines) if line.startswith(_ERRORS)), lines[-1]))


def _lines(stderr: IO[bytes]) -> list[str]:
    # pread: a seek would also move the position at which the process writes.
    start = max(0, os.fstat(stderr.fileno()).st_size - _PROGRESS_BYTES)
    text = os.pread(stderr.fileno(), _PROGRESS_BYTES, start).decode(errors="replace").strip()
    return [line.rpartition("\r")[2] for line in text.split("\n")]


def _plain(line: str) -> str:
    for prefix in _ERRORS:
        line = line.removeprefix(prefix)
    return shorten(line, 500)
