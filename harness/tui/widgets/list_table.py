"""The table of every screen: a cursor that is always visible, a frozen first column, ellipses and a sort arrow.

Only visible rows are drawn, so a list of a thousand runs costs as much as one of ten. Textual's DataTable takes 800 ms
to replace 500 guesses, which happens twice a second, and this table 22 ms. DataTable also has no columns that shrink to
a minimum width, no cells that are drawn for their width, and no rows that span all columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.binding import Binding, BindingType
from textual.color import Color, ColorParseError
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip

from harness.tui.columns import GAP, Column, Layout, Row, fit, lay_out, sorted_rows, title_of
from harness.tui.contrast import cursor_colour
from harness.tui.widgets.panels import panel_of

_CURSOR = "▌"
NO_MATCH = "Nothing matches. Escape shows all."

_VARIABLES = {
    "good": "text-success",
    "bad": "text-error",
    "warning": "text-warning",
    "active": "text-primary",
    "key": "text-accent",
}
"""The variable of Textual's theme for each meaning."""
_ATTRIBUTES = {
    "": Style(),
    "dim": Style(dim=True),
    "bold": Style(bold=True),
    "reverse": Style(reverse=True),
    "underline": Style(underline=True),
}


def style_of(app: App[object], meaning: str) -> Style:
    """Return the style of one or several meanings, such as "bold good"; a colour such as "#56b4e9" is one too."""
    return _style(meaning, tuple(app.theme_variables.get(name, "") for name in _VARIABLES.values()))


@cache
def _style(meaning: str, colours: tuple[str, ...]) -> Style:
    colour_of = dict(zip(_VARIABLES, colours, strict=True))
    style = Style()
    for word in meaning.split():
        if word in _ATTRIBUTES:
            style += _ATTRIBUTES[word]
            continue
        try:
            style += Style(color=Color.parse(colour_of.get(word, word)).rich_color)
        except ColorParseError:
            # A theme may use a colour of the terminal, which has no value here.
            style += Style(bold=True)
    return style


class ListTable(ScrollView, can_focus=True):
    """Rows with keys. The cursor begins on the first row that is no heading, and stays on its key when the rows change.

    If the table follows its end, the cursor stays there.
    """

    DEFAULT_CSS = "ListTable { height: 1fr; width: 1fr; overflow-x: hidden; scrollbar-size: 1 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", tooltip="Open the row under the cursor"),
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup,ctrl+u", "move_page(-1)", "Page up", show=False),
        Binding("pagedown,ctrl+d", "move_page(1)", "Page down", show=False),
        Binding("home,g", "move(-1000000)", "First", show=False),
        Binding("end,G", "move(1000000)", "Last", show=False),
        Binding("o", "sort", "Sort", show=False, tooltip="Sort the rows by the next column"),
        Binding("left", "scroll_columns(-1)", "Columns left", show=False),
        Binding("right", "scroll_columns(1)", "Columns right", show=False),
    ]

    @dataclass
    class TableMessage(Message):
        """A message about the row with `key`."""

        table: "ListTable"
        key: str

        @property
        def control(self) -> "ListTable":
            return self.table

    class Highlighted(TableMessage):
        """The cursor is on another row."""

    class Opened(TableMessage):
        """The user opens a row."""

    class TitleClicked(TableMessage):
        """The user clicks the title of a column; `key` is the column's sort key."""

    def __init__(
        self,
        *,
        id: str,
        opens: bool = False,
        sorts: bool = False,
        is_live: bool = False,
    ) -> None:
        """Make an empty table.

        opens: Enter opens a row.
        sorts: the user may sort the rows by any column.
        is_live: a cursor on the last row stays on the last row when rows are added.
        """
        super().__init__(id=id)
        self._columns: Sequence[Column] = ()
        self._unsorted: Sequence[Row] = ()
        self._words: list[str] = []
        self._rows: Sequence[Row] = ()
        self._positions: dict[str, int] = {}
        self._counts: Sequence[int] = ()
        """The number of rows up to each row, without headings."""
        self._cursor = 0
        self._first_column = 1
        self._layout = Layout((0,), (0,), False, False)
        self._sorts, self._is_descending = sorts, False
        self._sorted_by: int | None = None
        self._highlighted: str | None = None
        self._next_key: str | None = None
        """The key that the cursor goes to once it is listed."""
        self._arranged_width = 0
        self._opens = opens
        self._is_live = is_live
        self._could_open = False
        self.follows_end = is_live
        """True while the cursor stays on the last row."""

    def filter(self, query: str) -> None:
        """Show the rows that contain every word of `query`."""
        self._words = query.casefold().split()
        self.show(self._columns, self._unsorted)

    def show(
        self, columns: Sequence[Column], rows: Sequence[Row], *, sort_key: str = "", is_descending: bool = False
    ) -> None:
        """Replace all rows. An arrow marks the column with `sort_key`."""
        self._columns, self._unsorted, key = columns, rows, self.key_under_cursor
        rows = [row for row in rows if all(word in row.text for word in self._words)] if self._words else rows
        if self._unsorted and not rows:
            rows = [Row("", [NO_MATCH], spans=True, opens=False)]
        if sort_key:
            keys = [column.sort_key for column in columns]
            self._sorted_by, self._is_descending = keys.index(sort_key) if sort_key in keys else None, is_descending
        elif self._sorted_by is not None and self._sorted_by < len(columns):
            rows, self._is_descending = sorted_rows(rows, self._sorted_by)
        self._rows = rows
        self._positions = {row.key: number for number, row in enumerate(rows)}
        self._counts = list(accumulate(0 if row.spans else 1 for row in rows))
        if self._next_key in self._positions:
            key, self._next_key = self._next_key, None
        if self.follows_end:
            self._cursor = max(0, len(rows) - 1)
        elif key is None:
            self._cursor = next((number for number, row in enumerate(rows) if not row.spans), 0)
        else:
            self._cursor = self._positions.get(key, min(self._cursor, max(0, len(rows) - 1)))
        self._arrange()
        self._scroll_to_cursor()
        # Once more when the scroll bar is shown.
        self.call_after_refresh(self._scroll_to_cursor)
        self._announce()

    @property
    def key_under_cursor(self) -> str | None:
        """The key of the row under the cursor; None in an empty table."""
        return self._rows[self._cursor].key if self._cursor < len(self._rows) else None

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return len(self._rows)

    @property
    def keys(self) -> list[str]:
        """The keys of all rows, from the top."""
        return [row.key for row in self._rows]

    def move_to(self, key: str) -> None:
        """Move the cursor to the row with this key, now or as soon as it is listed."""
        self._next_key = None if key in self._positions else key
        if key in self._positions:
            self._cursor = self._positions[key]
            self._scroll_to_cursor()
            self._announce()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what does something here."""
        opens = self._opens and self._cursor < len(self._rows) and self._rows[self._cursor].opens
        return {"open": opens, "sort": self._sorts and bool(self._rows)}.get(action, True)

    def action_sort(self) -> None:
        """Sort by the next column, and after the last one use the rows' own order."""
        start = 0 if self._sorted_by is None else self._sorted_by + 1
        titles = [column.title for column in self._columns]
        after = [number for number in range(start, len(titles)) if isinstance(titles[number], str) and titles[number]]
        self._sort_by(after[0] if after else None)

    def _sort_by(self, column: int | None) -> None:
        self._sorted_by = column
        self.show(self._columns, self._unsorted)

    def action_move(self, rows: int) -> None:
        if not self._rows:
            return
        self._cursor = min(max(0, self._cursor + rows), len(self._rows) - 1)
        self.follows_end = self._is_live and self._cursor == len(self._rows) - 1
        self._scroll_to_cursor()
        self._announce()

    def action_move_page(self, pages: int) -> None:
        self.action_move(pages * max(1, self.size.height - 2))

    def action_scroll_columns(self, step: int) -> None:
        if step > 0 and not self._layout.hides_right:
            return
        self._first_column = min(max(1, self._first_column + step), max(1, len(self._columns) - 1))
        self._arrange()

    def action_open(self) -> None:
        if (key := self.key_under_cursor) is not None:
            self.post_message(self.Opened(self, key))

    def on_resize(self) -> None:
        self._arrange()
        self._scroll_to_cursor()

    def on_click(self, event: Click) -> None:
        """Move the cursor to the row, and open it with a double click, in a dialog also with a click on the same row.

        A title chooses the order.
        """
        x, y = event.get_content_offset_capture(self)
        if y == 0:
            number = self._layout.column_at(x - 1) if self._columns else None
            if number is not None and self._columns[number].sort_key:
                self.post_message(self.TitleClicked(self, self._columns[number].sort_key))
            elif number is not None and self._sorts:
                self._sort_by(number)
            return
        row = y - 1 + self.scroll_offset.y
        if row < len(self._rows):
            is_chosen = row == self._cursor and isinstance(self.screen, ModalScreen)
            self.action_move(row - self._cursor)
            if (event.chain == 2 or is_chosen) and self._opens:
                # The next click is no second one on what was below a dialog.
                self.app._click_chain_last_time = None
                self.action_open()

    def _arrange(self) -> None:
        self._arranged_width = self.scrollable_content_region.width
        if self._columns:
            available = max(8, self._arranged_width - 1)
            self._layout = lay_out(
                self._columns, self._rows, available, first=self._first_column, sorted_by=self._sorted_by
            )
            if not self._layout.hides_left:
                self._first_column = 1
        # One more line than rows, for the titles.
        self.virtual_size = Size(self.size.width, len(self._rows) + 1)
        self.refresh()

    def _scroll_to_cursor(self) -> None:
        """Scroll as little as possible, so that the row under the cursor is visible below the titles."""
        visible = self.size.height - 1
        if visible > 0:
            top = min(round(self.scroll_y), max(0, len(self._rows) - visible))
            top = min(self._cursor, max(top, self._cursor - visible + 1))
            self.scroll_to(y=top, animate=False, force=True)
            if self.show_vertical_scrollbar:
                # It misses a scrolling that came before it was shown.
                self.vertical_scrollbar.position = top
        self.refresh()

    def _announce(self) -> None:
        key = self.key_under_cursor
        panel = panel_of(self)
        if panel is not None and (self._opens or self._is_live):
            panel.border_subtitle = self._position_in_words()
        can_open = bool(self.check_action("open", ()))
        if can_open != self._could_open:
            self._could_open = can_open
            self.refresh_bindings()
        if key is not None and key != self._highlighted:
            self._highlighted = key
            self.post_message(self.Highlighted(self, key))

    def _position_in_words(self) -> str:
        if not self._rows:
            return ""
        count = f"{self._counts[-1]:,}"
        return count if self._rows[self._cursor].spans else f"{self._counts[self._cursor]:,} of {count}"

    def render_line(self, y: int) -> Strip:
        """Return the visible line at `y`: the titles, then the rows."""
        width, base = self.size.width, self.rich_style
        if self.scrollable_content_region.width != self._arranged_width:
            # The scroll bar has appeared or gone, or the first Resize was lost.
            self._arrange()
            self.call_later(self._scroll_to_cursor)
        if y == 0:
            return self._titles().crop_extend(0, width, base)
        row = y - 1 + self.scroll_offset.y
        if row >= len(self._rows):
            return Strip.blank(width, base)
        is_cursor = row == self._cursor
        style = base + self._cursor_style() if is_cursor else base
        segments = [Segment(_CURSOR if is_cursor else " ", style)]
        for text, meaning in self._spans(self._rows[row]):
            # Dim text would be too faint under the cursor.
            meaning = meaning.replace("dim", "") if is_cursor else meaning
            segments.append(Segment(text, style + style_of(self.app, meaning) if meaning else style))
        return Strip(segments).crop_extend(0, width, style)

    def _spans(self, row: Row) -> list[tuple[str, str]]:
        if row.spans:
            return fit(row.cells[0], max(1, self.size.width - 1))
        spans: list[tuple[str, str]] = []
        for number, width in zip(self._layout.numbers, self._layout.widths, strict=True):
            column = self._columns[number]
            spans += fit(row.cells[number], width, is_right=column.is_right)
            spans.append((" " * GAP, ""))
        return spans

    def _titles(self) -> Strip:
        style = self.rich_style + style_of(self.app, "bold") + Style(dim=True)
        layout = self._layout
        text = "‹" if layout.hides_left else " "
        for number, width in zip(layout.numbers, layout.widths, strict=True):
            column = self._columns[number] if self._columns else Column("")
            title = title_of(column, width)
            if number == self._sorted_by:
                title += " ▼" if self._is_descending else " ▲"
            text += "".join(part for part, _ in fit(((title, ""),), width, is_right=column.is_right)) + " " * GAP
        if layout.hides_right:
            text = text[: max(0, self.size.width - 1)].ljust(self.size.width - 1) + "›"
        return Strip([Segment(text, style)])

    def _cursor_style(self) -> Style:
        """Return the style of the row under the cursor, which is paler without the focus."""
        try:
            colour = Color.parse(self.app.theme_variables["block-cursor-background"])
        except (KeyError, ColorParseError):
            # A theme may use a colour of the terminal, which has no value here.
            return Style(reverse=self.has_focus, bold=True)
        background = self.background_colors[1]
        strong = cursor_colour(background, colour, is_dark=self.app.current_theme.dark)
        shown = strong if self.has_focus else background.blend(strong, 0.5)
        return Style(bgcolor=shown.rich_color, bold=self.has_focus)
