"""The owner of one run: its lock, clock, ledger, store and results. It starts the worker and ends it."""

import contextlib
import os
import sys
import time
import traceback
from collections.abc import Sequence

from harness.core.files import remove_tree
from harness.core.text import shorten
from harness.core.times import seconds_since_boot
from harness.runs.folder import RunFolder
from harness.runs.queue import QueuePlace, queued_runs
from harness.runs.reader import RunReader
from harness.runs.reserve import DiskFull, Reserve, is_full
from harness.runs.status import Process, Status
from harness.runs.store import RunStore
from harness.runs.summary import execution_record
from harness.sandbox import reaper
from harness.supervisor.devices import Device, DeviceLock, matching_devices
from harness.supervisor.execution import DISK_FULL, Ending, Execution
from harness.supervisor.job import job_type
from harness.supervisor.ledger import Budget, spent_so_far

_QUEUE_SECONDS = 0.25


class Supervisor:
    """One execution of one run, from its queue to its scorecard."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._spec = folder.spec()
        self._job_type = job_type(self._spec.kind)
        self._store = RunStore(folder.store, self._spec.stored_tables)
        self._stop_is_asked = False
        self._reserve = Reserve(folder.reserve)
        with RunReader(folder.store) as reader:
            self._budget = Budget(self._spec.budget, spent_so_far(reader.last_ledger()))

    def run(self) -> None:
        """Queue, execute and write the results. The record says how the run ended, whatever happens."""
        self._kill_survivors()
        with self._store.transaction():
            self._store.add_event("supervisor", **Process.of(os.getpid()).as_record())
            # In the same transaction, so that nobody takes the ending of an earlier execution for this one's.
            self._store.add_event("phase", phase=Status.STARTING)
            self._store.add_event("execution", **execution_record(self._spec))
        try:
            ending = self._execute()
        except Exception as error:
            ending = self._failure("the supervisor failed", error)
        try:
            self._end(ending)
        except DiskFull:
            _print(f"the end of the run was not recorded: {DISK_FULL}")
        self._store.close()

    def ask_to_stop(self) -> None:
        """Ask for an early end, as the user wishes."""
        self._stop_is_asked = True

    def _end(self, ending: Ending) -> None:
        """Write the results, and as the last event how the run ended. Raises DiskFull if there is no room."""
        self._reserve.release_for_results()
        self._record_phase(Status.FINISHING)
        for directory in (self._folder.scratch, self._folder.shared):
            try:
                remove_tree(directory)
            except Exception as error:
                # An attack made the content. What is left of it must not cost the results.
                _print(f"{directory} was not deleted: {error!r:.300}")
        try:
            self._job_type.write_results(self._folder, self._spec)
        except Exception as error:
            ending = self._failure("its results could not be written", error)
        self._reserve.release()
        self._record_phase(ending.status, reason=ending.reason)

    def _failure(self, sentence: str, error: Exception) -> Ending:
        """Return the ending for an error of the supervisor, and print the error to its log."""
        with contextlib.suppress(OSError):
            traceback.print_exception(error)
        if is_full(error, self._folder.path):
            return Ending(Status.CRASHED, DISK_FULL)
        return Ending(
            Status.CRASHED, f"{sentence}: {shorten(str(error).partition(chr(10))[0], 300) or type(error).__name__}"
        )

    def _execute(self) -> Ending:
        if self._budget.remaining(seconds_since_boot()) <= 0:
            with self._store.transaction():
                self._store.add_ledger("end", self._budget.spent_at(seconds_since_boot()))
            return Ending(Status.OUT_OF_TIME, "its budget was spent.")
        loaded = [target for target in self._spec.targets if not target.is_tokenizer_only]
        lock = DeviceLock(self._folder.id)
        try:
            workers: list[tuple[Device, ...]] = [()] * max(1, len(self._spec.devices))
            if self._spec.cluster is not None:
                # The cluster gives each worker a device.
                workers = [(Device(name),) for name in self._spec.devices]
                with self._store.transaction():
                    self._store.add_event("device", device=f"nodes of the Ray cluster {self._spec.cluster}")
            elif loaded:
                names = self._spec.devices or loaded[0].shards or (loaded[0].device,)
                acquire = self._share_devices if self._spec.shares_device else self._wait_for_devices
                # Several workers, and several pieces of a target, may be on the one CPU.
                distinct = list(dict.fromkeys(names))
                held = acquire([matching_devices(name) for name in distinct], lock)
                if held is None:
                    return Ending(Status.STOPPED, "it was stopped before it started.")
                with self._store.transaction():
                    self._store.add_event(
                        "device",
                        device=", ".join(device.name for device in held),
                        uuid=", ".join(device.uuid for device in held),
                        model=", ".join(dict.fromkeys(device.model for device in held)),
                        is_shared=self._spec.shares_device,
                        is_mixed=len({device.model for device in held}) > 1,
                    )
                used = [held[distinct.index(name)] for name in names]
                workers = [(device,) for device in used] if self._spec.devices else [tuple(used)]
            job = self._job_type(self._folder, self._spec)
            return Execution(job, self._store, self._budget, self._reserve, workers).run(lambda: self._stop_is_asked)
        finally:
            lock.release()

    def _wait_for_devices(self, choices: Sequence[Sequence[Device]], lock: DeviceLock) -> list[Device] | None:
        """Wait in the queue until one device of each choice is free; None if the run is stopped first.

        The budget does not run yet.
        """
        locks = {device.name: device.lock_file.name for devices in choices for device in devices}
        needs_all, is_queued = len(choices) > 1, False
        left = self._budget.remaining(seconds_since_boot())
        with QueuePlace(self._folder, locks, budget_s=left, needs_all=needs_all) as place:
            while (held := lock.try_acquire_all(_without(choices, place.locks_wanted_before()))) is None:
                if self._stop_is_asked:
                    return None
                if not is_queued:
                    is_queued = True
                    names = (" and " if needs_all else " or ").join(locks)
                    self._record_phase(Status.QUEUED, reason=f"waiting for {names}.")
                time.sleep(_QUEUE_SECONDS)
        if is_queued:
            self._record_phase(Status.STARTING)
        return held

    def _share_devices(self, choices: Sequence[Sequence[Device]], lock: DeviceLock) -> list[Device]:
        """Return the devices to share. They are locked if they are free and no run waits for them."""
        queued_names = {name for queued in queued_runs() for name in queued.devices.values()}
        return lock.try_acquire_all(_without(choices, queued_names)) or [devices[0] for devices in choices]

    def _kill_survivors(self) -> None:
        """Kill the workers of an earlier supervisor that have outlived it."""
        with RunReader(self._folder.store) as reader:
            records = reader.events_named("worker")
        for worker in map(Process.from_record, records):
            if worker.is_here:
                reaper.kill_tree(worker.pid)

    def _record_phase(self, phase: Status, **detail: str) -> None:
        with self._store.transaction():
            self._store.add_event("phase", phase=phase, **detail)


def _print(sentence: str) -> None:
    """Write a sentence to the supervisor's log, whose disk may be full."""
    with contextlib.suppress(OSError):
        print(sentence, file=sys.stderr, flush=True)


def _without(choices: Sequence[Sequence[Device]], locks: set[str]) -> list[list[Device]]:
    """Return the choices without the devices that have one of these locks."""
    return [[device for device in devices if device.lock_file.name not in locks] for devices in choices]
