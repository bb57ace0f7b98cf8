"""Rows of an audit's tables on their way over the wire, where a column is an array: a text is bytes and a length."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core.audit import Column, Kind, Table
from harness.core.errors import HarnessError
from harness.core.text import shorten

_BYTES_A_FRAME = 4 << 20
_MOST_TEXT_BYTES = 1 << 20
_ROWS_A_FRAME = 1 << 14
_DTYPES = {Kind.INTEGER: np.int64, Kind.REAL: np.float64, Kind.REALS: np.float64}
_DIMENSIONS = {Kind.INTEGER: 1, Kind.REAL: 1, Kind.REALS: 2}


def checked_columns(table: Table, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of `table` in its own types and order: int64 or float64 [rows], float64 [rows, width], texts in a list.

    What a text holds that is no Unicode becomes a replacement character. Raises HarnessError, naming the column, for
    what is missing, too much, of another type or length.
    """
    names = [column.name for column in table.columns]
    if set(columns) != set(names):
        raise HarnessError(f"rows of {table.name} have the columns {', '.join(names)}, not {', '.join(columns)}.")
    made = {column.name: _checked(table, column, columns[column.name]) for column in table.columns}
    if len({len(values) for values in made.values()}) > 1:
        raise HarnessError(f"rows of {table.name}: its columns are of different lengths.")
    return made


def framed(table: Table, columns: Mapping[str, Any]) -> Iterator[dict[str, NDArray[Any]]]:
    """Checked columns as arrays that a frame carries, some rows at a time."""
    rows = len(columns[table.columns[0].name])
    encoded = {
        column.name: [text.encode() for text in columns[column.name]]
        for column in table.columns
        if column.kind is Kind.TEXT
    }
    first = 0
    while first < rows:
        stop = _end_of_frame(table, columns, encoded, first, rows)
        yield {
            name: array
            for column in table.columns
            for name, array in _arrays(column, columns, encoded, slice(first, stop)).items()
        }
        first = stop


def unframed(table: Table, arrays: Mapping[str, NDArray[Any]], rows: int) -> dict[str, Any]:
    """The columns that `framed` put into these arrays. Raises ValueError or KeyError for what it never makes."""
    columns: dict[str, Any] = {}
    for column in table.columns:
        array = arrays[column.name]
        if column.kind is Kind.TEXT:
            columns[column.name] = _texts(array, arrays[_length_of(column)])
        elif array.dtype != _DTYPES[column.kind] or array.ndim != _DIMENSIONS[column.kind]:
            raise ValueError(f"a column {column.name} that is not of its kind")
        else:
            columns[column.name] = array
    wanted = {column.name for column in table.columns}
    wanted |= {_length_of(column) for column in table.columns if column.kind is Kind.TEXT}
    if set(arrays) != wanted or any(len(values) != rows for values in columns.values()):
        raise ValueError("columns other than those of its table")
    return columns


def joined_rows(table: Table, parts: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows of `table` one after the other; no rows where there are no parts."""
    joined: dict[str, Any] = {}
    for column in table.columns:
        # A table of vectors without rows does not know how wide they are.
        found = [part[column.name] for part in parts if len(part[column.name])]
        if column.kind is Kind.TEXT:
            joined[column.name] = [text for part in found for text in part]
        elif found:
            joined[column.name] = np.concatenate(found)
        else:
            shape = (0, 0) if column.kind is Kind.REALS else (0,)
            joined[column.name] = np.empty(shape, _DTYPES[column.kind])
    return joined


def _checked(table: Table, column: Column, values: Any) -> Any:
    where = f"rows of {table.name}: the column {column.name}"
    if column.kind is Kind.TEXT:
        if not isinstance(values, list) or not all(isinstance(text, str) for text in values):
            raise HarnessError(f"{where} wants texts in a list.")
        texts = [text.encode(errors="replace").decode() for text in values]
        longest = max((len(text.encode()) for text in texts), default=0)
        if longest > _MOST_TEXT_BYTES:
            raise HarnessError(f"{where} has a text of {longest:,} bytes; at most {_MOST_TEXT_BYTES:,} are kept.")
        return texts
    try:
        array = np.asarray(values)
        if column.kind is Kind.INTEGER and array.dtype.kind not in "iub":
            raise TypeError("whole numbers are wanted")
        array = array.astype(_DTYPES[column.kind])
    except (TypeError, ValueError) as error:
        raise HarnessError(f"{where} has values of another kind ({shorten(str(error), 80)}).") from None
    if array.ndim != _DIMENSIONS[column.kind]:
        raise HarnessError(f"{where} has shape {list(array.shape)}; it wants {_DIMENSIONS[column.kind]} dimensions.")
    return array


def _end_of_frame(
    table: Table, columns: Mapping[str, Any], encoded: Mapping[str, list[bytes]], first: int, rows: int
) -> int:
    """After which row a frame ends that begins with `first`: a text takes as much room as the longest of its frame."""
    widths = sum(8 * columns[one.name].shape[1] for one in table.columns if one.kind is Kind.REALS)
    longest = dict.fromkeys(encoded, 0)
    stop = first
    while stop < min(rows, first + _ROWS_A_FRAME):
        longest = {name: max(most, len(encoded[name][stop])) for name, most in longest.items()}
        row = 8 * len(table.columns) + widths + sum(longest.values())
        if stop > first and row * (stop + 1 - first) > _BYTES_A_FRAME:
            break
        stop += 1
    return stop


def _arrays(
    column: Column, columns: Mapping[str, Any], encoded: Mapping[str, list[bytes]], rows: slice
) -> dict[str, NDArray[Any]]:
    if column.kind is not Kind.TEXT:
        return {column.name: columns[column.name][rows]}
    texts = encoded[column.name][rows]
    lengths = np.array([len(text) for text in texts], np.int64)
    padded = np.zeros((len(texts), int(lengths.max(initial=0))), np.uint8)
    for place, text in enumerate(texts):
        padded[place, : len(text)] = np.frombuffer(text, np.uint8)
    return {column.name: padded, _length_of(column): lengths}


def _texts(padded: NDArray[Any], lengths: NDArray[Any]) -> list[str]:
    if padded.dtype != np.uint8 or padded.ndim != 2 or lengths.dtype != np.int64 or lengths.shape != padded.shape[:1]:
        raise ValueError("texts that are not bytes and their numbers")
    if len(lengths) and not 0 <= lengths.min() <= lengths.max() <= padded.shape[1]:
        raise ValueError("a text of more bytes than it has")
    return [row[:length].tobytes().decode() for row, length in zip(padded, lengths.tolist(), strict=True)]


def _length_of(column: Column) -> str:
    return f"{column.name}.bytes"
