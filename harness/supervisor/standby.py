"""What a run has spent, kept where writing takes no room: the ledger's stand-in while its disk is full.

Two slots of one preallocated block are overwritten in turn, so that a torn write leaves the one before. A file system
that moves what is overwritten may refuse even that; then the run cannot be charged, and must not go on.
"""

import os
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from harness.core.files import sync_folder

_BLOCK_BYTES = 4096
_SLOT_BYTES = 512


class StandbyRecord(NamedTuple):
    """The last beat: what had been spent, in seconds, and whether the supervisor waited for room on its disk."""

    spent: float
    is_waiting: bool


class Standby:
    """The writing side, for any thread. `spent` is asked when its turn has come."""

    def __init__(self, path: Path, spent: Callable[[], float]) -> None:
        """Take the block. Raises OSError when there is no room for it."""
        self._spent = spent
        self._turn = threading.Lock()
        self._number = max((number for number, _ in _slots(path)), default=0)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if os.fstat(self._descriptor).st_size < _BLOCK_BYTES:
            os.pwrite(self._descriptor, bytes(_BLOCK_BYTES), 0)
            os.fsync(self._descriptor)
            sync_folder(path.parent)

    def beat(self, *, is_waiting: bool) -> None:
        """Make durable what has been spent. Raises OSError where even this needs room."""
        with self._turn:
            self._number += 1
            text = f"{self._number} {self._spent()!r} {int(is_waiting)}".encode()
            slot = text + b" %d\n" % zlib.crc32(text)
            os.pwrite(self._descriptor, slot, self._number % 2 * _SLOT_BYTES)
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Let go of the file, which stays."""
        os.close(self._descriptor)


def read_standby(path: Path) -> StandbyRecord | None:
    """The last beat in the file at `path`; None when there is none. Raises OSError when it cannot be read."""
    return max(_slots(path), default=(0, None))[1]


def _slots(path: Path) -> list[tuple[int, StandbyRecord]]:
    """The beats that are whole, numbered."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    found = []
    for first in (0, _SLOT_BYTES):
        text, _, check = content[first : first + _SLOT_BYTES].partition(b"\n")[0].rpartition(b" ")
        if check.isdigit() and int(check) == zlib.crc32(text):
            number, spent, is_waiting = text.split()
            found.append((int(number), StandbyRecord(float(spent), is_waiting == b"1")))
    return found
