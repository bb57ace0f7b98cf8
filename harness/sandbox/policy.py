"""The policy of a sandboxed process, its environment variables, and the sandbox that was applied to it."""

import os
import re
import site
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, Field

MAX_PROCESSES = 4096
MAX_FILE_BYTES = 4 << 30
OPEN_FILES = 4096
SHARED_MEMORY_BYTES = 1 << 30
_MEMORY_FRACTION = 0.9
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "USER", "LOGNAME")
_PASSED_ON_PREFIXES = ("CUDA_", "NVIDIA_", "PYTORCH_", "TORCH_", "OMP_", "GOMP_", "MKL_")
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|AUTH|CREDENTIAL|COOKIE")


def default_memory() -> int:
    """Return the default memory limit in bytes: 90 % of the machine's memory, so that the machine stays usable."""
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _MEMORY_FRACTION)


@dataclass(frozen=True)
class SandboxPolicy:
    """The paths, the network access and the resources of one process.

    readable, writable: paths shown in addition to the system and the interpreter. A symbolic link inside a readable
    directory shows nothing outside of it, except for a snapshot in the cache of the Hugging Face hub, whose links lead
    to the files of the same model.
    hidden: paths that are not shown, whatever the others say.

    network: Internet sockets are allowed.
    memory: bytes used by all processes together.
    processes: number of processes and threads.
    file_bytes: size of one file. None sets no limit.
    """

    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    network: bool = False
    memory: int | None = field(default_factory=default_memory)
    processes: int | None = MAX_PROCESSES
    file_bytes: int | None = MAX_FILE_BYTES


class Limit(BaseModel, frozen=True):
    """The value of a limit, and the mechanism that enforces it (`cgroup v1`, `RLIMIT_FSIZE`, ...)."""

    most: int = Field(ge=0, lt=1 << 63)
    """Value of the limit: a number, or bytes of memory or of a file."""
    by: str
    """Mechanism that enforces the limit, such as `cgroup v1` or `RLIMIT_FSIZE`."""


class AppliedSandbox(BaseModel, frozen=True):
    """The name of the backend, the mechanisms that its launcher applied, and the limits (None for none)."""

    backend: str
    """Name of the backend."""
    applied: tuple[str, ...]
    """Mechanisms that were applied."""
    memory: Limit | None
    """Limit of memory. Null without a limit."""
    processes: Limit | None
    """Limit of the number of processes."""
    file_bytes: Limit | None
    """Limit of the size of a file."""
    open_files: Limit | None
    """Limit of the number of open files."""
    readable: tuple[str, ...]
    """Paths that the process could read, besides the system and this installation."""

    @property
    def summary(self) -> str:
        """One line, such as `seccomp with a listener; 22.7 GB of memory (cgroup v1), ...`."""
        memory = self.memory and f"{self.memory.most / 1e9:.1f} GB of memory ({self.memory.by})"
        processes = self.processes and f"{self.processes.most:,} processes ({self.processes.by})"
        file = self.file_bytes and f"{self.file_bytes.most / (1 << 30):.1f} GiB per file ({self.file_bytes.by})"
        limits = (memory or "memory not limited", processes or "processes not limited", file or "files not limited")
        return "; ".join(filter(None, (", ".join(self.applied), ", ".join(limits))))


def plain_environment(home: Path) -> dict[str, str]:
    """Return the variables of this process that untrusted code may see, with `home` as HOME and TMPDIR."""
    passed = {
        name: value
        for name, value in os.environ.items()
        # NVIDIA_API_KEY has the same prefix as NVIDIA_VISIBLE_DEVICES.
        if name in _PASSED_ON or (name.startswith(_PASSED_ON_PREFIXES) and not _SECRET.search(name))
    }
    # HOME changes, so packages that were installed for this user would not be found without PYTHONUSERBASE.
    user_base = {"PYTHONUSERBASE": site.getuserbase()} if site.ENABLE_USER_SITE else {}
    return passed | user_base | {"HOME": str(home), "TMPDIR": str(home)}
