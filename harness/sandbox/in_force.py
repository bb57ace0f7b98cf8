"""What really held one process, for the record of whoever started it, and in words."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Limit:
    """How much at most, and what keeps it: a version of control groups, or a resource limit of the process's."""

    most: int
    by: str


@dataclass(frozen=True)
class InForce:
    """The means, what its launcher applied, and the limits; None where nothing keeps one."""

    means: str
    applied: tuple[str, ...]
    memory: Limit | None
    processes: Limit | None
    file_bytes: Limit | None
    open_files: Limit | None

    def as_record(self) -> dict[str, Any]:
        """The fields, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "InForce":
        """What `as_record` gave. Raises KeyError or TypeError for another's."""
        limits = {
            name: None if record[name] is None else Limit(**record[name])
            for name in ("memory", "processes", "file_bytes", "open_files")
        }
        return cls(str(record["means"]), tuple(record["applied"]), **limits)

    @property
    def words(self) -> str:
        """One line: `seccomp with a listener; 22.7 GB of memory (cgroup v1), 4,096 processes (cgroup v1), …`."""
        memory = self.memory and f"{self.memory.most / 1e9:.1f} GB of memory ({self.memory.by})"
        processes = self.processes and f"{self.processes.most:,} processes ({self.processes.by})"
        file = self.file_bytes and f"{self.file_bytes.most / (1 << 30):.1f} GiB a file ({self.file_bytes.by})"
        limits = (memory or "memory not limited", processes or "processes not limited", file or "files not limited")
        return "; ".join(filter(None, (", ".join(self.applied), ", ".join(limits))))
