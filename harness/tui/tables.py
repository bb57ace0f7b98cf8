"""Tables whose columns are declared together with their cells."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from harness.tui.columns import Cell, Column, Row

ItemT = TypeVar("ItemT")
CellsOf = Mapping[Column, Callable[[ItemT], Cell]]
"""The columns of a table of items, each with the function that returns the cell of an item."""
Table = tuple[Sequence[Column], list[Row]]


def table_of(columns: CellsOf[ItemT], items: Mapping[str, ItemT]) -> Table:
    """Return the columns, and a row for each of the items, which are by the keys of their rows."""
    return list(columns), [row_of(columns, key, item) for key, item in items.items()]


def row_of(columns: CellsOf[ItemT], key: str, item: ItemT) -> Row:
    """Return the row of one item."""
    return Row(key, [cell(item) for cell in columns.values()])
