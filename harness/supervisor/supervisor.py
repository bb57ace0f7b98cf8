"""The process that owns a run: its clock, its store and its answers. It starts the worker, and it ends it.

python -m harness.supervisor.supervisor RUN_DIRECTORY
"""

import contextlib
import os
import signal
import sys
import time
import traceback
from pathlib import Path

from harness.core.files import remove_tree, try_lock
from harness.jobs.attack.spec import AttackSpec
from harness.jobs.audit.spec import AuditSpec
from harness.core.times import seconds_since_boot
from harness.runs.disk import DiskFull, Reserve, is_full, patient
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from harness.jobs.attack.results import write_results
from harness.runs.status import ALREADY_SUPERVISED, Status, process_in, process_with
from harness.runs.store import RunStore
from harness.runs.summary import execution_record
from harness.sandbox import reaper
from harness.supervisor.attack_job import AttackJob
from harness.supervisor.audit_job import AuditJob
from harness.supervisor.device_lock import DeviceLock
from harness.supervisor.execution import DISK_FULL, Ending, Execution
from harness.supervisor.ledger import Budget, spent_so_far
from harness.supervisor.standby import read_standby
from harness.supervisor.waiting import say

_QUEUE_SECONDS = 0.5
_LAST_WORD_PATIENCE_SECONDS = 10.0


class Supervisor:
    """One execution of one run, from its queue to its scorecard."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._spec = folder.job()
        self._store = RunStore(folder.store, self._spec.tables if isinstance(self._spec, AuditSpec) else ())
        self._stop_is_asked = False
        self._reserve = Reserve(folder.reserve)
        with RunReader(folder.store) as reader:
            last = reader.last_ledger()
        self._budget = Budget(self._spec.budget, spent_so_far(last, read_standby(folder.standby)))

    def run(self) -> None:
        """Queue, execute, write the results; whatever happens, the record says how it ended."""
        self._kill_survivors()
        with self._store.transaction():
            self._store.add_event("supervisor", **process_with(os.getpid()).as_record())
            # Together with it: an observer must not take the ending of an earlier execution for this one's.
            self._store.add_event("phase", phase=Status.STARTING)
            self._store.add_event("execution", **execution_record(self._spec))
        try:
            ending = self._execution()
        except Exception as error:
            ending = self._failed("the supervisor failed", error)
        try:
            self._end(ending)
        except DiskFull:
            say("disk full: the run's ending finds no room; make some, and harness resume goes on where it was")
        self._store.close()

    def _end(self, ending: Ending) -> None:
        """Write what the run came to, and as the last word how it ended. Raises DiskFull when there is no room."""
        self._reserve.give_back_for_results()
        self._store.wait_for_room = patient(_LAST_WORD_PATIENCE_SECONDS)
        self._phase(Status.FINISHING)
        with contextlib.suppress(OSError):
            remove_tree(self._folder.scratch)
        try:
            if isinstance(self._spec, AttackSpec):
                write_results(self._folder, self._spec)
        except Exception as error:
            ending = self._failed("its results could not be written", error)
        self._reserve.give_back()
        self._phase(ending.status, reason=ending.reason)

    def _failed(self, what: str, error: Exception) -> Ending:
        """The ending of a run whose supervisor met an error, which goes to its log."""
        with contextlib.suppress(OSError):
            traceback.print_exception(error)
        if is_full(error, self._folder.path):
            return Ending(Status.CRASHED, f"{DISK_FULL}; make room, then harness resume goes on where it was.")
        return Ending(Status.CRASHED, f"{what}: {str(error).partition(chr(10))[0] or type(error).__name__}")

    def ask_to_stop(self) -> None:
        """End the run soon, as its user wishes."""
        self._stop_is_asked = True

    def _execution(self) -> Ending:
        if self._budget.remaining(seconds_since_boot()) <= 0:
            with self._store.transaction():
                self._store.add_ledger("end", self._budget.spent(seconds_since_boot()))
            return Ending(Status.OUT_OF_TIME, "its budget was spent.")
        lock = DeviceLock(self._spec.targets[0].device) if self._spec.targets else None
        if lock is not None and not self._is_admitted(lock):
            return Ending(Status.STOPPED, "it was stopped before it started.")
        try:
            execution = Execution(self._job(), self._store, self._budget, self._reserve)
            return execution.ending(lambda: self._stop_is_asked)
        finally:
            if lock is not None:
                lock.release()

    def _job(self) -> AttackJob | AuditJob:
        """Made when it is needed: it reads what may have gone missing."""
        if isinstance(self._spec, AuditSpec):
            return AuditJob(self._folder, self._spec)
        return AttackJob(self._folder, self._spec)

    def _is_admitted(self, lock: DeviceLock) -> bool:
        """Wait for the device; false when the run is stopped first. The budget does not run yet."""
        if lock.is_taken():
            return True
        self._phase(Status.QUEUED)
        while not lock.is_taken():
            if self._stop_is_asked:
                return False
            time.sleep(_QUEUE_SECONDS)
        self._phase(Status.STARTING)
        return True

    def _kill_survivors(self) -> None:
        """Kill the worker of an earlier supervisor, should it have outlived it."""
        with RunReader(self._folder.store) as reader:
            record = reader.last_event("worker")
        if record is not None and (worker := process_in(record)).is_alive:
            reaper.kill_tree(worker.pid)

    def _phase(self, phase: Status, **detail: str) -> None:
        with self._store.transaction():
            self._store.add_event("phase", phase=phase, **detail)


def main() -> None:
    """Supervise the run in the directory given, unless somebody does already."""
    folder = RunFolder(Path(sys.argv[1]))
    lock = try_lock(folder.lock)
    if lock is None:
        sys.exit(ALREADY_SUPERVISED)
    reaper.adopt_orphans()
    supervisor = Supervisor(folder)
    signal.signal(signal.SIGTERM, lambda *_: supervisor.ask_to_stop())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    supervisor.run()


if __name__ == "__main__":
    main()
