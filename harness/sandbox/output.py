"""Output of a sandboxed process: its log, whose size is limited, and deleted files that it keeps open."""

import contextlib
import os
import stat
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

CAP_BYTES = 8 << 20
_MOST_ENTRIES = 200_000
_KEPT_BYTES = CAP_BYTES // 2
_MARKER = b"[earlier output was dropped here]\n"


class CappedLog:
    """A file of at most `CAP_BYTES`. If it is full, its last bytes are kept: the traceback of a crash is there."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "a+b", buffering=0)

    def write(self, chunk: bytes) -> None:
        """Append `chunk`. A full disk loses it: the run itself ends when its next guesses cannot be stored."""
        with contextlib.suppress(OSError):
            size = self._file.seek(0, os.SEEK_END)
            if size + len(chunk) > CAP_BYTES:
                self._file.seek(max(0, size - _KEPT_BYTES))
                chunk = _MARKER + (self._file.read() + chunk)[-_KEPT_BYTES:]
                self._file.truncate(0)
            self._file.write(chunk)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


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
