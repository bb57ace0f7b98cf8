"""Read gzip and Zstandard files piece by piece. They are untrusted: a small file may stand for a huge one."""

import errno
import io
from pathlib import Path

from harness.core.files import open_regular

MAX_BYTES = 1 << 34
"""Decompressed bytes that are read of one file."""
_CODECS = {".gz": "gzip", ".zst": "zstd"}
_BUFFERED = 1 << 18


def content_suffix(file: Path) -> str:
    """Return the suffix in lower case, without that of a compression: `.jsonl` for `a.jsonl.gz`."""
    return (file.with_suffix("") if file.suffix.lower() in _CODECS else file).suffix.lower()


def open_decompressed(file: Path) -> io.BufferedReader:
    """Open a regular file to read its bytes, decompressed if its suffix is `.gz` or `.zst`.

    Raises OSError, also when it is read, for a damaged file and after `MAX_BYTES`; otherwise as `open_regular`.
    """
    opened = open_regular(file)
    codec = _CODECS.get(file.suffix.lower())
    return opened if codec is None else io.BufferedReader(_Decompressed(opened, codec), _BUFFERED)


class _Decompressed(io.RawIOBase):
    """The decompressed bytes of an open file."""

    def __init__(self, compressed: io.BufferedReader, codec: str) -> None:
        from pyarrow import CompressedInputStream, PythonFile  # slow to import

        super().__init__()
        self._compressed = compressed
        self._stream = CompressedInputStream(PythonFile(compressed, "r"), codec)
        self._left = MAX_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # typeshed calls it a Buffer
        try:
            data = self._stream.read(len(buffer))
        except (OSError, ValueError):  # of zlib and zstd, without a number
            raise OSError(errno.EINVAL, "damaged compression") from None
        self._left -= len(data)
        if self._left < 0:
            raise OSError(errno.EFBIG, f"more than {MAX_BYTES >> 20:,} MB when decompressed")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        super().close()
        self._compressed.close()
