"""worker.log: what a worker printed, its beginning and its end, however much that was."""

from pathlib import Path

from harness.core.files import write_whole

CAP_BYTES = 8 << 20
_HEAD_BYTES = 1 << 20
_TAIL_BYTES = 3 << 20


class CappedLog:
    """A file of at most `CAP_BYTES`: when it is full its middle goes, and a line says how much went."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("ab", buffering=0)
        self._size = path.stat().st_size

    def write(self, chunk: bytes) -> None:
        """Append `chunk`."""
        self._file.write(chunk)
        self._size += len(chunk)
        if self._size > CAP_BYTES:
            self._drop_middle()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _drop_middle(self) -> None:
        content = self._path.read_bytes()
        dropped = len(content) - _HEAD_BYTES - _TAIL_BYTES
        marker = f"\n[… {dropped} bytes were dropped here …]\n".encode()
        write_whole(self._path, content[:_HEAD_BYTES] + marker + content[-_TAIL_BYTES:])
        self._file.close()
        self._file = self._path.open("ab", buffering=0)
        self._size = _HEAD_BYTES + len(marker) + _TAIL_BYTES
