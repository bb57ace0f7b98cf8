"""The budget's arithmetic: what has been spent, when a run must finish and when it is over."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.runs.reader import LedgerEntry
    from harness.supervisor.standby import StandbyRecord

TICK_SECONDS = 0.5
"""How often the ledger is committed while a worker runs."""
CRASH_CHARGE_SECONDS = 1.0
"""What a resumed run pays for the time after the last committed row of a supervisor that died: one commit interval,
with its slack, so that no kill gains time."""


@dataclass(frozen=True)
class Budget:
    """The wall clock of one run across its executions, in seconds."""

    total: float
    spent_before: float = 0.0
    started_at: float | None = None

    def started(self, at: float) -> "Budget":
        """The budget once a worker has started at `at`."""
        return Budget(self.total, self.spent_before, at)

    def spent(self, at: float) -> float:
        """Seconds spent at the time `at`, never more than there were."""
        running = 0.0 if self.started_at is None else max(0.0, at - self.started_at)
        return min(self.total, self.spent_before + running)

    def remaining(self, at: float) -> float:
        """Seconds until everything is killed."""
        return self.total - self.spent(at)

    @property
    def notice(self) -> float:
        """How long before its end a run is asked to finish: a minute, or a twentieth of a short budget."""
        return min(60.0, self.total / 20)

    def until_soft_deadline(self, at: float) -> float:
        """Seconds until the worker is asked to finish; negative once that is over."""
        return self.remaining(at) - self.notice


def spent_after(last_spent: float, *, was_closed: bool) -> float:
    """What a resumed run has spent, from the last ledger row of the execution before."""
    return last_spent if was_closed else last_spent + CRASH_CHARGE_SECONDS


def spent_so_far(last: "LedgerEntry | None", standby: "StandbyRecord | None") -> float:
    """What a run that is about to go on has spent, from the last word of its ledger and of the ledger's stand-in.

    The latter says more where the execution before died while its disk was full.
    """
    if last is None:
        return 0.0
    if standby is not None and standby.spent > last.spent:
        return spent_after(standby.spent, was_closed=False)
    return spent_after(last.spent, was_closed=last.entry == "end")
