"""One run at a time on a device: a file lock that the kernel gives back when its holder dies."""

import platform
import re
from typing import IO

from harness.core import paths
from harness.core.files import try_lock


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
            self._file = try_lock(self._path)
        return self._file is not None

    def release(self) -> None:
        """Give the lock back."""
        if self._file is not None:
            self._file.close()
            self._file = None
