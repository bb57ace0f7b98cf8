"""A table of texts whose rows have keys: filled again and again, with the cursor staying where it was."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text
from textual.widgets import DataTable

from harness.core.text import sanitize


class Row(NamedTuple):
    """key: what the row stands for; cells: texts as they come, made visible here; style: a Rich style for all of it."""

    key: str
    cells: Sequence[str]
    style: str = ""


class KeyedTable(DataTable[Text]):
    """Rows under a cursor. Cells are never read as markup."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, cursor_type="row", zebra_stripes=True)
        self._rows_shown: tuple[object, ...] = ()

    @property
    def key_under_cursor(self) -> str | None:
        """The key of the row that the cursor stands on; None in an empty table."""
        if not self.row_count:
            return None
        return self.coordinate_to_cell_key(self.cursor_coordinate).row_key.value

    def fill(self, header: Sequence[str], rows: Sequence[Row]) -> None:
        """Replace everything; the cursor stays with the row of its key, else at its place."""
        shown = (tuple(header), tuple((row.key, tuple(row.cells), row.style) for row in rows))
        if shown == self._rows_shown:
            return
        self._rows_shown = shown
        before, place, left = self.key_under_cursor, self.cursor_row, self.scroll_x
        if [str(column.label) for column in self.ordered_columns] != list(header):
            self.clear(columns=True)
            self.add_columns(*map(Text, header))
        else:
            self.clear()
        for row in rows:
            self.add_row(*(Text(sanitize(cell), style=row.style) for cell in row.cells), key=row.key)
        for number, column in enumerate(self.ordered_columns):
            # Before the rows are drawn: the table widens its columns too late for rows that come in one batch.
            widths = [Text(sanitize(row.cells[number])).cell_len for row in rows]
            column.content_width = max([column.label.cell_len, *widths])
        keys = [row.key for row in rows]
        if keys:
            self.move_cursor(row=keys.index(before) if before in keys else min(place, len(keys) - 1), animate=False)
            self.scroll_to(x=left, animate=False)
