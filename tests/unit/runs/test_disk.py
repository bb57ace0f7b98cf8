"""Detection of a full disk, and the disk space that is reserved for the end of a run."""

import errno
import os
import sqlite3
from pathlib import Path

import pytest

from harness.runs.reserve import DiskFull, Reserve, is_full


def sqlite_error(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("some text")
    error.sqlite_errorcode = code
    return error


def test_a_full_disk_is_recognized(tmp_path: Path) -> None:
    assert is_full(sqlite_error(sqlite3.SQLITE_FULL), tmp_path) and is_full(DiskFull(), tmp_path)
    assert is_full(OSError(errno.ENOSPC, ""), tmp_path) and is_full(OSError(errno.EDQUOT, ""), tmp_path)
    for other in (OSError(errno.EIO, ""), sqlite_error(sqlite3.SQLITE_BUSY), sqlite_error(sqlite3.SQLITE_CORRUPT)):
        assert not is_full(other, tmp_path)


def test_a_failed_write_is_a_full_disk_if_nothing_can_be_allocated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_full(sqlite_error(sqlite3.SQLITE_IOERR_WRITE), tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(errno.EDQUOT, "quota exceeded")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    assert is_full(sqlite_error(sqlite3.SQLITE_IOERR_WRITE), tmp_path)


def test_the_reserve_allocates_disk_space_and_releases_it_in_two_steps(tmp_path: Path) -> None:
    path = tmp_path / "reserve"
    reserve = Reserve(path)
    # Releasing a reserve that was not allocated does nothing.
    reserve.release_for_results()
    reserve.release()
    reserve.allocate(200_000)
    whole = path.stat()
    assert whole.st_blocks * 512 >= whole.st_size > 1000 * 50 * 4
    reserve.release_for_results()
    assert 0 < path.stat().st_size < whole.st_size
    reserve.release()
    assert not path.exists()


def test_the_reserve_is_not_opened_for_appending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The C library replaces a missing fallocate by writes, which fail on a file in append mode."""

    def emulate(descriptor: int, offset: int, length: int) -> None:
        flags = int(Path(f"/proc/self/fdinfo/{descriptor}").read_text().split("flags:")[1].split()[0], 8)
        if flags & os.O_APPEND:
            raise OSError(errno.EBADF, "Bad file descriptor")
        os.pwrite(descriptor, b"\0", offset + length - 1)

    monkeypatch.setattr(os, "posix_fallocate", emulate)
    Reserve(tmp_path / "reserve").allocate(1000)
    assert (tmp_path / "reserve").stat().st_size > 1000
