"""One worker under one clock: its frames into the store, its words into the log, and its end told in a sentence."""

import contextlib
import os
import selectors
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from harness.core.files import is_larger_than
from harness.core.frames import FrameError, FrameReader
from harness.core.times import seconds_since_boot
from harness.runs.disk import DiskFull, Reserve, patient
from harness.runs.reader import RunReader
from harness.runs.status import Status, process_with
from harness.runs.store import RunStore
from harness.sandbox import SandboxPolicy, detect_backend, reaper
from harness.sandbox.capped_log import CappedLog
from harness.sandbox.refusals import Refusal, in_words
from harness.supervisor.deadline import Deadline
from harness.supervisor.intake import IntakeFault
from harness.supervisor.job import Job
from harness.supervisor.ledger import TICK_SECONDS, Budget
from harness.supervisor.standby import Standby
from harness.supervisor.telemetry import Telemetry
from harness.supervisor.ticking import Ticking
from harness.supervisor.waiting import WaitingForRoom
from harness.supervisor.worker_process import WorkerProcess

_STOP_GRACE_SECONDS = 5.0
_SILENT_GRACE_SECONDS = 2.0
_TELEMETRY_SECONDS = 2.0
_MOST_SAMPLED = 256
MOST_SCRATCH_BYTES = 4 << 30
_FRAMES_AT_ONCE = 1 << 20
_LOG_AT_ONCE = 4 << 20
_PIPE_CHUNK = 1 << 18
_ENDING_PATIENCE_SECONDS = 10.0
DISK_FULL = "disk full; every acknowledged guess is in its record"


@dataclass(frozen=True)
class Ending:
    """How an execution ended: a final status, and a sentence where it did not simply finish."""

    status: Status
    reason: str = ""


class Execution:
    """One worker, from its inputs to its end."""

    def __init__(self, job: Job[Any], store: RunStore, budget: Budget, reserve: Reserve) -> None:
        self._job = job
        self._folder = job.folder
        self._store = store
        self._budget = budget
        self._reserve = reserve
        with RunReader(job.folder.store) as reader:
            self._refused_before = Counter(reader.last_event("refused") or {})
        self._intake = job.intake(store)
        self._frames = FrameReader()
        self._telemetry = Telemetry(job.spec.targets[0].device if job.spec.targets else None)
        self._telemetry_due = 0.0
        self._look_due = 0.0
        self._stop_at: float | None = None
        self._silent_since: float | None = None
        self._finish_was_asked = False
        self._refused: dict[Refusal, int] = {}

    def ending(self, stop_is_asked: Callable[[], bool]) -> Ending:
        """Start the worker, follow it to its end, and kill what is left of it.

        Raises DiskFull, or the OSError of a full disk, when the run cannot begin or its ledger not be closed.
        """
        finish_at = seconds_since_boot() + max(0.0, self._budget.until_soft_deadline(seconds_since_boot()))
        self._reserve.take(self._job.most_result_bytes)
        standby = Standby(self._folder.standby, lambda: self._budget.spent(seconds_since_boot()))
        standby.beat(is_waiting=False)
        self._job.lay_inputs(finish_at=finish_at)
        log = CappedLog(self._folder.log)
        worker = self._started()
        deadline = Deadline(self._budget, worker.kill)
        ticking = Ticking(self._store, standby, lambda: self._budget.spent(seconds_since_boot()))
        waiting = WaitingForRoom(standby, deadline, ticking, lambda: self._gives_up(worker, stop_is_asked))
        self._store.wait_for_room = waiting
        try:
            ending = self._followed(worker, log, deadline, ticking, waiting, stop_is_asked)
        except DiskFull:
            is_stopped = self._stop_at is not None and not deadline.has_passed
            ending = Ending(Status.STOPPED if is_stopped else Status.CRASHED, f"{DISK_FULL}.")
        finally:
            deadline.cancel()
            ticking.stop()
            is_clean = worker.kill()
            refused = worker.refusals()
            worker.close()
            log.close()
            self._close_ledger(standby, refused)
        if not is_clean:
            return Ending(
                Status.CRASHED, f"a process of the {self._job.noun} could not be killed; it hangs in the kernel."
            )
        if self._refused and ending.status is not Status.FINISHED:
            return replace(ending, reason=f"{ending.reason} The sandbox refused it {in_words(self._refused)}.")
        return ending

    def _close_ledger(self, standby: Standby, refused: dict[Refusal, int]) -> None:
        """What was refused and what was spent, the latter on a disk that stays full as the standby's word."""
        self._reserve.give_back_for_results()
        self._store.wait_for_room = patient(_ENDING_PATIENCE_SECONDS)
        try:
            with self._store.transaction():
                self._note_refusals(refused)
                self._store.add_ledger("end", self._budget.spent(seconds_since_boot()))
        except DiskFull:
            standby.beat(is_waiting=False)
            raise
        finally:
            standby.close()
        with contextlib.suppress(OSError):
            self._folder.standby.unlink()

    def _started(self) -> WorkerProcess:
        spec, folder = self._job.spec, self._folder
        # Trying the means takes as long as a worker takes to start, and is none of the job's time.
        detect_backend()
        self._budget = self._budget.started(seconds_since_boot())
        # Before the worker starts: should the supervisor die right after, the time is charged all the same.
        with self._store.transaction():
            self._store.add_ledger("start", self._budget.spent(seconds_since_boot()))
        confinement = SandboxPolicy(
            readable=self._job.readable,
            # What a user named was hashed as its links led.
            linked=(*self._job.named_paths, *(target.path for target in spec.targets)),
            writable=(folder.scratch,),
            hidden=self._job.hidden,
            network=spec.network == "endpoint",
        )
        return WorkerProcess(folder.scratch, confinement, asks_an_endpoint=spec.network == "endpoint")

    def _followed(
        self,
        worker: WorkerProcess,
        log: CappedLog,
        deadline: Deadline,
        ticking: Ticking,
        waiting: WaitingForRoom,
        stop_is_asked: Callable[[], bool],
    ) -> Ending:
        process, in_force = process_with(worker.pid).as_record(), worker.in_force()
        with self._store.transaction():
            self._store.add_event("worker", sandbox=in_force.means, in_force=in_force.as_record(), **process)
        with selectors.DefaultSelector() as selector:
            for descriptor in (worker.frames, worker.log, worker.ended):
                selector.register(descriptor, selectors.EVENT_READ)
            while not deadline.has_passed:
                ready = {key.fd for key, _ in selector.select(max(0.0, self._look_due - seconds_since_boot()))}
                if ticking.fault is not None:
                    raise ticking.fault
                waiting.end_if_there_is_room()
                if worker.log in ready and not _drained(worker.log, log):
                    selector.unregister(worker.log)
                if worker.frames in ready:
                    try:
                        is_open = self._took_frames(worker)
                    except (FrameError, IntakeFault) as fault:
                        return _forged(fault, self._job.noun)
                    if not is_open:
                        selector.unregister(worker.frames)
                        self._silent_since = seconds_since_boot()
                if (worker.ended in ready or self._intake.end is not None) and not deadline.has_passed:
                    return self._ended_by_itself(worker, log)
                if (ending := self._ending_due(worker, stop_is_asked)) is not None and not deadline.has_passed:
                    return ending
        nothing = f" It had emitted no {self._job.row_noun}." if self._intake.rows == 0 else ""
        return Ending(Status.OUT_OF_TIME, f"its budget ended before its work did.{nothing}")

    def _ending_due(self, worker: WorkerProcess, stop_is_asked: Callable[[], bool]) -> Ending | None:
        """What the clock asks for: the call to finish, or an end that does not wait for the worker."""
        at = seconds_since_boot()
        if self._must_finish(at, stop_is_asked):
            worker.ask_to_finish()
            with self._store.transaction():
                self._store.add_event("phase", phase=Status.FINISHING)
        if self._stop_at is not None and at >= self._stop_at:
            return Ending(Status.STOPPED, "it was stopped.")
        if self._silent_since is not None and at >= self._silent_since + _SILENT_GRACE_SECONDS:
            return Ending(Status.CRASHED, f"the {self._job.noun}'s process closed the pipe that its results travel on.")
        if at >= self._look_due:
            self._look_due = at + TICK_SECONDS
            worker.say_what_is_unsaid()
            return self._looked(worker, at)
        return None

    def _must_finish(self, at: float, stop_is_asked: Callable[[], bool]) -> bool:
        """The worker is to be asked to finish, for the first time: by the user's wish, or by the soft deadline."""
        if self._stop_at is None and stop_is_asked():
            self._stop_at = at + _STOP_GRACE_SECONDS
        if self._finish_was_asked or (self._stop_at is None and self._budget.until_soft_deadline(at) > 0):
            return False
        self._finish_was_asked = True
        return True

    def _gives_up(self, worker: WorkerProcess, stop_is_asked: Callable[[], bool]) -> bool:
        """While rows wait for room on a full disk the worker still hears the clock; a user who stops waits no longer
        than ever."""
        at = seconds_since_boot()
        if self._must_finish(at, stop_is_asked):
            worker.ask_to_finish()
        worker.say_what_is_unsaid()
        return self._stop_at is not None and at >= self._stop_at

    def _took_frames(self, worker: WorkerProcess) -> bool:
        """Take what the pipe holds, commit it, acknowledge it; false at the pipe's end."""
        content, is_open = _content(worker.frames, _FRAMES_AT_ONCE)
        if not content:
            return is_open
        last, fault = None, None
        had_started = self._intake.has_started
        with self._store.transaction():
            try:
                for sequence, size, frame in self._frames.feed(content):
                    self._intake.take(frame, size)
                    last = sequence
            except (FrameError, IntakeFault) as error:
                # What came before it was honest, and stays.
                fault = error
            if self._intake.has_started and not had_started and not self._finish_was_asked:
                self._store.add_event("phase", phase=Status.RUNNING)
        if fault is not None:
            raise fault
        if last is not None:
            worker.acknowledge(last)
        return is_open

    def _looked(self, worker: WorkerProcess, at: float) -> Ending | None:
        """Record the running curve and the machine where they are due; an end for an attack that fills the disk."""
        self._job.look(self._store, at=at, spent=self._budget.spent(at))
        if at < self._telemetry_due:
            return None
        self._telemetry_due = at + _TELEMETRY_SECONDS
        sample = self._telemetry.sample(reaper.descendants_of(os.getpid())[:_MOST_SAMPLED])
        refused = worker.refusals()
        with self._store.transaction():
            self._store.add_telemetry(sample)
            if refused.keys() != self._refused.keys():
                # A first time is noted soon, how often at the end: an attack that asks without end fills no record.
                self._note_refusals(refused)
        if is_larger_than(self._folder.scratch, MOST_SCRATCH_BYTES):
            most = f"{MOST_SCRATCH_BYTES >> 30} GiB"
            return Ending(Status.CRASHED, f"the {self._job.noun} wrote more than {most} into its scratch folder.")
        return None

    def _note_refusals(self, refused: dict[Refusal, int]) -> None:
        if refused != self._refused:
            self._refused = refused
            self._store.add_event("refused", **(self._refused_before + Counter(refused)))

    def _ended_by_itself(self, worker: WorkerProcess, log: CappedLog) -> Ending:
        """What the worker's last word or its process's end means, once everything that it sent has been taken in."""
        _drained(worker.log, log)
        try:
            while self._took_frames(worker) and _has_content(worker.frames):
                pass
        except (FrameError, IntakeFault) as fault:
            return _forged(fault, self._job.noun)
        at = seconds_since_boot()
        self._job.look(self._store, at=at, spent=self._budget.spent(at), is_last=True)
        end = self._intake.end
        if end is None:
            return _ended_without_a_word(worker, self._job.noun)
        if end.failure is not None:
            return Ending(Status.CRASHED, end.failure)
        if not end.was_cut_short:
            return Ending(Status.FINISHED)
        if self._budget.until_soft_deadline(seconds_since_boot()) <= 0:
            return Ending(Status.OUT_OF_TIME, "its budget ended before its work did; it finished early as asked.")
        return Ending(Status.STOPPED, "it was stopped.")


def _forged(fault: FrameError | IntakeFault, noun: str) -> Ending:
    return Ending(Status.CRASHED, f"the {noun}'s process sent what no {noun} may: {fault}.")


def _ended_without_a_word(worker: WorkerProcess, noun: str) -> Ending:
    number, code = worker.exit_signal_or_code()
    if number is None:
        return Ending(Status.CRASHED, f"the {noun}'s process ended without a word, with exit code {code}.")
    if number.name == "SIGKILL" and (limit := worker.struck_memory_limit()) is not None:
        return Ending(
            Status.CRASHED, f"the {noun} held more than {limit / 1e9:.1f} GB of memory, its limit, and was killed."
        )
    hint = " (the kernel does that when memory runs out)" if number.name == "SIGKILL" else ""
    return Ending(Status.CRASHED, f"the {noun}'s process was killed by {number.name}{hint}.")


def _content(descriptor: int, most: int) -> tuple[bytes, bool]:
    """What a pipe holds, some more than `most` bytes at the most, and whether it is still open."""
    chunks: list[bytes] = []
    size = 0
    while size < most:
        try:
            chunk = os.read(descriptor, _PIPE_CHUNK)
        except BlockingIOError:
            break
        if not chunk:
            return b"".join(chunks), False
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks), True


def _has_content(descriptor: int) -> bool:
    """Something lies in the pipe, or it has ended; a process that the attack left behind may hold it open."""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(0))


def _drained(descriptor: int, log: CappedLog) -> bool:
    """Move what a pipe holds into the log; false at its end."""
    content, is_open = _content(descriptor, _LOG_AT_ONCE)
    log.write(content)
    return is_open
