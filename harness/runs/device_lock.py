"""One run at a time on a device: a file lock that the kernel gives back when its holder dies."""

import fcntl
import os
import platform
import re
from pathlib import Path
from typing import IO

from harness.core import paths


class DeviceLock:
    """The lock of one device on this machine, for this user."""

    def __init__(self, device: str) -> None:
        name = re.sub(r"[^A-Za-z0-9.-]+", "-", f"{platform.node()}-{device}")
        self._path = paths.state_home() / "locks" / f"{name}.lock"
        self._file: IO[bytes] | None = None

    def is_taken(self) -> bool:
        """Try once to take the lock; true when it is ours now."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._file is None:
            self._file = exclusive_lock(self._path)
        return self._file is not None

    def release(self) -> None:
        """Give the lock back."""
        if self._file is not None:
            self._file.close()
            self._file = None


def exclusive_lock(path: Path) -> IO[bytes] | None:
    """An open file that holds the only lock on `path` until it is closed; None while somebody else holds it."""
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
