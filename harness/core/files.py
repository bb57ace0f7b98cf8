"""Write files atomically, hash and lock them, measure and remove directories."""

import contextlib
import errno
import fcntl
import hashlib
import io
import os
import secrets
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from harness.core.errors import HarnessError, missing_path

CHUNK_BYTES = 1 << 20
MAX_RECORD_BYTES = 64 << 20
"""The size up to which a small record, such as the spec of a run, is read."""
NOT_REGULAR = "not a regular file"
_POINTER, _POINTER_BYTES = b"version https://git-lfs.github.com/spec/v1", 1024
"""The first line of a pointer of Git LFS. A pointer is smaller than 1,024 bytes."""


@contextlib.contextmanager
def file_errors(place: Path | None = None, action: str = "read", advice: str = "") -> Iterator[None]:
    """Convert an OSError inside the block to a HarnessError that names `place`, or else the error's own file."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileNotFoundError) and action == "read":
            raise missing_path(Path(place or os.fsdecode(error.filename)), advice=advice) from None
        reason = f"{place or error.filename}: cannot be {action} ({error.strerror})."
        raise HarnessError(f"{reason} {advice}".rstrip()) from None


@contextlib.contextmanager
def atomic_file(path: Path, *, is_private: bool = True) -> Iterator[IO[bytes]]:
    """Open a new binary file that replaces `path`, synced to disk, if the block ends without an error.

    A private file can be read by its owner only (mode 0600). Otherwise the umask decides (mode 0666 & ~umask).
    """
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        # Inside the try: an interrupt may arrive when the file exists and before `open` has returned.
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if is_private else 0o666)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
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
    pending = [folder]
    while pending:
        place = pending.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    sync_folder(Path(entry.path))
        sync_folder(place)
    sync_folder(folder.parent)


def create_folder(path: Path) -> None:
    """Create the directory `path` and those above it, durably and readable by the owner only, unless they exist."""
    if not path.is_dir():
        create_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
        sync_folder(path.parent)


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file to read bytes, without waiting for the writer of a named pipe.

    Raises OSError, whose `strerror` is NOT_REGULAR for anything but a file, and HarnessError for a pointer of Git LFS,
    which a clone without its files has in their place.
    """
    file = _open_regular(path)
    start = file.peek(_POINTER_BYTES)
    if start.startswith(_POINTER) and len(start) < _POINTER_BYTES:
        file.close()
        raise HarnessError(f"{path.name} is a pointer of Git LFS, not the file: {path}. Run git lfs pull.")
    return file


def _open_regular(path: Path) -> io.BufferedReader:
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115  returned
    # Of the open file: its name may lead to another one by now.
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, NOT_REGULAR, str(path))
    return file


def require_content(path: Path) -> None:
    """Raise HarnessError if a file that a library will open is a pointer of Git LFS. Other faults are left to it."""
    with contextlib.suppress(OSError):
        open_regular(path).close()


def read_start(path: Path, max_bytes: int = MAX_RECORD_BYTES) -> bytes:
    """Return at most `max_bytes` bytes of the start of a regular file. Raises OSError as `open_regular` does."""
    with open_regular(path) as file:
        # Python allocates as many bytes as it is asked for. Files such as those of /proc have no size.
        size = os.fstat(file.fileno()).st_size
        return file.read(min(max_bytes, size + 1) if size else max_bytes)


def file_sha256(path: Path) -> str:
    """Return the hex SHA-256 of the bytes of a regular file. Raises OSError for anything else."""
    with _open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_version(path: Path) -> tuple[int, ...]:
    """Return numbers that change whenever the content of a file may have changed. Raises OSError as `Path.stat` does.

    They are the device, the inode, the size in bytes, and the times of modification and of status change in
    nanoseconds. Two models often have equal sizes, and `rsync -a`, archives and container images equal modification
    times. No program can set the time of status change back.
    """
    state = path.stat()
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


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


def is_larger_than(path: Path, max_bytes: int, *, max_files: int) -> bool:
    """Return True if the files below `path` use more than `max_bytes` bytes, or there are more than `max_files`.

    A sparse file uses fewer bytes than its length suggests.
    """
    is_larger, is_complete = _exceeds(path, max_bytes, max_files)
    if not is_larger and not is_complete:
        _run("chmod", "-R", "u+rwx", "--", path)
        is_larger, _ = _exceeds(path, max_bytes, max_files)
    return is_larger


def _exceeds(path: Path, max_bytes: int, max_files: int) -> tuple[bool, bool]:
    """Return whether the files found below `path` exceed a limit, and whether all directories could be listed."""
    total = 0
    # It follows no link, and lists trees deeper than a path may be long and directories of millions of files.
    command: list[str | Path] = ["find", path, "-mindepth", "1", "-printf", "%y %b\n"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as find:
        assert find.stdout is not None
        for number, line in enumerate(find.stdout, 1):
            kind, blocks = line.split()
            total += 0 if kind == b"d" else int(blocks) * 512
            if total > max_bytes or number > max_files:
                find.kill()
                return True, True
    return False, find.returncode == 0


def remove_tree(path: Path) -> None:
    """Delete the directory at `path` if it exists, however deep it is and whatever permissions its directories lack.

    Deletes as much as possible, then raises OSError if something could not be deleted.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    # In this process, because at the deadline of a run all children of its supervisor are killed. A tree of many levels
    # or without permissions is left to commands.
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(path)
    if path.exists():
        _run("chmod", "-R", "u+rwx", "--", path)
        if fault := _run("rm", "-rf", "--", path):
            number = next((number for number in errno.errorcode if os.strerror(number) == fault), errno.EIO)
            raise OSError(number, fault, str(path))


def _run(*command: str | Path) -> str:
    """Run a command on files. Return the reason of its first fault, empty if there is none."""
    done = subprocess.run(command, env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True, errors="replace")
    fault = (done.stderr.splitlines() or [f"{command[0]} failed"])[0]
    return fault.rpartition(": ")[2] if done.returncode else ""


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Yield a new private directory for untrusted files. What cannot be deleted in the end stays."""
    path = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            remove_tree(path)
