"""One execution of a run: its workers are started, followed to their end, and killed with all that they left behind."""

import contextlib
import os
import selectors
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from harness.core.files import is_larger_than, remove_tree
from harness.core.frames import Frame, FrameError
from harness.core.protocol import LEAD, write_request
from harness.core.text import shorten
from harness.core.times import seconds_since_boot
from harness.runs.reader import RunReader
from harness.runs.reserve import DiskFull, Reserve
from harness.runs.status import Process, Status
from harness.runs.store import RunStore
from harness.sandbox import SandboxPolicy, detect_backend, reaper
from harness.sandbox.capped_log import CappedLog
from harness.sandbox.process import deleted_bytes
from harness.supervisor.devices import Device, worker_environment
from harness.supervisor.intake import IntakeError, WorkerEnd
from harness.supervisor.job import Job
from harness.supervisor.ledger import TICK_SECONDS, Budget, Deadline, LedgerThread
from harness.supervisor.shared_batches import SharedBatches, SharedState
from harness.supervisor.telemetry import Telemetry
from harness.supervisor.worker_process import PIPE_BYTES, WorkerProcess, WorkerSlot

_STOP_GRACE_SECONDS = 5.0
_SILENT_GRACE_SECONDS = 2.0
_TELEMETRY_SECONDS = 2.0
_MAX_SAMPLED_PROCESSES = 256
_MAX_DEATHS = 1
"""Deaths of one of several workers after which it is started again."""
MAX_SCRATCH_BYTES, _MAX_SCRATCH_FILES = 4 << 30, 50_000
DISK_FULL = "disk full; every acknowledged row is in its record. Free some space, then harness resume continues it."


@dataclass(frozen=True)
class Ending:
    """The end of an execution: a final status, and a sentence unless it finished."""

    status: Status
    reason: str = ""


class Execution:
    """The workers of a run, from their inputs to their end: one, or one for each device of the run."""

    def __init__(
        self, job: Job[Any], store: RunStore, budget: Budget, reserve: Reserve, workers: Sequence[tuple[Device, ...]]
    ) -> None:
        """`workers` has the devices of each worker, none for one that loads no model."""
        self._job = job
        self._folder = job.folder
        self._store = store
        self._budget = budget
        self._reserve = reserve
        self._workers = workers
        with RunReader(job.folder.store) as reader:
            done = reader.done_keys()
        self._intake = job.intake(store)
        self._state = SharedState(job.folder.shared, job.write_state)
        self._shared = SharedBatches(done, self._state.write_for)
        self._slots: list[WorkerSlot] = []
        self._telemetry = Telemetry({device.uuid for devices in workers for device in devices if device.uuid})
        self._telemetry_due = 0.0
        self._sample_due = 0.0
        self._stop_at: float | None = None
        self._finish_at = 0.0
        self._finish_was_asked = False

    def run(self, stop_is_asked: Callable[[], bool]) -> Ending:
        """Start the workers, follow them to their end, kill what is left of them, and return how they ended.

        Raises DiskFull, or the OSError of a full disk, if the run cannot begin or its ledger cannot be closed.
        """
        self._reserve.allocate(self._job.result_bytes)
        with contextlib.closing(CappedLog(self._folder.log)) as log:
            self._begin()
            try:
                for number, devices in enumerate(self._workers):
                    scratch = self._folder.scratch_of(number)
                    self._slots.append(WorkerSlot(number, scratch, devices, self._start_process(number, devices)))
                with (
                    LedgerThread(self._store, lambda: self._budget.spent_at(seconds_since_boot())) as ledger,
                    Deadline(self._budget, self._kill) as deadline,
                ):
                    ending = self._follow(log, deadline, ledger, stop_is_asked)
            except (FrameError, IntakeError) as fault:
                reason = f"the {self._job.noun}'s process sent an invalid message: {shorten(str(fault), 200)}."
                ending = Ending(Status.CRASHED, reason)
            except DiskFull:
                ending = Ending(Status.CRASHED, DISK_FULL)
            finally:
                is_clean = self._kill()
                for slot in self._slots:
                    slot.process.close()
                # Into the reserved space if the disk is full.
                self._reserve.release_for_results()
                with self._store.transaction():
                    self._store.add_ledger("end", self._budget.spent_at(seconds_since_boot()))
        if not is_clean:
            reason = f"a process of the {self._job.noun} could not be killed; it is stuck in the kernel."
            return Ending(Status.CRASHED, reason)
        return ending

    def _begin(self) -> None:
        """Write the inputs of all workers, and start the budget."""
        remove_tree(self._folder.scratch)
        for number in range(len(self._workers)):
            self._write_inputs(number)
        # Trying the backends takes as long as starting a worker, and is not charged.
        detect_backend()
        now = seconds_since_boot()
        self._budget = self._budget.begin(now)
        self._finish_at = now + max(0.0, self._budget.until_soft_deadline(now))
        # Before the workers start: if the supervisor dies right after, the time is charged all the same.
        with self._store.transaction():
            self._store.add_ledger("start", self._budget.spent_at(seconds_since_boot()))
            self._store.clear_steps()

    def _write_inputs(self, number: int) -> None:
        inputs = self._folder.scratch_of(number) / "inputs"
        inputs.mkdir(parents=True)
        self._job.write_inputs(inputs)

    def _start_process(self, number: int, devices: tuple[Device, ...]) -> WorkerProcess:
        """Write the worker's request, and start the worker on its inputs."""
        job, spec, folder = self._job, self._job.spec, self._folder
        scratch, is_shared = folder.scratch_of(number), len(self._workers) > 1
        with RunReader(folder.store) as reader:
            request = job.request(reader, finish_at=self._finish_at, devices=devices)
        if is_shared:
            folder.shared.mkdir(exist_ok=True)
            place = {"worker": number, "workers": len(self._workers), "state_folder": folder.shared}
            request = request.model_copy(update=place)
        write_request(scratch / "inputs", request)
        policy = SandboxPolicy(
            readable=(
                *job.readable_paths,
                *((folder.shared,) if is_shared else ()),
                *job.named_paths,
                *(path for target in spec.targets for path in target.paths),
            ),
            writable=(scratch,),
            hidden=job.hidden_paths,
            network=spec.network == "endpoint",
        )
        return WorkerProcess(scratch, policy, environment=worker_environment(devices), cluster=spec.cluster)

    def _kill(self) -> bool:
        """Kill all workers and all that they started; False if something is left."""
        left = [slot.number for slot in self._slots if not slot.process.kill()]
        return not left

    def _follow(
        self, log: CappedLog, deadline: Deadline, ledger: LedgerThread, stop_is_asked: Callable[[], bool]
    ) -> Ending:
        with selectors.DefaultSelector() as selector:
            for slot in self._slots:
                self._watch(slot, selector)
            while not deadline.has_passed:
                wait = max(0.0, self._sample_due - seconds_since_boot())
                ready = {key.fd for key, _ in selector.select(wait)}
                if ledger.fault is not None:
                    raise ledger.fault
                for slot in self._running_slots:
                    ending = self._serve(slot, ready, selector, log)
                    if ending is not None and not deadline.has_passed:
                        return ending
                # What was stored before these questions is committed.
                for number, answer in self._shared.answers():
                    self._slots[number].process.send("answer", answer)
                if (ending := self._due_ending(stop_is_asked)) is not None and not deadline.has_passed:
                    return ending
        nothing = f" It had emitted no {self._job.row_noun}." if self._intake.rows == 0 else ""
        return Ending(Status.OUT_OF_TIME, f"its budget ended before its work did.{nothing}")

    @property
    def _running_slots(self) -> list[WorkerSlot]:
        return [slot for slot in self._slots if not slot.is_over]

    def _watch(self, slot: WorkerSlot, selector: selectors.BaseSelector) -> None:
        """Record the process of the slot, and wait for its messages."""
        process, applied = slot.process.process, slot.process.process.wait_until_applied()
        # The budget may have ended meanwhile, which kills the process.
        with contextlib.suppress(psutil.NoSuchProcess), self._store.transaction():
            record = Process.of(process.pid).as_record()
            self._store.add_event("worker", sandbox=applied.backend, in_force=applied.model_dump(), **record)
        for descriptor in slot.process.descriptors:
            selector.register(descriptor, selectors.EVENT_READ)

    def _serve(
        self, slot: WorkerSlot, ready: set[int], selector: selectors.BaseSelector, log: CappedLog
    ) -> Ending | None:
        """Take what the worker of a slot has sent; return an ending if the run is over because of it."""
        worker = slot.process
        if worker.log in ready and not _copy(worker.log, log):
            selector.unregister(worker.log)
        if worker.frames in ready and not self._take_frames(slot):
            selector.unregister(worker.frames)
            slot.silent_since = seconds_since_boot()
        if worker.ended not in ready and slot.end is None:
            return None
        _copy(worker.log, log)
        self._take_frames(slot)
        for descriptor in worker.descriptors:
            with contextlib.suppress(KeyError):
                selector.unregister(descriptor)
        if slot.end is None:
            return self._take_death(slot, selector)
        slot.is_over = True
        if slot.end.failure is None and self._running_slots:
            self._shared.leave(slot.number)
            if slot.number == LEAD:
                # It opens no more loops, so that nobody may wait for one.
                self._shared.finish_soon()
            return None
        self._record_last_score()
        if slot.end.failure is not None:
            # Only a service outside can interrupt a job.
            is_interruption = slot.end.is_interruption and self._job.spec.network == "endpoint"
            return Ending(Status.STOPPED if is_interruption else Status.CRASHED, slot.end.failure)
        if not any(ended.end is not None and ended.end.was_cut_short for ended in self._slots):
            return Ending(Status.FINISHED)
        if not self._finish_was_asked:
            return Ending(Status.CRASHED, f"the {self._job.noun} ended early, and nothing had asked it to.")
        if self._budget.until_soft_deadline(seconds_since_boot()) <= 0:
            return Ending(Status.OUT_OF_TIME, "its budget ended before its work did; it finished early as asked.")
        return Ending(Status.STOPPED, "it was stopped.")

    def _take_death(self, slot: WorkerSlot, selector: selectors.BaseSelector) -> Ending | None:
        """Start a worker again that exited without a last message; return an ending if that is not possible."""
        slot.deaths += 1
        reason = _reason_of_exit(slot.process, self._job.noun)
        if len(self._slots) == 1 or slot.deaths > _MAX_DEATHS:
            self._record_last_score()
            return Ending(Status.CRASHED, reason)
        slot.process.kill_leftovers(alive.process for alive in self._slots)
        with self._store.transaction():
            self._store.add_event("worker_restarted", worker=slot.number, reason=reason)
        self._shared.release(slot.number)
        remove_tree(slot.scratch)
        self._write_inputs(slot.number)
        slot.replace(self._start_process(slot.number, slot.devices))
        self._watch(slot, selector)
        if self._finish_was_asked:
            slot.process.send("finish")
        return None

    def _due_ending(self, stop_is_asked: Callable[[], bool]) -> Ending | None:
        """Ask the workers to finish if that is due; return an ending that does not wait for them."""
        at = seconds_since_boot()
        if self._stop_at is None and stop_is_asked():
            self._stop_at = at + _STOP_GRACE_SECONDS
        is_due = self._stop_at is not None or self._budget.until_soft_deadline(at) <= 0
        if is_due and not self._finish_was_asked:
            self._finish_was_asked = True
            for slot in self._running_slots:
                slot.process.send("finish")
            self._shared.finish_soon()
            with self._store.transaction():
                self._store.add_event("phase", phase=Status.FINISHING)
        if self._stop_at is not None and at >= self._stop_at:
            return Ending(Status.STOPPED, "it was stopped.")
        silences = [slot.silent_since for slot in self._running_slots if slot.silent_since is not None]
        if silences and at >= min(silences) + _SILENT_GRACE_SECONDS:
            return Ending(Status.CRASHED, f"the {self._job.noun}'s process closed the pipe of its results.")
        if at >= self._sample_due:
            self._sample_due = at + TICK_SECONDS
            for slot in self._running_slots:
                slot.process.send_pending()
            return self._sample(at)
        return None

    def _take_frames(self, slot: WorkerSlot) -> bool:
        """Commit what the pipe of a worker holds and acknowledge it; False at the end of the pipe."""
        content = _read(slot.process.frames)
        if not content:
            return content is not None
        last, fault = None, None
        had_started = self._intake.has_started
        with self._store.transaction():
            try:
                for sequence, size, frame in slot.frames.feed(content):
                    self._take_frame(slot, frame, size)
                    last = sequence
            except (FrameError, IntakeError) as error:
                # The frames before it are valid and are committed.
                fault = error
            if self._intake.has_started and not had_started and not self._finish_was_asked:
                self._store.add_event("phase", phase=Status.RUNNING)
        if fault is not None:
            raise fault
        if last is not None:
            slot.process.send("ack", last)
        return True

    def _take_frame(self, slot: WorkerSlot, frame: Frame, size: int) -> None:
        if slot.end is not None:
            raise IntakeError("a frame after the worker's last message")
        slot.end = WorkerEnd.of_frame(frame)
        if slot.end is not None:
            return
        if frame.table == "ask":
            self._intake.limit(frame, size)
            self._shared.ask(slot.number, frame)
            return
        self._intake.take(frame, size)
        self._state.mark_changed()
        if frame.table == "done":
            self._shared.mark_done(str(frame.fields["key"]))

    def _record_last_score(self) -> None:
        at = seconds_since_boot()
        self._job.record_score(self._store, at=at, spent=self._budget.spent_at(at), is_last=True)

    def _sample(self, at: float) -> Ending | None:
        """Record the score and the telemetry if they are due; return an ending if the attack fills the disk."""
        self._job.record_score(self._store, at=at, spent=self._budget.spent_at(at))
        if at < self._telemetry_due:
            return None
        self._telemetry_due = at + _TELEMETRY_SECONDS
        processes = reaper.descendants_of(os.getpid())
        sample = self._telemetry.sample(processes[:_MAX_SAMPLED_PROCESSES])
        with self._store.transaction():
            self._store.add_telemetry(sample)
        scratch = self._folder.scratch
        named_bytes = MAX_SCRATCH_BYTES - deleted_bytes(processes, scratch.stat().st_dev)
        if is_larger_than(scratch, named_bytes, max_files=_MAX_SCRATCH_FILES):
            limit = f"{MAX_SCRATCH_BYTES >> 30} GiB or {_MAX_SCRATCH_FILES:,} files"
            return Ending(Status.CRASHED, f"the {self._job.noun} wrote more than {limit} into its scratch directory.")
        return None


def _reason_of_exit(worker: WorkerProcess, noun: str) -> str:
    """Return why a worker exited without a last message."""
    number, code = worker.process.exit_signal_or_code()
    if number is None:
        return f"the {noun}'s process exited with code {code} before its end."
    if number.name != "SIGKILL":
        return f"the {noun}'s process was killed by {number.name}."
    if (limit := worker.process.oom_limit()) is not None:
        return f"the {noun} used more than {limit / 1e9:.1f} GB of memory, its limit, and was killed."
    source = "by itself or by something outside of the run"
    if not worker.process.counts_memory_kills():
        source += ", or by the kernel, which does that when memory runs out"
    return f"the {noun}'s process was killed by SIGKILL: {source}."


def _read(descriptor: int) -> bytes | None:
    """Return everything that a pipe holds, b"" for nothing, None at its end."""
    try:
        return os.read(descriptor, PIPE_BYTES) or None
    except BlockingIOError:
        return b""


def _copy(descriptor: int, log: CappedLog) -> bool:
    """Move what a pipe holds into the log; False at its end."""
    content = _read(descriptor)
    log.write(content or b"")
    return content is not None
