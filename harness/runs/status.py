"""What a run is doing, derived from its record and from whether its supervisor lives; never from one flag."""

import functools
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import psutil


class Status(StrEnum):
    """The state of a run; the last five are final until it is resumed."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    FINISHING = "finishing"
    FINISHED = "finished"
    OUT_OF_TIME = "out_of_time"
    STOPPED = "stopped"
    CRASHED = "crashed"
    LOST = "lost"

    @property
    def is_over(self) -> bool:
        """No supervisor is at work on the run."""
        return self in (Status.FINISHED, Status.OUT_OF_TIME, Status.STOPPED, Status.CRASHED, Status.LOST)


@dataclass(frozen=True)
class Process:
    """One process for good: ids are used again, so its creation time and the machine's boot stand beside it."""

    pid: int
    created: float
    boot: str

    @property
    def is_alive(self) -> bool:
        """The very process still runs, on this boot of this machine."""
        if self.boot != boot_id():
            return False
        try:
            process = psutil.Process(self.pid)
            is_same = abs(process.create_time() - self.created) < 0.05
            return is_same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def as_record(self) -> dict[str, Any]:
        """The fields as an event keeps them."""
        return {"pid": self.pid, "created": self.created, "boot": self.boot}


def process_with(pid: int) -> Process:
    """The process that has this id now. Raises psutil.NoSuchProcess when none has."""
    return Process(pid, psutil.Process(pid).create_time(), boot_id())


def process_in(record: dict[str, Any]) -> Process:
    """The process that an event's record names."""
    return Process(int(record["pid"]), float(record["created"]), str(record["boot"]))


@functools.cache
def boot_id() -> str:
    """What tells this boot of this machine from every other."""
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.exists() else str(int(psutil.boot_time()))


def derived_status(phase: str | None, *, supervisor_is_alive: bool) -> Status:
    """The status from the last phase that the record holds and from the supervisor's liveness.

    A run whose supervisor died in any phase but an ending one is lost: nobody is at work, and nobody ended it.
    """
    recorded = Status(phase) if phase is not None else Status.STARTING
    return recorded if supervisor_is_alive or recorded.is_over else Status.LOST
