"""One execution of a run: the worker is started, followed to its end, and killed with all that it left behind."""

import contextlib
import os
import selectors
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from harness.core.files import is_larger_than, remove_tree
from harness.core.frames import FrameError, FrameReader
from harness.core.request import write_request
from harness.core.times import seconds_since_boot
from harness.runs.disk import DiskFull, Reserve
from harness.runs.reader import RunReader
from harness.runs.status import Process, Status
from harness.runs.store import RunStore
from harness.sandbox import SandboxPolicy, detect_backend, reaper
from harness.sandbox.capped_log import CappedLog
from harness.sandbox.refusals import Refusal, describe_refusals
from harness.supervisor.deadline import Deadline
from harness.supervisor.devices import Device
from harness.supervisor.intake import IntakeError
from harness.supervisor.job import Job
from harness.supervisor.ledger import TICK_SECONDS, Budget, LedgerThread
from harness.supervisor.telemetry import Telemetry
from harness.supervisor.worker_process import PIPE_BYTES, WorkerProcess

_STOP_GRACE_SECONDS = 5.0
_SILENT_GRACE_SECONDS = 2.0
_TELEMETRY_SECONDS = 2.0
_MAX_SAMPLED_PROCESSES = 256
MAX_SCRATCH_BYTES, _MAX_SCRATCH_FILES = 4 << 30, 50_000
DISK_FULL = "disk full; every acknowledged row is in its record. Free some space, then harness resume continues it."


@dataclass(frozen=True)
class Ending:
    """The end of an execution: a final status, and a sentence unless it finished."""

    status: Status
    reason: str = ""


class Execution:
    """One worker, from its inputs to its end."""

    def __init__(self, job: Job[Any], store: RunStore, budget: Budget, reserve: Reserve, device: Device | None) -> None:
        self._job = job
        self._folder = job.folder
        self._store = store
        self._budget = budget
        self._reserve = reserve
        self._device = device
        with RunReader(job.folder.store) as reader:
            self._refused_before = Counter(reader.last_event("refused") or {})
        self._intake = job.intake(store)
        self._frames = FrameReader()
        self._telemetry = Telemetry("" if device is None else device.uuid)
        self._telemetry_due = 0.0
        self._sample_due = 0.0
        self._stop_at: float | None = None
        self._silent_since: float | None = None
        self._finish_was_asked = False
        self._refused: dict[Refusal, int] = {}

    def run(self, stop_is_asked: Callable[[], bool]) -> Ending:
        """Start the worker, follow it to its end, kill what is left of it, and return how it ended.

        Raises DiskFull, or the OSError of a full disk, if the run cannot begin or its ledger cannot be closed.
        """
        self._reserve.allocate(self._job.result_bytes)
        with contextlib.closing(CappedLog(self._folder.log)) as log:
            worker = self._start_worker()
            try:
                with (
                    LedgerThread(self._store, lambda: self._budget.spent(seconds_since_boot())) as ledger,
                    Deadline(self._budget, worker.kill) as deadline,
                ):
                    ending = self._follow(worker, log, deadline, ledger, stop_is_asked)
            except (FrameError, IntakeError) as fault:
                reason = f"the {self._job.noun}'s process sent an invalid message: {fault}."
                ending = Ending(Status.CRASHED, reason)
            except DiskFull:
                ending = Ending(Status.CRASHED, DISK_FULL)
            finally:
                is_clean = worker.kill()
                refused = worker.process.refusals()
                worker.close()
                self._close_ledger(refused)
        if not is_clean:
            reason = f"a process of the {self._job.noun} could not be killed; it is stuck in the kernel."
            return Ending(Status.CRASHED, reason)
        if self._refused and ending.status is not Status.FINISHED:
            return replace(ending, reason=f"{ending.reason} The sandbox refused it {describe_refusals(self._refused)}.")
        return ending

    def _close_ledger(self, refused: dict[Refusal, int]) -> None:
        """Write what was refused and spent, into the reserved space if the disk is full."""
        self._reserve.release_for_results()
        with self._store.transaction():
            self._note_refusals(refused)
            self._store.add_ledger("end", self._budget.spent(seconds_since_boot()))

    def _start_worker(self) -> WorkerProcess:
        """Write the inputs, start the budget, and start the worker."""
        job, spec, folder = self._job, self._job.spec, self._folder
        inputs = folder.scratch / "inputs"
        remove_tree(folder.scratch)
        inputs.mkdir(parents=True)
        job.write_inputs(inputs)
        # Trying the backends takes as long as starting a worker, and is not charged.
        detect_backend()
        now = seconds_since_boot()
        self._budget = self._budget.started(now)
        finish_at = now + max(0.0, self._budget.until_soft_deadline(now))
        with RunReader(folder.store) as reader:
            write_request(inputs, job.request(reader, finish_at=finish_at, device=self._device))
        # Before the worker starts: if the supervisor dies right after, the time is charged all the same.
        with self._store.transaction():
            self._store.add_ledger("start", self._budget.spent(seconds_since_boot()))
        policy = SandboxPolicy(
            readable=job.readable_paths,
            # The hash of a path that the user named follows its links, so the worker does too.
            linked=(*job.named_paths, *(target.path for target in spec.targets)),
            writable=(folder.scratch,),
            hidden=job.hidden_paths,
            network=spec.network == "endpoint",
        )
        environment = {} if self._device is None else self._device.worker_environment
        return WorkerProcess(folder.scratch, policy, environment=environment)

    def _follow(
        self,
        worker: WorkerProcess,
        log: CappedLog,
        deadline: Deadline,
        ledger: LedgerThread,
        stop_is_asked: Callable[[], bool],
    ) -> Ending:
        process, applied = Process.of(worker.process.pid).as_record(), worker.process.wait_until_applied()
        with self._store.transaction():
            self._store.add_event("worker", sandbox=applied.backend, in_force=applied.as_record(), **process)
        with selectors.DefaultSelector() as selector:
            for descriptor in (worker.frames, worker.log, worker.ended):
                selector.register(descriptor, selectors.EVENT_READ)
            while not deadline.has_passed:
                wait = max(0.0, self._sample_due - seconds_since_boot())
                ready = {key.fd for key, _ in selector.select(wait)}
                if ledger.fault is not None:
                    raise ledger.fault
                if worker.log in ready and not _copy(worker.log, log):
                    selector.unregister(worker.log)
                if worker.frames in ready and not self._take_frames(worker):
                    selector.unregister(worker.frames)
                    self._silent_since = seconds_since_boot()
                if (worker.ended in ready or self._intake.end is not None) and not deadline.has_passed:
                    return self._ended_by_itself(worker, log)
                if (ending := self._due_ending(worker, stop_is_asked)) is not None and not deadline.has_passed:
                    return ending
        nothing = f" It had emitted no {self._job.row_noun}." if self._intake.rows == 0 else ""
        return Ending(Status.OUT_OF_TIME, f"its budget ended before its work did.{nothing}")

    def _due_ending(self, worker: WorkerProcess, stop_is_asked: Callable[[], bool]) -> Ending | None:
        """Ask the worker to finish if that is due; return an ending that does not wait for the worker."""
        at = seconds_since_boot()
        if self._stop_at is None and stop_is_asked():
            self._stop_at = at + _STOP_GRACE_SECONDS
        is_due = self._stop_at is not None or self._budget.until_soft_deadline(at) <= 0
        if is_due and not self._finish_was_asked:
            self._finish_was_asked = True
            worker.ask_to_finish()
            with self._store.transaction():
                self._store.add_event("phase", phase=Status.FINISHING)
        if self._stop_at is not None and at >= self._stop_at:
            return Ending(Status.STOPPED, "it was stopped.")
        if self._silent_since is not None and at >= self._silent_since + _SILENT_GRACE_SECONDS:
            return Ending(Status.CRASHED, f"the {self._job.noun}'s process closed the pipe of its results.")
        if at >= self._sample_due:
            self._sample_due = at + TICK_SECONDS
            worker.send_pending()
            return self._sample(worker, at)
        return None

    def _take_frames(self, worker: WorkerProcess) -> bool:
        """Commit what the pipe holds and acknowledge it; False at the end of the pipe."""
        content = _read(worker.frames)
        if not content:
            return content is not None
        last, fault = None, None
        had_started = self._intake.has_started
        with self._store.transaction():
            try:
                for sequence, size, frame in self._frames.feed(content):
                    self._intake.take(frame, size)
                    last = sequence
            except (FrameError, IntakeError) as error:
                # The frames before it are valid and are committed.
                fault = error
            if self._intake.has_started and not had_started and not self._finish_was_asked:
                self._store.add_event("phase", phase=Status.RUNNING)
        if fault is not None:
            raise fault
        if last is not None:
            worker.acknowledge(last)
        return True

    def _sample(self, worker: WorkerProcess, at: float) -> Ending | None:
        """Record the score and the telemetry if they are due; return an ending if the attack fills the disk."""
        self._job.record_score(self._store, at=at, spent=self._budget.spent(at))
        if at < self._telemetry_due:
            return None
        self._telemetry_due = at + _TELEMETRY_SECONDS
        sample = self._telemetry.sample(reaper.descendants_of(os.getpid())[:_MAX_SAMPLED_PROCESSES])
        refused = worker.process.refusals()
        with self._store.transaction():
            self._store.add_telemetry(sample)
            if refused.keys() != self._refused.keys():
                # The first refusal is recorded soon and the count at the end, so that repetitions fill no record.
                self._note_refusals(refused)
        if is_larger_than(self._folder.scratch, MAX_SCRATCH_BYTES, most_files=_MAX_SCRATCH_FILES):
            limit = f"{MAX_SCRATCH_BYTES >> 30} GiB or {_MAX_SCRATCH_FILES:,} files"
            return Ending(Status.CRASHED, f"the {self._job.noun} wrote more than {limit} into its scratch directory.")
        return None

    def _note_refusals(self, refused: dict[Refusal, int]) -> None:
        if refused != self._refused:
            self._refused = refused
            self._store.add_event("refused", **(self._refused_before + Counter(refused)))

    def _ended_by_itself(self, worker: WorkerProcess, log: CappedLog) -> Ending:
        """Take everything that the worker sent, and return what its last message or its exit means."""
        _copy(worker.log, log)
        self._take_frames(worker)
        at = seconds_since_boot()
        self._job.record_score(self._store, at=at, spent=self._budget.spent(at), is_last=True)
        end = self._intake.end
        if end is None:
            return _exited(worker, self._job.noun)
        if end.failure is not None:
            return Ending(Status.STOPPED if end.is_interruption else Status.CRASHED, end.failure)
        if not end.was_cut_short:
            return Ending(Status.FINISHED)
        if self._budget.until_soft_deadline(seconds_since_boot()) <= 0:
            return Ending(Status.OUT_OF_TIME, "its budget ended before its work did; it finished early as asked.")
        return Ending(Status.STOPPED, "it was stopped.")


def _exited(worker: WorkerProcess, noun: str) -> Ending:
    """Return the ending for a worker that exited without a last message."""
    number, code = worker.process.exit_signal_or_code()
    if number is None:
        return Ending(Status.CRASHED, f"the {noun}'s process exited with code {code} before its end.")
    if number.name == "SIGKILL" and (limit := worker.process.oom_limit()) is not None:
        return Ending(
            Status.CRASHED, f"the {noun} used more than {limit / 1e9:.1f} GB of memory, its limit, and was killed."
        )
    hint = " (the kernel does that when memory runs out)" if number.name == "SIGKILL" else ""
    return Ending(Status.CRASHED, f"the {noun}'s process was killed by {number.name}{hint}.")


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
