"""Frames: the rows that a worker sends to its supervisor over a pipe.

A frame is a fixed prologue (magic, sequence number, header length, body length, CRC-32 of header and body), a JSON
header (table, rows, columns as [name, dtype, trailing shape], plain fields) and the bytes of the columns. Nothing is
pickled, and every length is checked before it is used.
"""

import json
import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core.text import is_storable

MAX_HEADER_BYTES = 1 << 16
MAX_BODY_BYTES = 1 << 26
MAX_UNACKNOWLEDGED_BYTES = 8 << 20
_PROLOGUE = struct.Struct("<4sQIQI")
_MAGIC = b"HXF1"
_DTYPES = frozenset({"u1", "u2", "u4", "u8", "i4", "i8", "f4", "f8"})
Scalar = str | int | float | bool | None


class FrameError(Exception):
    """The bytes are not a valid frame: forged, interleaved or truncated."""


@dataclass(frozen=True)
class Frame:
    """Rows of one table: columns of shape [rows, …], and fields that apply to all rows."""

    table: str
    rows: int = 0
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    fields: Mapping[str, Scalar] = field(default_factory=dict)


def encode_frame(frame: Frame, sequence: int) -> bytes:
    """Return the frame's bytes. Raises FrameError if it is too large or contains an unsupported dtype."""
    described, chunks = [], []
    for name, column in frame.columns.items():
        column = np.ascontiguousarray(column)
        dtype = column.dtype.newbyteorder("<").str.lstrip("<|")
        if dtype not in _DTYPES or len(column) != frame.rows:
            raise FrameError(f"column {name}: {column.dtype} {list(column.shape)} for {frame.rows} rows")
        described.append([name, dtype, list(column.shape[1:])])
        chunks.append(column.astype(column.dtype.newbyteorder("<"), copy=False).tobytes())
    header = json.dumps(
        {"table": frame.table, "rows": frame.rows, "columns": described, "fields": dict(frame.fields)}
    ).encode()
    body = b"".join(chunks)
    if len(header) > MAX_HEADER_BYTES or len(body) > MAX_BODY_BYTES:
        raise FrameError(f"a frame of {len(header)} + {len(body)} bytes is too large")
    return _PROLOGUE.pack(_MAGIC, sequence, len(header), len(body), _checksum(header, body)) + header + body


class FrameReader:
    """Decodes a stream of bytes into frames. It buffers at most one frame besides what was fed."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._expected = 0

    def feed(self, chunk: bytes) -> Iterator[tuple[int, int, Frame]]:
        """Yield the frames that `chunk` completes, each with its sequence number and its size in bytes.

        Raises FrameError at the first byte that cannot belong to the next frame.
        """
        self._buffer += chunk
        while (taken := self._next()) is not None:
            yield taken

    def _next(self) -> tuple[int, int, Frame] | None:
        if len(self._buffer) < _PROLOGUE.size:
            if not _MAGIC.startswith(bytes(self._buffer[:4])):
                raise FrameError("bytes that do not begin a frame")
            return None
        magic, sequence, header_bytes, body_bytes, checksum = _PROLOGUE.unpack_from(self._buffer)
        if magic != _MAGIC:
            raise FrameError("bytes that do not begin a frame")
        if header_bytes > MAX_HEADER_BYTES or body_bytes > MAX_BODY_BYTES:
            raise FrameError(f"a frame that claims {header_bytes} + {body_bytes} bytes")
        if sequence != self._expected:
            raise FrameError(f"frame {sequence} instead of {self._expected}")
        size = _PROLOGUE.size + header_bytes + body_bytes
        if len(self._buffer) < size:
            return None
        header = bytes(self._buffer[_PROLOGUE.size : _PROLOGUE.size + header_bytes])
        body = bytes(self._buffer[_PROLOGUE.size + header_bytes : size])
        del self._buffer[:size]
        if _checksum(header, body) != checksum:
            raise FrameError(f"frame {sequence} does not match its checksum")
        self._expected += 1
        return sequence, size, _decode(header, body)


def _decode(header: bytes, body: bytes) -> Frame:
    try:
        content = json.loads(header)
        table, rows, fields = content["table"], content["rows"], content["fields"]
        if not (isinstance(table, str) and type(rows) is int and 0 <= rows <= MAX_BODY_BYTES):
            raise FrameError("a header without a table name or a row count")
        if not (isinstance(fields, dict) and all(isinstance(value, Scalar) for value in fields.values())):
            raise FrameError("a header whose fields are not plain values")
        described = content["columns"]
        texts = (table, *fields, *fields.values(), *(name for name, _, _ in described))
        if not all(is_storable(text) for text in texts if isinstance(text, str)):
            raise FrameError("a text that cannot be stored")
        columns: dict[str, NDArray[Any]] = {}
        offset = 0
        for name, dtype, trailing in described:
            if not isinstance(name, str) or dtype not in _DTYPES or len(trailing) > 4:
                raise FrameError(f"a column of type {dtype!r}")
            if not all(type(size) is int and 0 <= size <= MAX_BODY_BYTES for size in trailing):
                raise FrameError(f"a column of shape {trailing!r}")
            count = rows * math.prod(trailing)
            itemsize = np.dtype(dtype).itemsize
            if offset + count * itemsize > len(body):
                raise FrameError(f"column {name!r} is longer than the frame")
            flat = np.frombuffer(body, dtype="<" + dtype, count=count, offset=offset)
            columns[name] = flat.reshape(rows, *trailing)
            offset += count * itemsize
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FrameError(f"a header that cannot be read ({type(error).__name__})") from None
    if offset != len(body):
        raise FrameError(f"{len(body) - offset} bytes outside the columns")
    return Frame(table, rows, columns, fields)


def _checksum(header: bytes, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(header))
