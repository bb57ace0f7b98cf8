"""A log file of limited size."""

import contextlib
import os
from pathlib import Path

CAP_BYTES = 8 << 20
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
