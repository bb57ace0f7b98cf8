"""The status of a run, derived from its record and from the lock of its supervisor; never from one flag."""

import os
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import psutil

ALREADY_SUPERVISED = 75
"""The exit code of a supervisor whose run has another one, or has had one since it was to be started."""


class Status(StrEnum):
    """The state of a run. The last five are final until the run is resumed."""

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
        """The status for people, such as "out of time"."""
        return self.value.replace("_", " ")

    @property
    def is_over(self) -> bool:
        """True if no supervisor works on the run."""
        return self.is_complete or self in (Status.STOPPED, Status.CRASHED, Status.LOST)

    @property
    def is_complete(self) -> bool:
        """True if the run came to its end, so that it has a result and is not continued."""
        return self in (Status.FINISHED, Status.OUT_OF_TIME)


def derived_status(phase: str | None, *, is_alive: bool) -> Status:
    """Return the status from the last recorded phase and from whether the supervisor holds the run's lock.

    A run whose supervisor died in a phase that is not final is lost.
    """
    recorded = Status(phase) if phase is not None else Status.STARTING
    return recorded if is_alive or recorded.is_over else Status.LOST


@dataclass(frozen=True)
class Process:
    """A process that can be signalled safely: ids are reused, so its creation time and the boot are recorded too.

    `created` is in seconds since the boot. Only for signals: whether a run is alive is what its lock says.
    """

    pid: int
    created: float
    boot: str

    @property
    def is_here(self) -> bool:
        """True if this very process runs on this machine and is visible from here."""
        if self.boot != _boot_id():
            return False
        try:
            is_same = abs(_creation_time(self.pid) - self.created) < 0.005
            return is_same and psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    @property
    def key(self) -> str:
        """The fields as one word."""
        return f"{self.boot}/{self.pid}/{self.created}"

    def as_record(self) -> dict[str, Any]:
        """Return the fields for an event."""
        return {"pid": self.pid, "created": self.created, "boot": self.boot}

    @classmethod
    def of(cls, pid: int) -> "Process":
        """Return the process that has this id now. Raises psutil.NoSuchProcess if there is none."""
        return cls(pid, _creation_time(pid), _boot_id())

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Process":
        """Return the process that an event names."""
        return cls(int(record["pid"]), float(record["created"]), str(record["boot"]))


def _creation_time(pid: int) -> float:
    """Return when the process was created, in seconds since the boot. Raises psutil.NoSuchProcess if there is none."""
    try:
        # The command name is in parentheses and can contain anything; the fields after it cannot (proc(5), "stat").
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        raise psutil.NoSuchProcess(pid) from None
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


@cache
def _boot_id() -> str:
    """Return the id of this boot of this machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
