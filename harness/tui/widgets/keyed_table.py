"""A table of text whose rows have keys, so that the cursor stays on its row when the table is filled again."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text
from textual.widgets import DataTable

from harness.core.text import sanitize


class Row(NamedTuple):
    """A row that `key` identifies. cells: any text, with control characters replaced here. style: a Rich style."""

    key: str
    cells: Sequence[str]
    style: str = ""


class KeyedTable(DataTable[Text]):
    """A table with a row cursor. Cells are never parsed as markup."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, cursor_type="row", zebra_stripes=True)
        self._shown: tuple[object, ...] = ()

    @property
    def key_under_cursor(self) -> str | None:
        """The key of the row under the cursor; None in an empty table."""
        if not self.row_count:
            return None
        return self.coordinate_to_cell_key(self.cursor_coordinate).row_key.value

    def fill(self, header: Sequence[str], rows: Sequence[Row]) -> None:
        """Replace all rows; the cursor stays on the row with the same key, or else at the same position."""
        content = (tuple(header), tuple((row.key, tuple(row.cells), row.style) for row in rows))
        if content == self._shown:
            return
        self._shown = content
        key, position, left = self.key_under_cursor, self.cursor_row, self.scroll_x
        if [str(column.label) for column in self.ordered_columns] != list(header):
            self.clear(columns=True)
            self.add_columns(*map(Text, header))
        else:
            self.clear()
        for row in rows:
            self.add_row(*(Text(sanitize(cell), style=row.style) for cell in row.cells), key=row.key)
        for number, column in enumerate(self.ordered_columns):
            # Set here because DataTable widens its columns only after the first paint.
            widths = [Text(sanitize(row.cells[number])).cell_len for row in rows]
            column.content_width = max([column.label.cell_len, *widths])
        keys = [row.key for row in rows]
        if keys:
            self.move_cursor(row=keys.index(key) if key in keys else min(position, len(keys) - 1), animate=False)
            self.scroll_to(x=left, animate=False)
