"""The disk space that a run reserves for its end, and errors of a full disk."""

import contextlib
import errno
import os
import sqlite3
import tempfile
from pathlib import Path

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_LAST_ROWS_BYTES = 128 << 10
"""Three transactions of a few rows, each at most eight pages of 4 KiB in the write-ahead log, and some log."""
_MAX_RESULT_BYTES = 1 << 20
_PROBE_BYTES = 64 << 10


class DiskFull(Exception):
    """The file system of a run has no room for what is to be written."""

    def __str__(self) -> str:
        return "the disk is full"


def is_full(error: BaseException, folder: Path) -> bool:
    """Return True if `error` means that the file system of `folder` is full or that a quota is used up."""
    if isinstance(error, sqlite3.OperationalError):
        # SQLite has a code for a full disk and none for a quota, so the disk itself is asked.
        code = getattr(error, "sqlite_errorcode", 0)
        return code == sqlite3.SQLITE_FULL or (code & 0xFF == sqlite3.SQLITE_IOERR and _has_no_room(folder))
    return isinstance(error, DiskFull) or (isinstance(error, OSError) and error.errno in _NO_ROOM)


class Reserve:
    """Disk space that a run takes before its worker starts and releases for the rows and files of its end.

    It is as large as the results (at most 1 MiB, because larger ones can be written again from the record) and the last
    rows. It is released in two steps, so that the results never take the space of the last rows.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def allocate(self, result_bytes: int) -> None:
        """Allocate the space. Raises OSError if there is none."""
        # Not opened for appending: without support for fallocate the C library writes at offsets.
        with self._path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, _LAST_ROWS_BYTES + min(_MAX_RESULT_BYTES, result_bytes))

    def release_for_results(self) -> None:
        """Release all but the space of the last rows."""
        with contextlib.suppress(OSError):
            os.truncate(self._path, _LAST_ROWS_BYTES)

    def release(self) -> None:
        """Release everything."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


def _has_no_room(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            os.posix_fallocate(probe.fileno(), 0, _PROBE_BYTES)
    except OSError as error:
        return error.errno in _NO_ROOM
    return False
