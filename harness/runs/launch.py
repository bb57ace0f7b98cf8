"""Starting, resuming and stopping supervisors. They run on when the terminal that started them is closed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import zip_longest

from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.extras import require_extra
from harness.core.files import create_folder, file_errors, remove_tree, sync_tree, try_lock, write_atomically
from harness.core.inputs import as_harness_error, content_sha256
from harness.core.paths import runs_home
from harness.core.rounds import Round, load_round
from harness.core.spec import JobSpec
from harness.core.times import format_duration
from harness.runs.folder import RunFolder
from harness.runs.reader import last_event
from harness.runs.specs import AttackSpec, RunSpec
from harness.runs.status import ALREADY_SUPERVISED, Process, Status
from harness.runs.summary import LAUNCH_SECONDS, NEARLY_FULL_BYTES, run_status

_GONE_WITHIN_SECONDS = 30.0
_CLOSED_WITHIN_SECONDS = 10.0
"""Seconds in which a supervisor that has recorded the end of its run releases the lock."""
_RECORDED_WITHIN_SECONDS = 3.0
"""Seconds in which a supervisor that holds the lock writes its process into the run's record."""


def start_job(run_id: str, prepare: Callable[[RunFolder], JobSpec]) -> RunFolder:
    """Create the private directory of run `run_id`, let `prepare` fill it, and start its supervisor.

    Raises HarnessError if the directory cannot be written or locked or a library is missing (nothing of it stays), or
    if the supervisor does not start.
    """
    folder = RunFolder.of(run_id)
    with file_errors(folder.path, "created", "Set --home or HARNESS_HOME to another directory."):
        create_folder(runs_home())
        if folder.path.is_dir() and not folder.spec_file.exists() and not folder.is_alive:
            # A preparation that was killed.
            remove_tree(folder.path)
        folder.path.mkdir(mode=0o700)
    try:
        with file_errors(folder.path, "written", "Nothing was started."):
            # Some file systems have no locks.
            _wait_for_lock(folder)
            spec = prepare(folder)
            _require_libraries(spec)
            write_atomically(folder.spec_file, spec.model_dump_json(indent=2) + "\n")
            # The supervisor begins with a run that a power loss leaves complete.
            sync_tree(folder.path)
    except BaseException:
        remove_tree(folder.path)
        raise
    # A run that another machine began brings the record of its supervisor.
    start_supervisor(folder, last=last_supervisor(folder))
    return folder


def resume_run(folder: RunFolder, *, weights_sha256: Sequence[str | None]) -> None:
    """Continue a run that was stopped, crashed or lost. `weights_sha256` are the current weights of its models.

    Raises HarnessError if it is alive, finished, out of time, if an input changed, or if a library is missing.
    """
    last = last_supervisor(folder)
    spec, status = folder.spec(), _settled_status(folder)
    if not status.is_over:
        raise HarnessError(f"{folder.id} is {status.words}. Follow it with harness watch {folder.id}.")
    if status is Status.FINISHED:
        raise HarnessError(f"{folder.id} is finished, so it cannot be resumed. Start a new run.")
    if status is Status.OUT_OF_TIME:
        raise HarnessError(
            f"{folder.id} has spent its budget of {format_duration(spec.budget)}. Start a new run with more."
        )
    changed = changed_inputs(folder, spec, weights_sha256)
    if changed:
        raise HarnessError(f"{folder.id}: inputs have changed: {', '.join(changed)}. Restore them, or start a new run.")
    _require_libraries(spec)
    _wait_for_lock(folder)
    start_supervisor(folder, last=last)


def changed_inputs(folder: RunFolder, spec: RunSpec, weights_sha256: Sequence[str | None]) -> list[str]:
    """Return the names of the inputs that are not as recorded.

    `weights_sha256` are the current weights of the models; one that is missing counts as changed.
    """
    recorded = spec.recorded_inputs(code=folder.code, inputs=folder.inputs)
    changed = [name for name, path, sha256 in recorded if not path.exists() or content_sha256(path) != sha256]
    if isinstance(spec, AttackSpec) and spec.round.source is not None and not _is_as_recorded(spec.round):
        changed.append(f"the round in {spec.round.source}")
    for model, current in zip_longest(spec.targets, weights_sha256[: len(spec.targets)]):
        if current != model.weights_sha256:
            changed.append(f"the {model.hashed} of {model.id}")
    return changed


def _is_as_recorded(recorded: Round) -> bool:
    """Return True if the round's file still says what the record says.

    The error cap of a fold follows from its data, and a blind round may get its answers later.
    """
    try:
        current = load_round(str(recorded.source))
    except HarnessError:
        return False
    if recorded.fold is not None:
        current = current.derived_fold(recorded.fold.index, recorded.fold.folds)
    ignored = {"error_cap"} if recorded.fold is not None else set()
    ignored |= {"answer_file"} if recorded.is_blind else set()
    return current.model_dump(exclude=ignored) == recorded.model_dump(exclude=ignored)


def _settled_status(folder: RunFolder) -> Status:
    """Return the status. A young record without a supervisor may get one at any moment, so wait until it is old."""
    while (status := run_status(folder)) is Status.STARTING and not folder.is_alive:
        time.sleep(0.05)
    return status


def _require_libraries(spec: JobSpec) -> None:
    """Raise MissingExtraError if the run loads a model on this machine and torch is not installed."""
    loads_model = any(not target.is_tokenizer_only for target in spec.targets)
    if loads_model and spec.cluster is None:
        require_extra("torch", spec.id)


def start_supervisor(folder: RunFolder, *, last: Process | None) -> None:
    """Start a supervisor for the run in a session of its own; return when the run can be observed.

    `last` is the run's last supervisor so far. Raises HarnessError if the new one does not start (supervisor.log says
    why), or if the run has a supervisor or has had another one since.
    """
    # Absolute, because the supervisor works in another directory.
    homes = {"HARNESS_DATA": paths.data_home(), "HARNESS_HOME": paths.state_home(), "HARNESS_CACHE": paths.cache_home()}
    environment = {"PYTHONPATH": str(paths.PACKAGE.parent)} | {name: str(path) for name, path in homes.items()}
    with as_harness_error(folder.path, "supervised"), folder.supervisor_log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "harness.supervisor", str(folder.path), "" if last is None else last.key],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=os.environ | environment,
            start_new_session=True,
        )
    until = time.monotonic() + LAUNCH_SECONDS
    while time.monotonic() < until:
        code = process.poll()
        if code == ALREADY_SUPERVISED:
            raise HarnessError(
                f"{folder.id} was continued by another command. harness show {folder.id} says how far it is."
            )
        if (newest := last_supervisor(folder)) != last and newest is not None and newest.pid == process.pid:
            return
        if code is not None:
            break
        time.sleep(0.01)
    if shutil.disk_usage(folder.path).free < NEARLY_FULL_BYTES:
        raise HarnessError(f"the supervisor of {folder.id} did not start: its disk is full. Free some space.")
    raise HarnessError(f"the supervisor of {folder.id} did not start. See {folder.supervisor_log}.")


def stop_run(folder: RunFolder) -> Status:
    """Ask the run's supervisor to end it, and return the status afterwards. A run that is over stays as it is.

    Raises HarnessError if the run cannot be read, belongs to another user, is alive in another container or on another
    host, or does not end.
    """
    began = time.monotonic()
    is_asked = False
    while not (status := run_status(folder)).is_over:
        waited = time.monotonic() - began
        if not is_asked and (supervisor := last_supervisor(folder)) is not None:
            is_asked = _signal_supervisor(folder, supervisor)
            # While a run starts or resumes, the record may still name the supervisor of an earlier execution.
            if not is_asked and waited > _RECORDED_WITHIN_SECONDS and folder.is_alive:
                raise HarnessError(f"{folder.id} is running in another container or on another host. Stop it there.")
        if waited > _GONE_WITHIN_SECONDS:
            raise HarnessError(
                f"{folder.id} did not end within {_GONE_WITHIN_SECONDS:g} s. See {folder.supervisor_log}."
            )
        time.sleep(0.05)
    # A supervisor that has recorded its last phase is about to exit.
    until = time.monotonic() + _GONE_WITHIN_SECONDS
    while folder.is_alive and time.monotonic() < until:
        time.sleep(0.02)
    return status


def _wait_for_lock(folder: RunFolder) -> None:
    """Wait until no supervisor holds the run's lock. Raises HarnessError if that takes long, or if it has no lock."""
    with as_harness_error(folder.lock, "locked"):
        lock = try_lock(folder.lock, patience=_CLOSED_WITHIN_SECONDS)
    if lock is None:
        raise HarnessError(f"{folder.id} is running. Follow it with harness watch {folder.id}.")
    lock.close()


def _signal_supervisor(folder: RunFolder, supervisor: Process) -> bool:
    """Send SIGTERM to the recorded supervisor. Return False if it is gone or cannot be seen from here."""
    if not supervisor.is_here:
        return False
    try:
        os.kill(supervisor.pid, signal.SIGTERM)
    except ProcessLookupError:
        return False
    except PermissionError:
        raise HarnessError(f"{folder.id} belongs to another user. Only that user can stop it.") from None
    return True


def is_over(folder: RunFolder) -> bool:
    """Return True if the run is over. A record that cannot be read counts as over if no supervisor is alive."""
    try:
        return run_status(folder).is_over
    except HarnessError:
        return not folder.is_alive


def last_supervisor(folder: RunFolder) -> Process | None:
    """Return the last supervisor that the run's record names."""
    with as_harness_error(folder.path):
        record = last_event(folder.store, "supervisor")
        return None if record is None else Process.from_record(record)
