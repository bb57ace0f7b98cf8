"""Starting, resuming and stopping supervisors: they go on when the terminal that asked for them is gone."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.files import sync_folder, write_atomically
from harness.core.paths import runs_home
from harness.core.spec import AttackSpec, AuditSpec, JobSpec
from harness.core.times import format_duration
from harness.plugins.discovery import AttackFile
from harness.runs.errors import as_harness_error
from harness.runs.folder import RunFolder
from harness.runs.planning import what_changed, what_changed_of_audit
from harness.runs.reader import RunReader
from harness.runs.status import ALREADY_SUPERVISED, Process, Status, process_in
from harness.runs.summary import NEARLY_FULL_BYTES, run_status

_OBSERVABLE_WITHIN_SECONDS = 30.0
_GONE_WITHIN_SECONDS = 30.0


def start_run(spec: AttackSpec, attack: AttackFile) -> RunFolder:
    """Make the run's private directory, with its record and a copy of the attack's source, and start its supervisor.

    Raises HarnessError when the supervisor does not come up.
    """

    def laid(folder: RunFolder) -> AttackSpec:
        folder.code.mkdir()
        shutil.copyfile(attack.path, folder.code / spec.attack.file)
        if spec.target is not None and (tokenizer := spec.target.path / "tokenizer.json").is_file():
            shutil.copyfile(tokenizer, folder.tokenizer)
        return spec

    return started_job(spec.id, laid)


def started_job(id_: str, laid: Callable[[RunFolder], JobSpec]) -> RunFolder:
    """Make the private directory of the run `id_`, have `laid` lay its files there, and start its supervisor.

    Raises HarnessError when it cannot be written, and then nothing of it stays, or the supervisor does not come up.
    """
    folder = RunFolder(runs_home() / id_)
    try:
        runs_home().mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.path.mkdir(mode=0o700)
    except OSError as error:
        raise HarnessError(
            f"{folder.path}: cannot be made ({error.strerror}); HARNESS_HOME names another place."
        ) from None
    try:
        write_atomically(folder.spec_file, laid(folder).model_dump_json(indent=2) + "\n")
        sync_folder(runs_home())
    except OSError as error:
        shutil.rmtree(folder.path, ignore_errors=True)
        raise HarnessError(f"{folder.path}: cannot be written ({error.strerror}); nothing was started.") from None
    start_supervisor(folder)
    return folder


def resume_run(folder: RunFolder, *, weights_sha256: Sequence[str | None]) -> None:
    """Go on with a run that is over but neither finished nor out of time; `weights_sha256` is each of its models', now.

    Raises HarnessError when it still goes on, has nothing left to do or to spend, or when an input is not what it was.
    """
    spec, status = folder.job(), run_status(folder)
    if not status.is_over:
        raise HarnessError(f"{folder.id} is {status}; harness watch {folder.id} follows it.")
    if status is Status.FINISHED:
        raise HarnessError(f"{folder.id} is finished; there is nothing left to do.")
    if status is Status.OUT_OF_TIME:
        raise HarnessError(
            f"{folder.id} has spent its budget of {format_duration(spec.budget)}; a longer one is another run."
        )
    if isinstance(spec, AuditSpec):
        changed = what_changed_of_audit(spec, folder.inputs, weights_sha256)
    else:
        changed = what_changed(spec, folder.code / spec.attack.file, next(iter(weights_sha256), None))
    if changed:
        raise HarnessError(f"{folder.id} cannot go on: {', '.join(changed)} changed since it began; start a new run.")
    _wait_for_departing_supervisor(folder)
    start_supervisor(folder)


def start_supervisor(folder: RunFolder) -> None:
    """Start a supervisor of its own session for the run; returns once the run can be observed.

    Raises HarnessError when it does not come up (the run's supervisor.log says why), or when the run has one.
    """
    seen = _supervisors_seen(folder)
    with folder.supervisor_log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "harness.supervisor.supervisor", str(folder.path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=os.environ | {"PYTHONPATH": str(paths.PACKAGE.parent)} | _absolute_homes(),
            start_new_session=True,
        )
    until = time.monotonic() + _OBSERVABLE_WITHIN_SECONDS
    while time.monotonic() < until:
        code = process.poll()
        if code == ALREADY_SUPERVISED:
            raise HarnessError(f"{folder.id} goes on already; harness watch {folder.id} follows it.")
        if _supervisors_seen(folder) > seen:
            return
        if code is not None:
            break
        time.sleep(0.01)
    if shutil.disk_usage(folder.path).free < NEARLY_FULL_BYTES:
        raise HarnessError(f"the supervisor of {folder.id} did not start: its disk is full; make room and try again.")
    raise HarnessError(f"the supervisor of {folder.id} did not start; see {folder.supervisor_log}.")


def stop_run(folder: RunFolder, *, wait: bool = True) -> Status:
    """Ask the run's supervisor to end it; its status afterwards. What is over already stays as it is.

    Raises HarnessError when the run cannot be read, or is another user's.
    """
    status = run_status(folder)
    if status.is_over:
        return status
    is_asked = False
    until = time.monotonic() + _GONE_WITHIN_SECONDS
    while not (status := run_status(folder)).is_over and time.monotonic() < until:
        supervisor = _supervisor_of(folder)
        if supervisor is not None and supervisor.is_alive and not is_asked:
            is_asked = True
            try:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(supervisor.pid, signal.SIGTERM)
            except PermissionError:
                raise HarnessError(f"{folder.id} is another user's run: only that user can stop it.") from None
        if is_asked and not wait:
            break
        time.sleep(0.05)
    return status


def _wait_for_departing_supervisor(folder: RunFolder) -> None:
    """A run's last phase stands in its record a moment before its supervisor is gone."""
    until = time.monotonic() + _GONE_WITHIN_SECONDS
    while (supervisor := _supervisor_of(folder)) is not None and supervisor.is_alive and time.monotonic() < until:
        time.sleep(0.02)


def _supervisor_of(folder: RunFolder) -> Process | None:
    """The last supervisor that the run's record names."""
    if not folder.store.exists():
        return None
    with as_harness_error(folder.path), RunReader(folder.store) as reader:
        record = reader.last_event("supervisor")
        return None if record is None else process_in(record)


def _supervisors_seen(folder: RunFolder) -> int:
    """How many supervisors the run's record names."""
    if not folder.store.exists():
        return 0
    with RunReader(folder.store) as reader:
        return sum(name == "supervisor" for _, _, name, _ in reader.events())


def _absolute_homes() -> dict[str, str]:
    """The harness's places as this process sees them, since the supervisor works in another folder."""
    homes: dict[str, Path] = {
        "HARNESS_DATA": paths.data_home(),
        "HARNESS_HOME": paths.state_home(),
        "HARNESS_CACHE": paths.cache_home(),
    }
    return {name: str(path) for name, path in homes.items()}
