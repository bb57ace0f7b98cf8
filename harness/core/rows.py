"""Tables of rows: their columns, and how rows travel in frames. The store, the worker and the exports all use them.

A column is an array over the rows: int64 [rows], float64 [rows], float64 [rows, width], token ids [rows, length], or a
list of texts. In a frame a text column becomes padded bytes and their lengths.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, field_validator

from harness.core.errors import HarnessError
from harness.core.text import shorten

Rows = Mapping[str, Any]
"""Columns of one table by name, rows in arrival order."""

_BYTES_PER_FRAME = 4 << 20
_ROWS_PER_FRAME = 1 << 14
_MAX_TEXT_BYTES = 1 << 20
_BOOKKEEPING = ("seq", "batch", "attempt", "at")
"""The columns that the store adds to every table."""
_Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,40}$")]


class Kind(StrEnum):
    """The type of a column: int64, float64, a vector of float64, token ids, or text."""

    INTEGER = "integer"
    REAL = "real"
    REALS = "reals"
    TOKENS = "tokens"
    TEXT = "text"


_DTYPES = {Kind.INTEGER: np.int64, Kind.REAL: np.float64, Kind.REALS: np.float64}
_DIMENSIONS = {Kind.INTEGER: 1, Kind.REAL: 1, Kind.REALS: 2, Kind.TOKENS: 2}


class Column(BaseModel, frozen=True, extra="forbid"):
    """One column of a table."""

    name: _Name
    kind: Kind

    @field_validator("name")
    @classmethod
    def _is_free(cls, name: str) -> str:
        if name in _BOOKKEEPING:
            raise ValueError("the store has a column of this name")
        return name


class Table(BaseModel, frozen=True, extra="forbid"):
    """A table of rows that a job emits and the store keeps."""

    name: _Name
    columns: tuple[Column, ...]


def table(name: str, /, **columns: Kind) -> Table:
    """Return a table with these columns, in this order."""
    return Table(name=name, columns=tuple(Column(name=column, kind=kind) for column, kind in columns.items()))


def validate_columns(table: Table, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of `table` in its own types and order. A single number fills its column.

    Characters that are not valid Unicode become replacement characters. Raises HarnessError, naming the column, if one
    is missing, unknown, or of another type or length.
    """
    names = [column.name for column in table.columns]
    if set(columns) != set(names):
        raise HarnessError(f"rows of {table.name} have the columns {', '.join(names)}, not {', '.join(columns)}.")
    rows = next((len(values) for values in columns.values() if hasattr(values, "__len__")), 1)
    columns = {name: np.full(rows, values) if np.isscalar(values) else values for name, values in columns.items()}
    valid = {column.name: _validate_column(table, column, columns[column.name]) for column in table.columns}
    if len({len(values) for values in valid.values()}) > 1:
        raise HarnessError(f"rows of {table.name}: the columns have different lengths.")
    return valid


def split_into_frames(table: Table, columns: Mapping[str, Any]) -> Iterator[dict[str, NDArray[Any]]]:
    """Yield validated columns as the arrays of one frame after the other."""
    rows = len(columns[table.columns[0].name])
    text_columns = [entry for entry in table.columns if entry.kind is Kind.TEXT]
    texts = {entry.name: [text.encode() for text in columns[entry.name]] for entry in text_columns}
    lengths = {name: np.array([len(text) for text in encoded], np.int64) for name, encoded in texts.items()}
    vectors = [columns[entry.name] for entry in table.columns if entry.kind in (Kind.REALS, Kind.TOKENS)]
    fixed = 8 * len(table.columns) + sum(int(array.shape[1]) * int(array.itemsize) for array in vectors)
    first = 0
    while first < rows:
        # In a frame every text takes as much space as the longest one.
        widths = np.full(min(_ROWS_PER_FRAME, rows - first), fixed)
        for sizes in lengths.values():
            widths += np.maximum.accumulate(sizes[first : first + len(widths)])
        fitting = np.searchsorted(widths * np.arange(1, len(widths) + 1), _BYTES_PER_FRAME, side="right")
        frame = slice(first, first + max(1, int(fitting)))
        arrays = {entry.name: columns[entry.name][frame] for entry in table.columns if entry.kind is not Kind.TEXT}
        for entry in text_columns:
            # numpy pads the texts with zeros to the longest one, at least one byte.
            padded = np.array(texts[entry.name][frame], np.bytes_)
            arrays[entry.name] = padded.view(np.uint8).reshape(len(padded), -1)
            arrays[_length_name(entry)] = lengths[entry.name][frame]
        yield arrays
        first = frame.stop


def columns_from_frame(table: Table, arrays: Mapping[str, NDArray[Any]], rows: int) -> dict[str, Any]:
    """Return the columns that `split_into_frames` encoded. Raises ValueError or KeyError for arrays it never makes."""
    columns: dict[str, Any] = {}
    for column in table.columns:
        array = arrays[column.name]
        if column.kind is Kind.TEXT:
            columns[column.name] = _decode_texts(array, arrays[_length_name(column)])
        elif not _has_kind(array, column.kind):
            raise ValueError(f"column {column.name} is {array.dtype} {list(array.shape)}, not {column.kind}")
        else:
            columns[column.name] = array
    expected = {column.name for column in table.columns}
    expected |= {_length_name(column) for column in table.columns if column.kind is Kind.TEXT}
    if set(arrays) != expected or any(len(values) != rows for values in columns.values()):
        raise ValueError("the columns are not those of the table")
    return columns


def concatenate_rows(table: Table, parts: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the rows of all parts as one; empty columns if there are no parts."""
    joined: dict[str, Any] = {}
    for column in table.columns:
        # Vectors without rows do not know their width.
        filled = [part[column.name] for part in parts if len(part[column.name])]
        if column.kind is Kind.TEXT:
            joined[column.name] = [text for part in filled for text in part]
        elif filled:
            joined[column.name] = np.concatenate(filled)
        else:
            shape = (0, 0) if _DIMENSIONS[column.kind] == 2 else (0,)
            joined[column.name] = np.empty(shape, _DTYPES.get(column.kind, np.uint16))
    return joined


def _has_kind(array: NDArray[Any], kind: Kind) -> bool:
    if array.ndim != _DIMENSIONS[kind]:
        return False
    return bool(np.issubdtype(array.dtype, np.integer) if kind is Kind.TOKENS else array.dtype == _DTYPES[kind])


def _validate_column(table: Table, column: Column, values: Any) -> Any:
    where = f"rows of {table.name}, column {column.name}"
    if column.kind is Kind.TEXT:
        if not isinstance(values, list) or not all(isinstance(text, str) for text in values):
            raise HarnessError(f"{where}: expected a list of texts.")
        texts = [text.encode(errors="replace").decode() for text in values]
        longest = max((len(text.encode()) for text in texts), default=0)
        if longest > _MAX_TEXT_BYTES:
            raise HarnessError(f"{where}: a text has {longest:,} bytes; the limit is {_MAX_TEXT_BYTES:,}.")
        return texts
    try:
        array = np.asarray(values)
        if column.kind in (Kind.INTEGER, Kind.TOKENS) and array.dtype.kind not in "iub":
            raise TypeError("expected integers")
        array = array if column.kind is Kind.TOKENS else array.astype(_DTYPES[column.kind])
    except (TypeError, ValueError) as error:
        raise HarnessError(f"{where}: values of another type ({shorten(str(error), 80)}).") from None
    if array.ndim != _DIMENSIONS[column.kind]:
        raise HarnessError(f"{where}: expected {_DIMENSIONS[column.kind]} dimensions, found {list(array.shape)}.")
    return array


def _decode_texts(padded: NDArray[Any], lengths: NDArray[Any]) -> list[str]:
    if padded.dtype != np.uint8 or padded.ndim != 2 or lengths.dtype != np.int64 or lengths.shape != padded.shape[:1]:
        raise ValueError("a text column is not padded bytes and their lengths")
    if len(lengths) and not 0 <= lengths.min() <= lengths.max() <= padded.shape[1]:
        raise ValueError("a text is longer than its bytes")
    if lengths.max(initial=0) > _MAX_TEXT_BYTES:
        raise ValueError("a text is too long")
    return [row[:length].tobytes().decode() for row, length in zip(padded, lengths.tolist(), strict=True)]


def _length_name(column: Column) -> str:
    return f"{column.name}.bytes"
