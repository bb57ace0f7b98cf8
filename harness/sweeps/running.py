"""Start the runs of a sweep one after the other or many at once, and follow them to their ends."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

from harness.core.errors import HarnessError
from harness.core.rounds import PresetValue
from harness.plugins.discovery import AttackFile
from harness.runs.folder import RunFolder
from harness.runs.launch import is_over, resume_run
from harness.runs.planning import start_attack
from harness.runs.specs import AttackSpec
from harness.runs.summary import run_status, run_summary

_POLL_SECONDS = 0.1


class PlannedRun(NamedTuple):
    """A run that can start: what it records, and the file that its source is copied from."""

    spec: AttackSpec
    attack: AttackFile
    unused_preset: Mapping[str, PresetValue] = MappingProxyType({})
    """The values of the round's preset that differ from those of the run, without parameters that `--set` names."""

    def start(self) -> RunFolder:
        """Start the run. Raises HarnessError as `start_attack` does."""
        return start_attack(self.spec, self.attack)


class Active(NamedTuple):
    """A run in progress."""

    run: str
    words: str
    """Its status for people."""
    share: float | None
    """The part of its work that is done, None if unknown."""


class Ended(NamedTuple):
    """A run that is over."""

    run: str
    failure: str = ""
    """The reason that its record is not in the store; empty if it is."""


class Executor(Protocol):
    """A place that computes the runs of a sweep. Their records end up in the store of this machine."""

    @property
    def has_room(self) -> bool:
        """True if another run may be started now."""

    @property
    def active(self) -> Sequence[Active]:
        """The runs that were started and are not over."""

    def start(self, planned: PlannedRun) -> None:
        """Start a run, or continue it if an earlier sweep command started it."""

    def wait(self) -> Sequence[Ended]:
        """Wait for a moment; return the runs that have ended since the last call."""


class LocalExecutor:
    """This machine: one run after the other, each with its own supervisor, budget and sandbox."""

    def __init__(self, current_weights: Callable[[AttackSpec], Sequence[str | None]]) -> None:
        """`current_weights` returns the hash of the weights of each model of a run as they are now."""
        self._current_weights = current_weights
        self._folder: RunFolder | None = None

    @property
    def has_room(self) -> bool:
        """True if no run is in progress."""
        return self._folder is None

    @property
    def active(self) -> Sequence[Active]:
        """The run in progress, if there is one."""
        if self._folder is None:
            return ()
        try:
            summary = run_summary(self._folder)
        except HarnessError as error:
            return (Active(self._folder.id, str(error), None),)
        return (Active(self._folder.id, summary.status.words, summary.progress),)

    def start(self, planned: PlannedRun) -> None:
        """Start the run, or continue it if its directory exists."""
        folder = RunFolder.of(planned.spec.id)
        if not folder.spec_file.is_file():
            folder = planned.start()
        elif run_status(folder).is_over:
            resume_run(folder, weights_sha256=self._current_weights(folder.attack_spec()))
        self._folder = folder

    def wait(self) -> Sequence[Ended]:
        """Wait for a moment; return the run if it has ended."""
        time.sleep(_POLL_SECONDS)
        if self._folder is None or not is_over(self._folder):
            return ()
        ended, self._folder = Ended(self._folder.id), None
        return (ended,)


@dataclass
class SweepState:
    """The progress of a sweep in this process, for the lines that it prints."""

    total: int
    done: int
    """Number of runs that are over, with those of earlier commands."""
    done_before: int
    began_at: float
    """A value of `time.monotonic`."""
    failed: dict[str, str]
    """Runs without a record, with the reason."""
    active: Sequence[Active] = ()

    @property
    def eta_s(self) -> float | None:
        """Seconds until all runs are over if the rest goes as fast as this process was; None before its first run."""
        if self.done == self.done_before:
            return None
        done = self.done - self.done_before + sum(run.share or 0.0 for run in self.active)
        return (time.monotonic() - self.began_at) / done * max(0.0, self.total - self.done_before - done)


def follow_sweep(
    runs: Sequence[str],
    total: int,
    executor: Executor,
    plan: Callable[[str], PlannedRun],
    *,
    on_change: Callable[[SweepState, Sequence[Ended]], None],
) -> SweepState:
    """Compute the `runs`, by id, on `executor`, and return the final state.

    `plan` resolves a run when it is about to start. One that cannot be planned or started counts as failed, and the
    others go on. `total` is the number of runs of the sweep with those that are over already.
    """
    waiting, before = deque(runs), total - len(runs)
    state = SweepState(total, before, before, time.monotonic(), {})
    while waiting or executor.active:
        ended: list[Ended] = []
        while waiting and executor.has_room:
            id_ = waiting.popleft()
            try:
                executor.start(plan(id_))
            except HarnessError as error:
                ended.append(Ended(id_, str(error)))
        ended += executor.wait()
        state.done += len(ended)
        state.failed |= {run.run: run.failure for run in ended if run.failure}
        state.active = executor.active
        on_change(state, ended)
    return state
