"""The process that owns a run: its clock, its store and its answers. It starts the worker, and it ends it.

python -m harness.runs.supervisor RUN_DIRECTORY
"""

import contextlib
import os
import selectors
import shutil
import signal
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.core import job, paths
from harness.core.clock import now
from harness.core.errors import HarnessError
from harness.core.examples import load_answers, load_prefixes, load_training
from harness.core.frames import FrameError, FrameReader
from harness.core.job import TargetOrder, WorkerJob
from harness.core.spec import RunSpec
from harness.runs import keeper
from harness.runs.capped_log import CappedLog
from harness.runs.device_lock import DeviceLock, exclusive_lock
from harness.runs.folder import RunFolder, runs_home
from harness.runs.intake import Intake, IntakeFault
from harness.runs.ledger import TICK_SECONDS, Budget, spent_after
from harness.runs.reader import RunReader
from harness.runs.results import write_results
from harness.runs.running_curve import RunningCurve
from harness.runs.sandbox import offered_means
from harness.runs.status import Status, process_with
from harness.runs.store import RunStore
from harness.runs.summary import execution_record
from harness.runs.telemetry import Telemetry
from harness.runs.worker_process import WorkerProcess

_STOP_GRACE_SECONDS = 5.0
_TELEMETRY_SECONDS = 2.0
_QUEUE_SECONDS = 0.5
_READ_AT_ONCE = 4 << 20
_ALREADY_SUPERVISED = 75


@dataclass(frozen=True)
class Ending:
    """How an execution ended: a final status, and a sentence where it did not simply finish."""

    status: Status
    reason: str = ""


class Supervisor:
    """One execution of one run, from its queue to its scorecard."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._spec: RunSpec = folder.spec()
        self._store = RunStore(folder.store)
        self._stop_is_asked = False
        with RunReader(folder.store) as reader:
            last = reader.last_ledger()
            spent = 0.0 if last is None else spent_after(last.spent, was_closed=last.entry == "end")
            self._earlier_guesses = reader.guess_count()
        self._budget = Budget(self._spec.budget, spent)

    def run(self) -> None:
        """Queue, execute, write the results; whatever happens, the record says how it ended."""
        self._record("supervisor", **process_with(os.getpid()).as_record())
        self._record("execution", **execution_record(self._spec))
        try:
            ending = self._execution()
        except Exception as error:
            traceback.print_exc()
            ending = Ending(Status.CRASHED, f"the supervisor failed: {_one_line(error)}")
        self._phase(Status.FINISHING)
        shutil.rmtree(self._folder.scratch, ignore_errors=True)
        try:
            write_results(self._folder, self._spec)
        except (HarnessError, OSError) as error:
            ending = Ending(Status.CRASHED, f"its results could not be written: {_one_line(error)}")
        self._phase(ending.status, reason=ending.reason)
        self._store.close()

    def ask_to_stop(self) -> None:
        """End the run soon, as its user wishes."""
        self._stop_is_asked = True

    def _execution(self) -> Ending:
        if self._budget.remaining(now()) <= 0:
            return Ending(Status.OUT_OF_TIME, "its budget was spent.")
        lock = DeviceLock(self._spec.target.device) if self._spec.target is not None else None
        if lock is not None and not self._is_admitted(lock):
            return Ending(Status.STOPPED, "it was stopped before it started.")
        try:
            self._phase(Status.STARTING)
            return _Execution(self._folder, self._spec, self._store, self._budget, self._earlier_guesses).ending(
                lambda: self._stop_is_asked
            )
        finally:
            if lock is not None:
                lock.release()

    def _is_admitted(self, lock: DeviceLock) -> bool:
        """Wait for the device; false when the run is stopped first. The budget does not run yet."""
        if lock.is_taken():
            return True
        self._phase(Status.QUEUED)
        while not lock.is_taken():
            if self._stop_is_asked:
                return False
            time.sleep(_QUEUE_SECONDS)
        return True

    def _phase(self, phase: Status, **detail: str) -> None:
        self._record("phase", phase=phase, **detail)

    def _record(self, name: str, **detail: object) -> None:
        with self._store.transaction():
            self._store.add_event(name, **detail)


class _Execution:
    """One worker under one clock."""

    def __init__(self, folder: RunFolder, spec: RunSpec, store: RunStore, budget: Budget, guesses: int) -> None:
        self._folder = folder
        self._spec = spec
        self._store = store
        self._budget = budget
        answers = load_answers(spec.round)
        self._curve = RunningCurve(
            None if answers is None else answers[: spec.examples],
            examples=spec.examples,
            error_cap=spec.error_cap,
            row_cap=spec.round.row_cap,
            per_example=spec.attack.guesses_per_example,
        )
        self._intake = Intake(store, spec, self._curve, examples=spec.examples, guesses=guesses)
        self._frames = FrameReader()
        self._unsent_acknowledgement: int | None = None
        self._telemetry = Telemetry(None if spec.target is None else spec.target.device)
        self._telemetry_due = 0.0
        self._finish_was_asked = False

    def ending(self, stop_is_asked: Callable[[], bool]) -> Ending:
        """Start the worker, follow it to its end, and kill what is left of it."""
        self._lay_inputs()
        log = CappedLog(self._folder.log)
        worker = self._started()
        # The deadline is kept by a thread of its own: neither a slow disk nor a large ranking may hold it up.
        over = threading.Event()

        def kill_at_deadline() -> None:
            over.set()
            worker.kill()

        deadline = threading.Timer(self._budget.remaining(now()), kill_at_deadline)
        deadline.daemon = True
        deadline.start()
        try:
            ending = self._followed(worker, log, over, stop_is_asked)
        finally:
            deadline.cancel()
            is_clean = worker.kill()
            worker.close()
            log.close()
            with self._store.transaction():
                self._store.add_ledger("end", self._budget.spent(now()))
        if not is_clean:
            return Ending(Status.CRASHED, "a process of the attack could not be killed; it hangs in the kernel.")
        return ending

    def _lay_inputs(self) -> None:
        spec, folder = self._spec, self._folder
        shutil.rmtree(folder.scratch, ignore_errors=True)
        with RunReader(folder.store) as reader:
            shape = {"suffix_length": spec.round.suffix_length, "vocabulary": spec.round.vocabulary}
            guesses = reader.guesses(**shape)
            self._curve.add(reader.guess_batches(), guesses.ids, guesses.suffixes, guesses.score)
            loaded = reader.last_event("worker_target")
            order = WorkerJob(
                attack_file=folder.code / spec.attack.file,
                params=spec.params,
                seed=spec.seed,
                guesses_per_example=spec.attack.guesses_per_example,
                uses_target=spec.attack.uses_target,
                target=_target_order(spec),
                finish_at=now() + max(0.0, self._budget.until_soft_deadline(now())),
                done=reader.done_keys(),
                rows_at_once=None if loaded is None else int(loaded["rows_at_once"]),
                engine_rows=reader.engine_calls(),
                **shape,
            )
            kept = reader.kept()
        job.write_inputs(
            folder.scratch / "inputs",
            order,
            prefixes=load_prefixes(spec.round)[: spec.examples],
            training=load_training(spec.round) if _training_is_here(spec) else None,
            kept=kept,
            guesses=guesses,
        )

    def _started(self) -> WorkerProcess:
        spec, folder = self._spec, self._folder
        readable = [folder.code, *(record.path for record in spec.paths.values())]
        if spec.target is not None:
            readable.append(spec.target.path)
        worker = WorkerProcess(
            folder.scratch,
            hidden=[runs_home(), paths.data_home(), paths.cache_home(), paths.SHIPPED_ROUNDS, *spec.round.files],
            readable=readable,
        )
        self._budget = self._budget.started(now())
        with self._store.transaction():
            self._store.add_event("worker", sandbox=offered_means(), **process_with(worker.pid).as_record())
            self._store.add_ledger("start", self._budget.spent(now()))
        return worker

    def _followed(
        self, worker: WorkerProcess, log: CappedLog, over: threading.Event, stop_is_asked: Callable[[], bool]
    ) -> Ending:
        stop_at: float | None = None
        tick_at = now() + TICK_SECONDS
        with selectors.DefaultSelector() as selector:
            for descriptor in (worker.frames, worker.log, worker.ended):
                selector.register(descriptor, selectors.EVENT_READ)
            while not over.is_set():
                ready = {key.fd for key, _ in selector.select(max(0.0, tick_at - now()))}
                if worker.log in ready and not _drained(worker.log, log):
                    selector.unregister(worker.log)
                if worker.frames in ready:
                    try:
                        is_open = self._took_frames(worker)
                    except (FrameError, IntakeFault) as fault:
                        return Ending(Status.CRASHED, f"the attack's process sent what no attack may: {fault}.")
                    if not is_open:
                        selector.unregister(worker.frames)
                if worker.ended in ready and not over.is_set():
                    return self._ended_by_itself(worker, log)
                at = now()
                if stop_at is None and stop_is_asked():
                    stop_at = at + _STOP_GRACE_SECONDS
                    self._ask_to_finish(worker)
                if stop_at is not None and at >= stop_at:
                    break
                if not self._finish_was_asked and self._budget.until_soft_deadline(at) <= 0:
                    self._ask_to_finish(worker)
                if at >= tick_at:
                    self._tick(worker, at)
                    tick_at = at + TICK_SECONDS
        if stop_at is not None and not over.is_set():
            return Ending(Status.STOPPED, "it was stopped.")
        nothing = " It had emitted no guess." if self._intake.guesses == 0 else ""
        return Ending(Status.OUT_OF_TIME, f"its budget ended before its work did.{nothing}")

    def _took_frames(self, worker: WorkerProcess) -> bool:
        """Take what the pipe holds, commit it, acknowledge it; false at the pipe's end."""
        chunks, size, is_open = [], 0, True
        while size < _READ_AT_ONCE:
            try:
                chunk = os.read(worker.frames, 1 << 20)
            except BlockingIOError:
                break
            if not chunk:
                is_open = False
                break
            chunks.append(chunk)
            size += len(chunk)
        frames = self._frames.feed(b"".join(chunks))
        if frames:
            had_started = self._intake.has_started
            with self._store.transaction():
                for _, _, frame in frames:
                    self._intake.take(frame)
                if self._intake.has_started and not had_started and not self._finish_was_asked:
                    self._store.add_event("phase", phase=Status.RUNNING)
            self._unsent_acknowledgement = frames[-1][0]
        self._acknowledge(worker)
        return is_open

    def _acknowledge(self, worker: WorkerProcess) -> None:
        # One acknowledgement stands for all before it, so one that found no room is simply sent later.
        if self._unsent_acknowledgement is not None and worker.say(f"ack {self._unsent_acknowledgement}"):
            self._unsent_acknowledgement = None

    def _ask_to_finish(self, worker: WorkerProcess) -> None:
        self._finish_was_asked = True
        worker.say("finish")
        with self._store.transaction():
            self._store.add_event("phase", phase=Status.FINISHING)

    def _tick(self, worker: WorkerProcess, at: float) -> None:
        self._acknowledge(worker)
        with self._store.transaction():
            self._store.add_ledger("tick", self._budget.spent(at))
            if self._curve.is_due(at):
                self._add_point(at)
            if at >= self._telemetry_due:
                self._telemetry_due = at + _TELEMETRY_SECONDS
                self._store.add_telemetry(self._telemetry.sample(keeper.descendants_of(os.getpid())))

    def _add_point(self, at: float) -> None:
        before = time.process_time()
        standing = self._curve.standing()
        self._curve.postpone(at, time.process_time() - before)
        self._store.add_point(
            spent=self._budget.spent(at),
            guesses=self._intake.guesses,
            rows=standing.rows,
            solved=standing.solved,
            wrong=standing.wrong,
            recall=standing.recall,
        )

    def _ended_by_itself(self, worker: WorkerProcess, log: CappedLog) -> Ending:
        """What the end of the worker's process means, once everything that it sent has been taken in."""
        _drained(worker.log, log)
        try:
            while self._took_frames(worker) and not self._frames_are_exhausted(worker):
                pass
        except (FrameError, IntakeFault) as fault:
            return Ending(Status.CRASHED, f"the attack's process sent what no attack may: {fault}.")
        with self._store.transaction():
            self._add_point(now())
        how = worker.exit_signal_or_code()
        end = self._intake.end
        if end is not None and end.failure is not None:
            return Ending(Status.CRASHED, end.failure)
        if end is not None and not end.was_cut_short:
            return Ending(Status.FINISHED)
        if end is not None:
            if self._budget.until_soft_deadline(now()) <= 0:
                return Ending(Status.OUT_OF_TIME, "its budget ended before its work did; it finished early as asked.")
            return Ending(Status.STOPPED, "it was stopped.")
        number, code = how if how is not None else (None, 0)
        if number is not None:
            return Ending(Status.CRASHED, f"the attack's process was killed by {number.name}.")
        return Ending(Status.CRASHED, f"the attack's process ended without a word, with exit code {code}.")

    def _frames_are_exhausted(self, worker: WorkerProcess) -> bool:
        """Nothing more lies in the pipe, though a process that the attack left behind may hold it open."""
        with selectors.DefaultSelector() as selector:
            selector.register(worker.frames, selectors.EVENT_READ)
            return not selector.select(0)


def _drained(descriptor: int, log: CappedLog) -> bool:
    """Move what a pipe holds, at most 4 MiB, into the log; false at its end."""
    for _ in range(_READ_AT_ONCE >> 16):
        try:
            chunk = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return True
        if not chunk:
            return False
        log.write(chunk)
    return True


def _target_order(spec: RunSpec) -> TargetOrder | None:
    if spec.target is None:
        return None
    target = spec.target
    return TargetOrder(path=target.path, device=target.device, dtype=target.dtype, threads=target.threads)


def _training_is_here(spec: RunSpec) -> bool:
    files = (spec.round.train_prefix_file, spec.round.train_suffix_file)
    return all(path is not None and path.exists() for path in files)


def _one_line(error: Exception) -> str:
    if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
        return "the disk is full."
    return str(error).partition("\n")[0] or type(error).__name__


def main() -> None:
    """Supervise the run in the directory given, unless somebody does already."""
    folder = RunFolder(Path(sys.argv[1]))
    lock = exclusive_lock(folder.lock)
    if lock is None:
        sys.exit(_ALREADY_SUPERVISED)
    keeper.adopt_orphans()
    supervisor = Supervisor(folder)
    signal.signal(signal.SIGTERM, lambda *_: supervisor.ask_to_stop())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    supervisor.run()


if __name__ == "__main__":
    main()
