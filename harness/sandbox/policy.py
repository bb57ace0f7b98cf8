"""What one process is allowed beyond the system itself: folders, network, and how much of the machine."""

import os
from dataclasses import dataclass, field
from pathlib import Path

MOST_PROCESSES = 4096
MOST_FILE_BYTES = 4 << 30
OPEN_FILES = 4096
SHARED_MEMORY_BYTES = 1 << 30
_SHARE_OF_MEMORY = 0.9


def default_memory() -> int:
    """Bytes that a confined process and its children may hold: nine tenths of the machine's, so that it lives on."""
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _SHARE_OF_MEMORY)


@dataclass(frozen=True)
class SandboxPolicy:
    """`readable` and `writable` paths are shown beside the system and the interpreter; `hidden` ones never, unless a
    readable or writable path lies deeper. Symbolic links are not followed, but in the `linked` folders, where those
    that lead to files open them: a model cache is made of such. Never name a folder there that a stranger could fill.

    network: may open Internet sockets; memory: bytes, over all its processes; processes: with threads; file_bytes: of
    one file. None sets no limit.
    """

    readable: tuple[Path, ...] = ()
    linked: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    network: bool = False
    memory: int | None = field(default_factory=default_memory)
    processes: int | None = MOST_PROCESSES
    file_bytes: int | None = MOST_FILE_BYTES
