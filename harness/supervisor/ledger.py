"""The budget of a run: its arithmetic, the thread that commits the spent time, and the thread that ends the run."""

import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from harness.core.times import seconds_since_boot
from harness.runs.reader import LedgerEntry
from harness.runs.reserve import DiskFull
from harness.runs.store import RunStore

TICK_SECONDS = 0.5
"""Seconds between two commits of the ledger while a worker runs."""
CRASH_CHARGE_SECONDS = 1.0
"""Seconds charged at a resume for the time between the last committed entry and the death of a supervisor.

It is one commit interval with some slack, so that no kill gains time.
"""
_MAX_WAIT_SECONDS = 1.0


@dataclass(frozen=True)
class Budget:
    """The time of one run over all its executions."""

    total: float
    """The seconds of wall clock that the run may take."""
    spent_before: float = 0.0
    """The seconds that earlier executions have spent."""
    started_at: float | None = None
    """The time at which the worker of this execution started, None before that."""

    def begin(self, at: float) -> "Budget":
        """Return the budget of an execution whose worker starts at `at`."""
        return replace(self, started_at=at)

    def spent_at(self, at: float) -> float:
        """Return the time spent until `at`, at most the total."""
        running = 0.0 if self.started_at is None else max(0.0, at - self.started_at)
        return min(self.total, self.spent_before + running)

    def remaining(self, at: float) -> float:
        """Return the seconds until the worker is killed."""
        return self.total - self.spent_at(at)

    @property
    def notice(self) -> float:
        """Seconds between the request to finish and the end of the budget: 60, or 5 % of a short budget."""
        return min(60.0, self.total / 20)

    def until_soft_deadline(self, at: float) -> float:
        """Return the seconds until the worker is asked to finish; negative after that."""
        return self.remaining(at) - self.notice


def spent_so_far(last: LedgerEntry | None) -> float:
    """Return the seconds that a run has spent before it is resumed, from the last entry of its ledger."""
    if last is None:
        return 0.0
    return last.spent if last.entry == "end" else last.spent + CRASH_CHARGE_SECONDS


class _BlockThread:
    """A thread that runs `_run` during a `with` block, which waits for it at the end."""

    def __init__(self) -> None:
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        raise NotImplementedError


class LedgerThread(_BlockThread):
    """Commits the spent time every half second of a `with` block, in a thread of its own, so that nothing delays it.

    `fault` is the error that ended the thread. The run must not continue then, because it cannot be charged. No entry
    follows the block.
    """

    def __init__(self, store: RunStore, spent: Callable[[], float]) -> None:
        super().__init__()
        self.fault: sqlite3.Error | OSError | DiskFull | None = None
        self._store = store
        self._spent = spent

    def _run(self) -> None:
        try:
            while not self._is_over.wait(TICK_SECONDS):
                self._store.commit_ledger("tick", self._spent)
        except (sqlite3.Error, OSError, DiskFull) as error:
            self.fault = error


class Deadline(_BlockThread):
    """Calls `end` in a thread of its own when the budget is spent, unless the `with` block has ended before.

    The end of the block waits for an `end` that is under way. `has_passed` is True if the budget was spent inside the
    block: what the worker sends from then on does not count.
    """

    def __init__(self, budget: Budget, end: Callable[[], object]) -> None:
        super().__init__()
        self.has_passed = False
        self._budget = budget
        self._end = end

    def _run(self) -> None:
        # Waits are measured on a clock that stops while the machine sleeps; the clock of the budget does not stop.
        while (left := self._budget.remaining(seconds_since_boot())) > 0:
            if self._is_over.wait(min(left, _MAX_WAIT_SECONDS)):
                return
        self.has_passed = True
        self._end()
