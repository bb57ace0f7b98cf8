"""The columns of a table as cells of SQLite."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from harness.core.rows import Kind, Table

_SQL_TYPES = {
    Kind.INTEGER: "INTEGER",
    Kind.REAL: "REAL",
    Kind.REALS: "BLOB",
    Kind.TOKENS: "BLOB",
    Kind.TEXT: "TEXT",
}


def create_statement(name: str, table: Table) -> str:
    """Return the SQL statement that creates `table` under the stored name `name`."""
    columns = ", ".join(f'"{column.name}" {_SQL_TYPES[column.kind]} NOT NULL' for column in table.columns)
    return (
        f"CREATE TABLE IF NOT EXISTS {name} (seq INTEGER PRIMARY KEY, batch INTEGER NOT NULL, "
        f"attempt INTEGER NOT NULL, at REAL NOT NULL, {columns});"
    )


def select_list(table: Table) -> str:
    """Return the SQL that selects the columns of `table`.

    SQLite reads a missing name in double quotes as text; in brackets it is an error.
    """
    return ", ".join(f"[{column.name}]" for column in table.columns)


def cells_in(kind: Kind, column: Any) -> list[Any]:
    """Return the cells of one column."""
    if kind is Kind.TEXT:
        return list(column)
    if kind in (Kind.REALS, Kind.TOKENS):
        rows = np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("<"))
        return [row.tobytes() for row in rows]
    values: list[Any] = column.tolist()
    return ["nan" if value != value else value for value in values] if kind is Kind.REAL else values


def column_from(kind: Kind, cells: Sequence[Any], *, tokens: DTypeLike = "<u2", length: int = 0) -> Any:
    """Return the column that these cells hold.

    `tokens` is the little-endian dtype of token ids and `length` their number per row. Raises ValueError or TypeError
    for a cell of another kind.
    """
    match kind:
        case Kind.TEXT:
            return [str(cell) for cell in cells]
        case Kind.TOKENS:
            return np.frombuffer(b"".join(cells), tokens).reshape(len(cells), length)
        case Kind.REALS:
            width = len(cells[0]) // 8 if cells else 0
            return np.frombuffer(b"".join(cells), "<f8").reshape(len(cells), width).astype(np.float64)
        case Kind.REAL:
            return np.array([float(cell) for cell in cells], np.float64)
        case Kind.INTEGER:
            return np.array([int(cell) for cell in cells], np.int64)
