"""What a run is doing, derived from its record and from whether its supervisor lives; never from one flag."""

import functools
import os
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import psutil

ALREADY_SUPERVISED = 75
"""The exit code of a supervisor that found another one at work on its run."""


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
    def words(self) -> str:
        """As people read it."""
        return self.value.replace("_", " ")

    @property
    def is_over(self) -> bool:
        """No supervisor is at work on the run."""
        return self in (Status.FINISHED, Status.OUT_OF_TIME, Status.STOPPED, Status.CRASHED, Status.LOST)


@dataclass(frozen=True)
class Process:
    """One process for good: ids are used again, so its creation time and the machine's boot stand beside it.

    `created` is in seconds since the boot, where that is known: set the clock, and no process becomes another.
    """

    pid: int
    created: float
    boot: str

    @property
    def is_alive(self) -> bool:
        """The very process still runs, on this boot of this machine."""
        if self.boot != boot_id():
            return False
        try:
            is_same = abs(_created(self.pid) - self.created) < 0.005
            return is_same and psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def as_record(self) -> dict[str, Any]:
        """The fields as an event keeps them."""
        return {"pid": self.pid, "created": self.created, "boot": self.boot}


def process_with(pid: int) -> Process:
    """The process that has this id now. Raises psutil.NoSuchProcess when none has."""
    return Process(pid, _created(pid), boot_id())


def process_in(record: dict[str, Any]) -> Process:
    """The process that an event's record names."""
    return Process(int(record["pid"]), float(record["created"]), str(record["boot"]))


def _created(pid: int) -> float:
    """When the process began, on a clock that nobody sets. Raises psutil.NoSuchProcess when there is none."""
    if not sys.platform.startswith("linux"):
        return psutil.Process(pid).create_time()
    try:
        # The command name stands in parentheses and may hold anything; the fields after it do not (proc(5), "stat").
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        raise psutil.NoSuchProcess(pid) from None
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


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
