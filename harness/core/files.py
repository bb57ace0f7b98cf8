"""Write files atomically, hash and lock them, measure and remove directories."""

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from harness.core.errors import HarnessError

CHUNK_BYTES = 1 << 20


@contextlib.contextmanager
def atomic_file(path: Path, *, is_private: bool = True) -> Iterator[IO[bytes]]:
    """Open a new binary file that replaces `path`, synced to disk, if the block ends without an error.

    A private file can be read by its owner only (mode 0600). Otherwise the umask decides (mode 0666 & ~umask).
    """
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if is_private else 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            new.unlink()
        raise
    sync_folder(path.parent)


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a private file atomically: a reader finds either the old content or the new."""
    with atomic_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_export(path: Path, content: bytes | str) -> None:
    """Write a file that the user asked for, atomically and with the permissions that the umask allows."""
    with atomic_file(path, is_private=False) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data` to a pipe or a file, which may take it in parts."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_folder(folder: Path) -> None:
    """Make a rename inside `folder` durable, or the content of a file."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Make everything in `folder` durable, and the entry of `folder` in the directory above it."""
    for directory, _, files in os.walk(folder):
        for name in (*files, "."):
            sync_folder(Path(directory) / name)
    sync_folder(folder.parent)


def create_folder(path: Path) -> None:
    """Create the directory `path` and those above it, durably and readable by the owner only, unless they exist."""
    if not path.is_dir():
        create_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
        sync_folder(path.parent)


def file_sha256(path: Path) -> str:
    """Return the hex SHA-256 of the bytes of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def try_lock(path: Path, *, patience: float = 0.5) -> IO[bytes] | None:
    """Return an open file that holds the exclusive lock on `path` until it is closed; None if another process holds it.

    Waits up to `patience` seconds, because `is_locked` holds a shared lock for a moment. Raises OSError if the file
    cannot be opened, and HarnessError if its file system has no locks.
    """
    # O_NONBLOCK: a named pipe in place of the file must not wait for another process.
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600), "r+b", buffering=0)
    until = time.monotonic() + patience
    try:
        while not _lock(file, path, fcntl.LOCK_EX):
            if time.monotonic() >= until:
                file.close()
                return None
            time.sleep(0.01)
    except BaseException:
        file.close()
        raise
    return file


def is_locked(path: Path) -> bool:
    """Return True if a process holds the exclusive lock on `path`, in this PID namespace or any other.

    Raises as `try_lock` does.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        return not _lock(descriptor, path, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _lock(file: IO[bytes] | int, path: Path, kind: int) -> bool:
    """Lock the open file at `path` without waiting, and return True if that succeeded."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        raise HarnessError(
            f"{path.parent}: its file system has no file locks ({error.strerror}). "
            "Set --home or HARNESS_HOME to a directory on another one."
        ) from None
    return True


def is_larger_than(path: Path, most: int, *, most_files: int) -> bool:
    """Return True if the files below `path` use more than `most` bytes, or there are more than `most_files`."""
    total, counted, folders = 0, 0, [str(path)]
    while folders:
        # os.walk would list a directory completely, and an attack may have created millions of files in it.
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                counted += 1
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    with contextlib.suppress(OSError):
                        # st_blocks counts units of 512 bytes; a sparse file uses fewer than its length suggests.
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
                if total > most or counted > most_files:
                    return True
    return False


def remove_tree(path: Path) -> None:
    """Delete the directory at `path` if it exists, even if an attack removed the permissions of directories inside."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for folder, _, _ in os.walk(path):
        with contextlib.suppress(OSError):
            Path(folder).chmod(0o700)
    shutil.rmtree(path)
