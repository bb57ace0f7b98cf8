"""The paths, network and resources that one sandboxed process may use in addition to the system."""

import os
from dataclasses import dataclass, field
from pathlib import Path

MOST_PROCESSES = 4096
MOST_FILE_BYTES = 4 << 30
OPEN_FILES = 4096
SHARED_MEMORY_BYTES = 1 << 30
_MEMORY_FRACTION = 0.9


def default_memory() -> int:
    """Return the default memory limit in bytes: 90 % of the machine's memory, so that the machine stays usable."""
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _MEMORY_FRACTION)


@dataclass(frozen=True)
class SandboxPolicy:
    """The paths, the network access and the resources of one process.

    readable, writable: paths shown in addition to the system and the interpreter. A symbolic link inside a readable
    directory shows nothing outside of it, except for a snapshot in the cache of the Hugging Face hub, whose links lead
    to the files of the same model. hidden: paths that are not shown, whatever the others say.

    network: Internet sockets are allowed. memory: bytes used by all processes together. processes: number of processes
    and threads. file_bytes: size of one file. None sets no limit.
    """

    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    network: bool = False
    memory: int | None = field(default_factory=default_memory)
    processes: int | None = MOST_PROCESSES
    file_bytes: int | None = MOST_FILE_BYTES
