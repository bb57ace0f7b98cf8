"""The disk space of files that processes have deleted and still hold open or mapped, which no directory lists."""

import contextlib
import os
import stat
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

_MOST_ENTRIES = 200_000


def deleted_bytes(pids: Iterable[int], device: int) -> int:
    """Return the bytes on the file system `device` (st_dev) of deleted files that the processes hold.

    Mappings can be read by root only. A file that is in transit between two processes of the sandbox is not seen.
    """
    sizes: dict[int, int] = {}
    for entry in islice(_held_files(pids), _MOST_ENTRIES):
        with contextlib.suppress(OSError):
            held = Path(entry).stat()
            if stat.S_ISREG(held.st_mode) and held.st_nlink == 0 and held.st_dev == device:
                sizes[held.st_ino] = held.st_blocks * 512
    return sum(sizes.values())


def _held_files(pids: Iterable[int]) -> Iterable[str]:
    for pid in pids:
        for kind in ("fd", "map_files"):
            with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/{kind}") as entries:
                yield from (entry.path for entry in entries)
