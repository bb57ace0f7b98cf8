"""An audit's tables as files: CSV for spreadsheets and people, Parquet for programs; equal tables give equal bytes."""

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.findings import FoundTable
from harness.submit.audit_redaction import plain_value

if TYPE_CHECKING:
    import pyarrow

# Spreadsheets take a text that begins so for a formula, which may fetch an address or start a program.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def write_csv(table: FoundTable, path: Path) -> None:
    """One row a row, NaN and None as an empty cell, vectors as JSON.

    A text that a spreadsheet would take for a formula has ' before it; what is no character becomes U+FFFD.
    """
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_unexecuted(name) for name in table.columns)
        for row in zip(*table.columns.values(), strict=True):
            writer.writerow(map(_csv_cell, row))


def write_parquet(table: FoundTable, path: Path) -> None:
    """The same cells typed: int64, float64, bool, string or list of float64, and null where there is nothing."""
    import pyarrow
    import pyarrow.parquet

    columns = {whole_text(name): _arrow_column(list(map(plain_value, cells))) for name, cells in table.columns.items()}
    content = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), content, compression="zstd")
    path.write_bytes(content.getvalue())


def whole_text(text: str) -> str:
    """`text` with each lone surrogate, which UTF-8 cannot hold, as U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _csv_cell(cell: Any) -> str:
    cell = plain_value(cell)
    if cell is None:
        return ""
    if isinstance(cell, str):
        return _unexecuted(cell)
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return json.dumps(cell) if isinstance(cell, list) else repr(cell)


def _unexecuted(text: str) -> str:
    text = whole_text(text)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _arrow_column(cells: list[Any]) -> "pyarrow.Array":
    import pyarrow

    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {str}:
        return pyarrow.array([None if cell is None else whole_text(cell) for cell in cells], pyarrow.string())
    if kinds == {bool}:
        return pyarrow.array(cells, pyarrow.bool_())
    if kinds == {int} and all(cell is None or -(1 << 63) <= cell < 1 << 63 for cell in cells):
        return pyarrow.array(cells, pyarrow.int64())
    if kinds <= {int, float}:
        return pyarrow.array([None if cell is None else float(cell) for cell in cells], pyarrow.float64())
    if kinds == {list} and all(type(each) in (int, float, type(None)) for cell in cells for each in cell or ()):
        return pyarrow.array(cells, pyarrow.list_(pyarrow.float64()))
    # Of several kinds: as CSV would have it, with nothing escaped.
    return pyarrow.array(
        [cell if cell is None else whole_text(cell) if isinstance(cell, str) else _csv_cell(cell) for cell in cells],
        pyarrow.string(),
    )
