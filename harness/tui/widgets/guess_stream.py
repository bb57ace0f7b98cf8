"""The stream of guesses, one line each; only visible lines are rendered."""

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from harness.analysis.candidates import VERDICTS
from harness.analysis.decoded_text import TokenText
from harness.core.arrays import Tokens
from harness.core.times import time_of_day
from harness.tui.snapshot import GuessLine
from harness.tui.token_differences import compared_pieces

_PREFIX_CHARACTERS = 16
_MAX_CACHED_STRIPS = 200
_COLOURS = {True: "green", False: "red", None: "default"}


class GuessStream(ScrollView, can_focus=True):
    """Guesses, newest last: time, example, score, verdict, end of the prefix → suffix with wrong tokens underlined.

    It follows the newest guess, or stays in place with a cursor on one guess.
    """

    HELP = (
        "The guesses as they arrive: time, example, score, ✓ right or ✗ wrong (· unknown), the end of the prefix → the "
        "suffix. Tokens that differ from the answer are underlined.\n\nMoving the cursor stops following; `f` follows "
        "the newest guess again. Enter opens the example."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Open", show=False, tooltip="Open the example of this guess"),
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "move_page(-1)", "Page up", show=False),
        Binding("pagedown", "move_page(1)", "Page down", show=False),
        Binding("home", "move(-1000000)", "First", show=False),
        Binding("end", "move(1000000)", "Last", show=False),
    ]

    class Chosen(Message):
        """The user opens a guess."""

        def __init__(self, line: GuessLine) -> None:
            super().__init__()
            self.line = line

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._lines: Sequence[GuessLine] = ()
        self._strips: dict[int, Strip] = {}
        self._cursor = 0
        self._text: TokenText | None = None
        self._prefixes: Tokens | None = None
        self._answers: Tokens | None = None
        self.is_following = True

    def set_source(self, text: TokenText, prefixes: Tokens, answers: Tokens | None) -> None:
        """Set the decoder, and the prefix and answer of each example; call it before the first `show`."""
        self._text, self._prefixes, self._answers = text, prefixes, answers
        self._strips.clear()

    def show(self, lines: Sequence[GuessLine]) -> None:
        """Replace the lines if the stream follows the newest guess."""
        if not self.is_following:
            return
        if lines and self._lines and lines[-1].seq == self._lines[-1].seq and len(lines) == len(self._lines):
            self.scroll_end(animate=False)
            return
        self._replace(lines)

    def show_fixed(self, lines: Sequence[GuessLine]) -> None:
        """Replace the lines and stop following."""
        self.is_following = False
        self._replace(lines)

    @property
    def line_under_cursor(self) -> GuessLine | None:
        """The guess under the cursor, which is the newest one while the stream follows."""
        return self._lines[min(self._cursor, len(self._lines) - 1)] if self._lines else None

    def _replace(self, lines: Sequence[GuessLine]) -> None:
        self._lines = lines
        self._cursor = max(0, len(lines) - 1)
        if len(self._strips) > _MAX_CACHED_STRIPS:
            self._strips.clear()
        # Width 1: lines are cropped, never scrolled sideways.
        self.virtual_size = Size(1, len(lines))
        self.scroll_end(animate=False)
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Stop following when the user scrolls up."""
        super().watch_scroll_y(old_value, new_value)
        if new_value < min(old_value, self.max_scroll_y):
            self.is_following = False

    def action_move(self, lines: int) -> None:
        if not self._lines:
            return
        self.is_following = False
        self._cursor = min(max(0, self._cursor + lines), len(self._lines) - 1)
        self.scroll_to_region(Region(0, self._cursor, 1, 1), animate=False, force=True)
        self.refresh()

    def action_move_page(self, pages: int) -> None:
        self.action_move(pages * max(1, self.size.height - 1))

    def action_choose(self) -> None:
        line = self.line_under_cursor
        if line is not None:
            self.post_message(self.Chosen(line))

    def on_click(self, event: Click) -> None:
        """Move the cursor to the line; a double click opens it."""
        row = event.y + self.scroll_offset.y
        if row < len(self._lines):
            self.action_move(row - self._cursor)
            if event.chain == 2:
                self.action_choose()

    def render_line(self, y: int) -> Strip:
        """Return the visible line at `y`."""
        row = y + self.scroll_offset.y
        if row >= len(self._lines):
            return Strip.blank(self.size.width, self.rich_style)
        line = self._lines[row]
        strip = self._strips.get(line.seq)
        if strip is None:
            strip = self._strips[line.seq] = Strip(Segment.simplify(self._segments(line)))
        style = self.rich_style
        if self.has_focus and row == self._cursor:
            style += Style(reverse=True)
        return strip.crop_extend(0, self.size.width, style).apply_style(style)

    def _segments(self, line: GuessLine) -> list[Segment]:
        assert self._text is not None and self._prefixes is not None
        prefix = self._text.text(self._prefixes[line.example].tolist())[-_PREFIX_CHARACTERS:]
        segments = [
            Segment(f"{time_of_day(line.at)} {line.example:>5} {line.score:>10.4g} ", Style(dim=True)),
            Segment(f"{VERDICTS[line.is_right]} ", Style(color=_COLOURS[line.is_right], bold=True)),
            Segment(f"{prefix:>{_PREFIX_CHARACTERS}} → ", Style(dim=True)),
        ]
        answer = None if self._answers is None else self._answers[line.example].tolist()
        for piece, is_different in compared_pieces(self._text, line.suffix.tolist(), answer):
            segments.append(Segment(piece, Style(underline=True) if is_different else Style()))
        return segments
