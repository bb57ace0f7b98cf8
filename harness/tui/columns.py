"""The cells of a table, the glyph of each status, and the widths of columns. They know nothing about Textual."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, reduce
from itertools import accumulate
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from harness.core.text import sanitize
from harness.runs.status import Status

GAP = 2
_MAX_WIDTH = 60
Span = tuple[str, str]
"""Text, and what it means (harness.tui.widgets.list_table)."""
Drawn = Callable[[int], Sequence[Span]]
"""A cell that is drawn for the width of its column, such as a bar."""
Cell = str | Sequence[Span] | Drawn
GLYPHS = {
    Status.QUEUED: ("◌", "dim"),
    Status.STARTING: ("◐", "active"),
    Status.RUNNING: ("▶", "active"),
    Status.FINISHING: ("◑", "active"),
    Status.FINISHED: ("✓", "good"),
    Status.OUT_OF_TIME: ("⧗", "warning"),
    Status.STOPPED: ("■", "warning"),
    Status.CRASHED: ("✗", "bad"),
    Status.LOST: ("?", "bad"),
}
"""The glyph of each status, and the meaning that colours it."""
_BLOCKS = "▁▂▃▄▅▆▇█"


class Column(NamedTuple):
    """One column.

    width: in characters; 0 for the widest cell.
    min_width: the width to which it may shrink in a narrow table, 0 for one that keeps its width.
    fills: it takes the room that is left.
    sort_key: of the order that a click on the title chooses.
    """

    title: str | Callable[[int], str]
    width: int = 0
    min_width: int = 0
    fills: bool = False
    is_right: bool = False
    sort_key: str = ""


@dataclass(eq=False)
class Row:
    """One row, which `key` identifies.

    source: the cells, or a function that makes them when the row is first drawn.
    spans: it has one cell, which takes the whole width, as a heading does.
    opens: Enter opens it, if the table opens rows.
    """

    key: str
    source: Sequence[Cell] | Callable[[], Sequence[Cell]]
    _: KW_ONLY
    spans: bool = False
    opens: bool = True

    @cached_property
    def cells(self) -> tuple[tuple[Span, ...] | Drawn, ...]:
        """The cells, without characters that could steer a terminal."""
        cells = self.source() if callable(self.source) else self.source
        return tuple(cell if callable(cell) else _spans(cell) for cell in cells)

    @property
    def text(self) -> str:
        """The words of all cells, in lower case."""
        return " ".join(part for cell in self.cells if not callable(cell) for part, _ in cell).casefold()


class Layout(NamedTuple):
    """The columns that are shown: their numbers and widths, and whether more are hidden at the left or the right."""

    numbers: tuple[int, ...]
    widths: tuple[int, ...]
    hides_left: bool
    hides_right: bool

    def column_at(self, x: int) -> int | None:
        """Return the number of the column at a position; None between and beside them."""
        starts = accumulate((width + GAP for width in self.widths), initial=0)
        for number, start, width in zip(self.numbers, starts, self.widths, strict=False):
            if start <= x < start + width:
                return number
        return None


def sorted_rows(rows: Sequence[Row], column: int) -> tuple[list[Row], bool]:
    """Return the rows in the order of a column, and True if it has numbers, which descend; texts ascend.

    Empty cells are last, and after them the rows of one cell, such as headings.
    """
    values = {row.key: None if row.spans else _value(row.cells[column]) for row in rows}
    is_descending = any(isinstance(value, float) for value in values.values())

    def order(row: Row) -> tuple[int, float, str]:
        value = values[row.key]
        if value is None:
            return (3 if row.spans else 2, 0.0, "")
        return (0, -value, "") if isinstance(value, float) else (1, 0.0, value)

    return sorted(rows, key=order), is_descending


def _value(cell: Sequence[Span] | Drawn) -> float | str | None:
    """Return the number, the seconds of a time such as `1:05`, or the text of a cell; None if there is none."""
    if callable(cell):
        return None
    text = "".join(part for part, _ in cell).strip()
    if text in ("", "–"):
        return None
    if re.fullmatch(r"\d+(:\d\d)+", text):
        return float(reduce(lambda total, part: 60 * total + int(part), text.split(":"), 0))
    try:
        return float(text.replace(",", "").removesuffix("%"))
    except ValueError:
        return text.casefold()


def lay_out(
    columns: Sequence[Column], rows: Iterable[Row], available: int, *, first: int, sorted_by: int | None = None
) -> Layout:
    """Return the layout of a table that is `available` characters wide; the column `sorted_by` has room for an arrow.

    Columns shrink as far as they may. If they still do not fit, the first one stays, the others begin with number
    `first`, and those that do not fit are hidden. Room that is left goes to the shrunk columns that lack the least.
    """
    widths = [
        column.width or cell_len(title_of(column, 0)) + 2 * (number == sorted_by)
        for number, column in enumerate(columns)
    ]
    content_columns = [number for number, column in enumerate(columns) if not column.width and not column.fills]
    for row in rows:
        if not callable(row.source) and not row.spans:
            for number in content_columns:
                if not callable(cell := row.cells[number]):
                    widths[number] = max(widths[number], _width(cell))
    # The title of a column of drawn cells is drawn too, so that its minimum width is known only from the column.
    min_widths = [column.min_width if callable(column.title) or column.fills else 0 for column in columns]
    widths = [max(min_width, min(width, _MAX_WIDTH)) for min_width, width in zip(min_widths, widths, strict=True)]
    final_widths = [min(width, column.min_width or width) for column, width in zip(columns, widths, strict=True)]
    final_widths[0] = min(final_widths[0], available)
    fits = sum(final_widths) + GAP * (len(final_widths) - 1) <= available
    start = 1 if fits else max(1, min(first, len(columns) - 1))
    # An arrow in the last character says that more columns are hidden.
    numbers, room = [0], available - final_widths[0] - (not fits)
    for number in range(start, len(columns)):
        room -= GAP + final_widths[number]
        if room < 0 and len(numbers) > 1:
            room += GAP + final_widths[number]
            break
        # The second column is cut rather than hidden.
        final_widths[number] += min(0, room)
        numbers.append(number)
    for number in sorted(numbers, key=lambda number: widths[number] - final_widths[number]):
        added = max(0, min(room, widths[number] - final_widths[number]))
        final_widths[number] += added
        room -= added
    for number in numbers:
        if columns[number].fills and room > 0:
            final_widths[number] += room
            break
    hides_right = numbers[-1] < len(columns) - 1
    return Layout(tuple(numbers), tuple(final_widths[number] for number in numbers), start > 1, hides_right)


def title_of(column: Column, width: int) -> str:
    """Return the title of a column that is `width` characters wide."""
    return column.title(width) if callable(column.title) else column.title


def fit(cell: Sequence[Span] | Drawn, width: int, *, is_right: bool = False) -> list[Span]:
    """Return the spans cut with an ellipsis or padded to `width` characters."""
    spans = cell(width) if callable(cell) else cell
    length = _width(spans)
    if length <= width:
        padding = " " * (width - length), ""
        return [padding, *spans] if is_right else [*spans, padding]
    kept: list[Span] = []
    room = width - 1
    for text, meaning in spans:
        if room <= 0:
            break
        part = text if cell_len(text) <= room else set_cell_size(text, room)
        kept.append((part, meaning))
        room -= cell_len(part)
    return [*kept, ("…", "dim")]


def _spans(cell: str | Sequence[Span]) -> tuple[Span, ...]:
    if isinstance(cell, str):
        return ((sanitize(cell), ""),)
    return tuple((sanitize(text), meaning) for text, meaning in cell)


def _width(cell: Sequence[Span]) -> int:
    return sum(cell_len(text) for text, _ in cell)


def bar(share: float, cells: int) -> tuple[str, str]:
    """Return the filled and the empty part of a bar; `share` is in [0, 1], or is cut to it."""
    filled = round(min(1.0, max(0.0, share)) * cells)
    return "━" * filled, "─" * (cells - filled)


def spark(values: tuple[float, ...], highest: float = 100.0) -> str:
    """Return a line of block characters, one per value."""
    return "".join(_BLOCKS[min(7, max(0, int(value / highest * 8)))] for value in values)
