"""Kill and resume runs at random moments until they finish, and check every invariant after each kill."""

import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harness.runs.folder import RunFolder
from harness.runs.status import Process
from tests.functional.machine import OVER, Machine, kill_worker, wait_until
from tests.soak import clients, invariants, record
from tests.soak.invariants import Violation
from tests.soak.observer import Observer
from tests.soak.processes import kill_supervisor, supervisors_of

_VICTIMS = {"worker": 35, "supervisor": 35, "screen": 10, "plain": 10}
"""The weights with which victims are drawn."""
_STARTING_SHARE = 10 / 70
"""The share of resumes in which the supervisor is killed while it starts."""
_ENDED_WITHIN_SECONDS = 30.0


@dataclass(frozen=True)
class Workload:
    """A command that starts runs.

    arguments: those of `harness run`. slow, fast: options that change the duration of a run but not its submission.
    max_delay: the most seconds between two kills.
    """

    arguments: tuple[str, ...]
    slow: tuple[str, ...] = ()
    fast: tuple[str, ...] = ()
    max_delay: float = 0.0

    def reference(self, machine: Machine) -> Path:
        """Run to the end without interruption, and return the directory of the run."""
        return Path(machine.json("run", *self.arguments, *self.fast)["directory"])

    def start(self, machine: Machine, *options: str) -> RunFolder:
        """Start a detached run."""
        return RunFolder(Path(machine.json("run", *self.arguments, *options, "--detach")["directory"]))


@dataclass
class Counts:
    """Results of a runner. kills: by victim. margins: seconds charged beyond the lifetime of the workers, by run."""

    kills: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    finished: int = 0
    resumes: int = 0
    clients_painted: int = 0
    margins: list[float] = field(default_factory=list)


class Runner:
    """One machine on which runs are killed. `is_cancelled` is called between kills."""

    def __init__(
        self, machine: Machine, workload: Workload, *, kills: int, seed: str, is_cancelled: Callable[[], bool]
    ) -> None:
        self.counts = Counts()
        self._machine = machine
        self._workload = workload
        self._kills = kills
        self._random = random.Random(seed)
        self._is_cancelled = is_cancelled

    def run(self) -> None:
        """Kill as often as requested, and run every run to its end. Raises Violation."""
        reference = self._workload.reference(self._machine)
        while self._has_kills_left() and not self._is_cancelled():
            folder = self._workload.start(self._machine, *self._workload.slow)
            observer = Observer(folder)
            try:
                self._run_to_end(folder, observer)
            finally:
                observer.close()
            self.counts.margins.append(invariants.check_finished(folder, observer, reference))
            self.counts.finished += 1
            self.counts.acknowledged += observer.acknowledged().total()
            self._machine.run("runs", "rm", "--now", folder.id)

    def _run_to_end(self, folder: RunFolder, observer: Observer) -> None:
        while True:
            if self._has_kills_left() and not self._is_cancelled():
                self._kill_something(folder)
            else:
                wait_until(lambda: self._is_over(folder), seconds=120)
            if not self._is_over(folder):
                continue
            status = self._status(folder)
            invariants.check_after_fault(folder, observer)
            self.counts.statuses[status] += 1
            if status == "finished":
                return
            invariants.check_status(self._machine, folder, "lost", "crashed")
            lifetime, starts = observer.lifetime(), len(start_charges(folder))
            self._resume(folder)
            wait_until(lambda starts=starts: len(start_charges(folder)) > starts or self._is_over(folder))
            if len(start_charges(folder)) > starts:
                invariants.check_charge(folder, charged=start_charges(folder)[starts], lifetime=lifetime)

    def _kill_something(self, folder: RunFolder) -> None:
        """Kill a process of the run, or a client, at a random moment. Check the status of the run."""
        victim = self._random.choices([*_VICTIMS], [*_VICTIMS.values()])[0]
        if victim in clients.COMMANDS:
            self._kill_client(folder, victim)
            return
        time.sleep(self._random.uniform(0.0, self._workload.max_delay))
        if self._is_over(folder):
            return
        if victim == "worker":
            if not kill_worker(folder):
                return
            self.counts.kills[victim] += 1
            wait_until(lambda: self._is_over(folder), seconds=_ENDED_WITHIN_SECONDS)
            if invariants.check_status(self._machine, folder, "crashed", "finished") == "crashed":
                reason = self._machine.summary(folder)["reason"]
                if "killed by SIGKILL" not in reason:
                    raise Violation(f"{folder.path}: the reason of a worker killed by SIGKILL is {reason!r}")
            return
        if kill_supervisor(folder):
            self.counts.kills["supervisor"] += 1
            invariants.check_status(self._machine, folder, "lost", "crashed", "finished")

    def _kill_client(self, folder: RunFolder, kind: str) -> None:
        before = record.events(folder.store, "supervisor")
        self.counts.clients_painted += clients.kill_client(self._machine, folder, kind, self._random)
        self.counts.kills[kind] += 1
        is_alive = Process.from_record(before[-1]).is_here
        if record.events(folder.store, "supervisor") != before or not (is_alive or self._status(folder) == "finished"):
            raise Violation(f"{folder.path}: killing a client ended its supervisor")

    def _resume(self, folder: RunFolder) -> None:
        """Resume the run. Sometimes kill the supervisor while it starts, and resume again."""
        # A supervisor writes its last event shortly before its process ends.
        wait_until(lambda: not supervisors_of(folder))
        while self._has_kills_left() and self._random.random() < _STARTING_SHARE:
            command = self._machine.start("resume", folder.id, "--detach")
            wait_until(lambda command=command: command.poll() is not None or supervisors_of(folder))
            time.sleep(self._random.uniform(0.0, 0.4))
            is_killed = kill_supervisor(folder)
            _, error = command.communicate(timeout=60)
            if command.returncode not in (0, 1) or "Traceback" in error:
                raise Violation(f"{folder.path}: resume printed {error!r} after its supervisor was killed")
            if not is_killed:
                return
            self.counts.kills["starting supervisor"] += 1
            invariants.check_no_worker(folder)
            invariants.check_store(folder)
            if self._status(folder) == "finished":
                return
        try:
            self._machine.run("resume", folder.id, "--detach")
        except (AssertionError, subprocess.TimeoutExpired) as error:
            raise Violation(f"{folder.path}: cannot be resumed: {error}") from None
        self.counts.resumes += 1

    def _has_kills_left(self) -> bool:
        return self.counts.kills.total() < self._kills

    def _status(self, folder: RunFolder) -> str:
        return str(self._machine.summary(folder)["status"])

    def _is_over(self, folder: RunFolder) -> bool:
        return self._status(folder) in OVER


def start_charges(folder: RunFolder) -> list[float]:
    """Return the seconds that had been spent at each start of a worker."""
    return [row.spent for row in record.ledger(folder.store) if row.entry == "start"]
