"""Runs that are killed and resumed until they finish, one after the other, with every law checked after each kill."""

import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harness.runs.folder import RunFolder
from harness.runs.status import Process
from tests.functional.machine import OVER, Machine, wait_until
from tests.soak import clients, laws, record
from tests.soak.laws import Violation
from tests.soak.processes import killed_supervisor, killed_worker, supervisors_of
from tests.soak.witness import Witness

_VICTIMS = {"worker": 35, "supervisor": 35, "starting supervisor": 10, "screen": 10, "plain": 10}
_ENDED_WITHIN_SECONDS = 30.0


@dataclass(frozen=True)
class Work:
    """What a lane runs.

    base: the words after `harness run`; slowly: those that make it last, quickly: those that make it short, and leave
    its bytes as they are; reach: how long after a start a kill may come, in seconds.
    """

    base: tuple[str, ...]
    slowly: tuple[str, ...] = ()
    quickly: tuple[str, ...] = ()
    reach: float = 0.0


@dataclass
class Tally:
    """What a lane has done. kills: by victim; margins: seconds charged beyond what workers lived, of each run."""

    kills: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    finished: int = 0
    resumes: int = 0
    clients_painted: int = 0
    margins: list[float] = field(default_factory=list)


class Lane:
    """One machine on which runs are killed. `is_called_off` is asked between two kills."""

    def __init__(
        self, machine: Machine, work: Work, *, kills: int, seed: str, is_called_off: Callable[[], bool]
    ) -> None:
        self.tally = Tally()
        self._machine = machine
        self._work = work
        self._kills = kills
        self._chance = random.Random(seed)
        self._is_called_off = is_called_off

    def go(self) -> None:
        """Kill as often as was asked for, and see every run to its end. Raises Violation."""
        reference = Path(self._machine.json("run", *self._work.base, *self._work.quickly)["directory"])
        while self.tally.kills.total() < self._kills and not self._is_called_off():
            folder = RunFolder(
                Path(self._machine.json("run", *self._work.base, *self._work.slowly, "--detach")["directory"])
            )
            witness = Witness(folder)
            try:
                self._see_to_its_end(folder, witness)
            finally:
                witness.close()
            laws.results_are(folder, reference)
            self.tally.finished += 1
            self.tally.acknowledged += laws.every_acknowledged_guess_is_stored(folder, witness)
            charged = laws.ledger_never_shrinks(folder)
            self.tally.margins.append(laws.no_second_is_gained(folder, charged=charged, alive=witness.alive()))
            self._machine.run("runs", "rm", folder.id)

    def _see_to_its_end(self, folder: RunFolder, witness: Witness) -> None:
        while True:
            if self.tally.kills.total() < self._kills and not self._is_called_off():
                self._strike(folder)
            else:
                wait_until(lambda: self._is_over(folder), seconds=120)
            if not self._is_over(folder):
                continue
            status = self._status(folder)
            laws.nothing_of_it_is_alive(folder)
            laws.store_is_readable(folder)
            laws.every_acknowledged_guess_is_stored(folder, witness)
            laws.ledger_never_shrinks(folder)
            self.tally.ends[status] += 1
            if status == "finished":
                return
            laws.status_is(self._machine, folder, "lost", "crashed")
            alive, starts = witness.alive(), len(_starts(folder))
            self._resume(folder)
            wait_until(lambda folder=folder, starts=starts: len(_starts(folder)) > starts or self._is_over(folder))
            if len(_starts(folder)) > starts:
                laws.no_second_is_gained(folder, charged=_starts(folder)[starts], alive=alive)

    def _strike(self, folder: RunFolder) -> None:
        """Kill one of the run's processes, or a client, at a random moment, and see that what dies is what should."""
        # A supervisor that starts is hit where it starts, by `_resume`.
        victims = [name for name in _VICTIMS if name != "starting supervisor"]
        victim = self._chance.choices(victims, [_VICTIMS[name] for name in victims])[0]
        if victim in clients.COMMANDS:
            self._kill_client(folder, victim)
            return
        time.sleep(self._chance.uniform(0.0, self._work.reach))
        if self._is_over(folder):
            return
        if victim == "worker":
            if not killed_worker(folder):
                return
            self.tally.kills[victim] += 1
            wait_until(lambda: self._is_over(folder), seconds=_ENDED_WITHIN_SECONDS)
            if laws.status_is(self._machine, folder, "crashed", "finished") == "crashed":
                reason = self._machine.summary(folder)["reason"]
                if "killed by SIGKILL" not in reason:
                    raise Violation(f"{folder.path}: a worker killed by SIGKILL is told as {reason!r}")
            return
        if killed_supervisor(folder):
            self.tally.kills["supervisor"] += 1
            laws.status_is(self._machine, folder, "lost", "crashed", "finished")

    def _kill_client(self, folder: RunFolder, kind: str) -> None:
        before = record.events(folder.store, "supervisor")
        self.tally.clients_painted += clients.killed_client(self._machine, folder, kind, self._chance)
        self.tally.kills[kind] += 1
        is_alive = Process.from_record(before[-1]).is_here
        if record.events(folder.store, "supervisor") != before or not (is_alive or self._status(folder) == "finished"):
            raise Violation(f"{folder.path}: a client's death reached its supervisor")

    def _resume(self, folder: RunFolder) -> None:
        """Resume the run; now and then kill the supervisor that is about to take it up, and resume it again."""
        # The last word of one that ends stands in the record a moment before it is gone.
        wait_until(lambda: not supervisors_of(folder))
        share = _VICTIMS["starting supervisor"] / (_VICTIMS["worker"] + _VICTIMS["supervisor"])
        while self.tally.kills.total() < self._kills and self._chance.random() < share:
            command = self._machine.start("resume", folder.id, "--detach")
            wait_until(lambda command=command: command.poll() is not None or supervisors_of(folder))
            time.sleep(self._chance.uniform(0.0, 0.4))
            is_killed = killed_supervisor(folder)
            _, said = command.communicate(timeout=60)
            if command.returncode not in (0, 1) or "Traceback" in said:
                raise Violation(f"{folder.path}: resume of a supervisor that was killed said {said!r}")
            if not is_killed:
                # It came up after the blow.
                return
            self.tally.kills["starting supervisor"] += 1
            laws.nothing_of_it_is_alive(folder)
            laws.store_is_readable(folder)
            if self._status(folder) == "finished":
                return
        try:
            self._machine.run("resume", folder.id, "--detach")
        except (AssertionError, subprocess.TimeoutExpired) as error:
            raise Violation(f"{folder.path}: cannot be resumed: {error}") from None
        self.tally.resumes += 1

    def _status(self, folder: RunFolder) -> str:
        return str(self._machine.summary(folder)["status"])

    def _is_over(self, folder: RunFolder) -> bool:
        return self._status(folder) in OVER


def _starts(folder: RunFolder) -> list[float]:
    """What had been spent each time that a worker was started, in seconds."""
    return [row.spent for row in record.ledger(folder.store) if row.entry == "start"]
