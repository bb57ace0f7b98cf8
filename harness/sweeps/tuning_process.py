"""The process that continues a tuning: there is at most one, it can run without a terminal, and it can be stopped."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.files import create_folder, file_errors, is_locked, read_start, try_lock
from harness.core.inputs import as_harness_error
from harness.runs.launch import stop_run
from harness.runs.status import Process
from harness.runs.subcommand import PROGRAM
from harness.sweeps.tuning import TUNINGS, Tuning, runs_of

_STARTS_WITHIN_SECONDS = _ENDS_WITHIN_SECONDS = 60.0
# A process first locks the file and then writes its name there.
_NAMED_WITHIN_SECONDS = 5.0
_POLL_SECONDS = 0.05


def lock_file(id_: str) -> Path:
    """Return the file that the process of a tuning locks. It names the process."""
    return TUNINGS.file_of(id_).with_suffix(".lock")


def log_file(id_: str) -> Path:
    """Return the file with the output of a tuning without a terminal."""
    return TUNINGS.file_of(id_).with_suffix(".log")


def is_at_work(id_: str) -> bool:
    """Return True if a process continues the tuning, in this PID namespace or any other. A lock that cannot be read
    belongs to none.
    """
    try:
        return is_locked(lock_file(id_))
    except (HarnessError, OSError):
        return False


def state_of(tuning: Tuning, runs: int) -> str:
    """Return `running`, `finished` or `not running`. runs: how many there are."""
    return "running" if is_at_work(tuning.id) else "finished" if runs >= tuning.runs else "not running"


@contextlib.contextmanager
def tuning_lock(id_: str) -> Iterator[None]:
    """Continue a tuning in this process. Raises HarnessError if another one does."""
    file = lock_file(id_)
    with file_errors(file, "written", "Set --home to another directory."):
        create_folder(file.parent)
        lock = try_lock(file)
    if lock is None:
        raise HarnessError(f"another process continues {id_}. `harness stop {id_}` stops it.")
    with lock:
        lock.truncate()
        lock.write(json.dumps(Process.of(os.getpid()).as_record()).encode())
        try:
            yield
        finally:
            if not TUNINGS.file_of(id_).exists():  # no run was started
                file.unlink(missing_ok=True)


def start_tuning(id_: str, options: Sequence[str] = ()) -> None:
    """Continue a tuning in a process of its own, with options of `harness resume`.

    Raises HarnessError if it does not start.
    """
    with file_errors(log_file(id_), "written"), log_file(id_).open("ab") as log:
        process = subprocess.Popen(
            [*PROGRAM, "resume", id_, *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=paths.environment_with_package(),
            start_new_session=True,
        )
    until = time.monotonic() + _STARTS_WITHIN_SECONDS
    while process.poll() is None and not is_at_work(id_) and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
    if process.returncode:
        raise HarnessError(f"{id_} did not start. See {log_file(id_)}.")


def stop_tuning(id_: str) -> None:
    """Interrupt the process of a tuning, and stop its run at work. One that is over stays as it is.

    Raises HarnessError if the process is in another container, or does not end.
    """
    until, asked = time.monotonic() + _ENDS_WITHIN_SECONDS, None
    while is_at_work(id_):
        process = _process_of(id_)
        if process is None:
            continue
        if not process.is_here and is_at_work(id_):
            raise HarnessError(f"{id_} runs in another container or on another host. Stop it there.")
        if process != asked:
            with file_errors(lock_file(id_), "signalled"):
                os.kill(process.pid, signal.SIGINT)
            asked = process
        if time.monotonic() > until:
            raise HarnessError(f"{id_} did not end within {_ENDS_WITHIN_SECONDS:g} s. See {log_file(id_)}.")
        time.sleep(_POLL_SECONDS)
    for run in runs_of(id_):
        if run.status is not None and not run.status.is_over:
            stop_run(run.folder)


def _process_of(id_: str) -> Process | None:
    """Return the process that its lock names, or None if the tuning ends before it names one.

    Raises HarnessError if the lock names none, or one that ended before, for five seconds.
    """
    until = time.monotonic() + _NAMED_WITHIN_SECONDS
    while is_at_work(id_):
        is_late, text = time.monotonic() > until, b""
        with contextlib.suppress(FileNotFoundError):  # the tuning has just ended
            text = read_start(lock_file(id_))
        if text:
            with as_harness_error(lock_file(id_)):
                process = Process.from_record(json.loads(text))
            if process.is_here or is_late:
                return process
        elif is_late:
            raise HarnessError(f"{lock_file(id_)} names no process. `fuser {lock_file(id_)}` finds the one to stop.")
        time.sleep(_POLL_SECONDS)
    return None
