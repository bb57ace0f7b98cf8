"""A disk without room: what tells it from other faults, and the room that is kept for the ending of a run."""

import contextlib
import errno
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness.core.times import seconds_since_boot

RETRY_SECONDS = 1.0
"""How long a supervisor waits before it tries a full disk again."""
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_LAST_WORD_BYTES = 128 << 10
"""Three transactions of a few rows each, every one at most eight pages of 4 KiB in the write-ahead log, and a page of
log; a quarter more."""
_MOST_RESULTS_BYTES = 1 << 20
_PROBE_BYTES = 64 << 10


class DiskFull(Exception):
    """The file system of a run has no room for what is to be written."""

    def __str__(self) -> str:
        return "the disk is full"


def is_full(error: BaseException, folder: Path) -> bool:
    """Whether `error` says that the file system of `folder` has no room, or that its owner's quota is used up."""
    if isinstance(error, sqlite3.OperationalError):
        # SQLite has a code for a full disk and none for a quota: the disk itself has to say that.
        code = getattr(error, "sqlite_errorcode", 0)
        return code == sqlite3.SQLITE_FULL or (code & 0xFF == sqlite3.SQLITE_IOERR and _has_no_room(folder))
    return isinstance(error, DiskFull) or (isinstance(error, OSError) and error.errno in _NO_ROOM)


def patient(seconds: float) -> Callable[[], None]:
    """Something to call between two tries on a full disk: it waits, and raises DiskFull once `seconds` are over."""
    until = seconds_since_boot() + seconds

    def wait() -> None:
        if seconds_since_boot() >= until:
            raise DiskFull
        time.sleep(RETRY_SECONDS)

    return wait


class Reserve:
    """Room on a run's disk that is taken before its worker starts and given back for what its ending writes.

    It is as large as the results that a job may write (a MiB at most, since more can be written anew from the
    record) and the run's last rows. Given back in two steps, so that results never take the room of the last word.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def take(self, most_result_bytes: int) -> None:
        """Take the room. Raises OSError when there is none."""
        with self._path.open("ab") as file:
            os.posix_fallocate(file.fileno(), 0, _LAST_WORD_BYTES + min(_MOST_RESULTS_BYTES, most_result_bytes))

    def give_back_for_results(self) -> None:
        """Keep what the last word needs, and no more."""
        with contextlib.suppress(OSError):
            os.truncate(self._path, _LAST_WORD_BYTES)

    def give_back(self) -> None:
        """Keep nothing."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


def _has_no_room(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            os.posix_fallocate(probe.fileno(), 0, _PROBE_BYTES)
    except OSError as error:
        return error.errno in _NO_ROOM
    return False
