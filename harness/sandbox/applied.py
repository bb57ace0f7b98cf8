"""The sandbox that was really applied to one process, as its record stores it and as `show` prints it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter


@dataclass(frozen=True)
class Limit:
    """The value of a limit, and the mechanism that enforces it (`cgroup v1`, `RLIMIT_FSIZE`, ...)."""

    most: int
    by: str


@dataclass(frozen=True)
class AppliedSandbox:
    """The name of the backend, the mechanisms that its launcher applied, and the limits (None for none).

    readable: what the process could read besides the system and this installation.
    """

    backend: str
    applied: tuple[str, ...]
    memory: Limit | None
    processes: Limit | None
    file_bytes: Limit | None
    open_files: Limit | None
    readable: tuple[str, ...]

    def as_record(self) -> dict[str, Any]:
        """Return the fields, ready for JSON."""
        record: dict[str, Any] = TypeAdapter(AppliedSandbox).dump_python(self, mode="json")
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "AppliedSandbox":
        """Return what `as_record` stored. Raises ValidationError if `record` has another shape."""
        return TypeAdapter(cls).validate_python(record)

    @property
    def summary(self) -> str:
        """One line, such as `seccomp with a listener; 22.7 GB of memory (cgroup v1), ...`."""
        memory = self.memory and f"{self.memory.most / 1e9:.1f} GB of memory ({self.memory.by})"
        processes = self.processes and f"{self.processes.most:,} processes ({self.processes.by})"
        file = self.file_bytes and f"{self.file_bytes.most / (1 << 30):.1f} GiB per file ({self.file_bytes.by})"
        limits = (memory or "memory not limited", processes or "processes not limited", file or "files not limited")
        return "; ".join(filter(None, (", ".join(self.applied), ", ".join(limits))))
