"""What a sandboxed process writes: its log, cut in the middle, and files that it deleted but keeps open."""

import contextlib
import os
import re
import stat
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

CAP_BYTES = 8 << 20
_HEAD_BYTES = 1 << 20
_TAIL_BYTES = 3 << 20
_MARKER = re.compile(rb"\n\[ *(\d+) bytes were dropped here\]\n")


class CappedLog:
    """A file of at most `CAP_BYTES`. If it is full, bytes from its middle are replaced by a line with their number."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._descriptor).st_size
        marker = _MARKER.match(os.pread(self._descriptor, len(_marker(0)), _HEAD_BYTES))
        self._dropped = 0 if marker is None else int(marker[1])

    def write(self, chunk: bytes) -> None:
        """Append `chunk`. A full disk loses it: the run itself ends when its next guesses cannot be stored."""
        with contextlib.suppress(OSError):
            if self._size + len(chunk) > CAP_BYTES:
                head = chunk[: max(0, _HEAD_BYTES - self._size)]
                self._append(head)
                self._replace_middle(chunk[len(head) :])
            else:
                self._append(chunk)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _append(self, chunk: bytes) -> None:
        self._write_at(self._size, chunk)
        self._size += len(chunk)

    def _replace_middle(self, chunk: bytes) -> None:
        """Append `chunk`, and keep only the last bytes of everything after the head."""
        first = _HEAD_BYTES + (len(_marker(0)) if self._dropped else 0)
        after_head = os.pread(self._descriptor, self._size - first, first) + chunk
        tail = after_head[-_TAIL_BYTES:]
        self._dropped += len(after_head) - len(tail)
        # In place and without fsync: a log damaged by a power failure is better than a worker that waits for the disk.
        self._write_at(_HEAD_BYTES, _marker(self._dropped) + tail)
        self._size = _HEAD_BYTES + len(_marker(self._dropped)) + len(tail)
        os.ftruncate(self._descriptor, self._size)

    def _write_at(self, offset: int, content: bytes) -> None:
        view = memoryview(content)
        while view:
            written = os.pwrite(self._descriptor, view, offset)
            view, offset = view[written:], offset + written


def _marker(dropped: int) -> bytes:
    return f"\n[{dropped:20} bytes were dropped here]\n".encode()


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
