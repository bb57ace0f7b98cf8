"""The stream of guesses: the last ones, a line each, drawn only where they can be seen."""

import time
from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from harness.core.arrays import Tokens
from harness.runs.text import TokenText
from harness.tui.snapshot import GuessLine, Verdict

_PREFIX_CHARACTERS = 16
_LINES_REMEMBERED = 2_000
_SIGNS = {Verdict.RIGHT: "✓", Verdict.WRONG: "✗", Verdict.UNKNOWN: "·"}
_COLOURS = {Verdict.RIGHT: "green", Verdict.WRONG: "red", Verdict.UNKNOWN: "default"}


class GuessStream(ScrollView, can_focus=True):
    """Guesses, newest last: time, example, score, verdict, prefix's end → suffix, its wrong tokens underlined."""

    HELP = "The guesses as they arrive. `f` follows the newest; scrolling up stops that."

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._lines: Sequence[GuessLine] = ()
        self._strips: dict[int, Strip] = {}
        self._text: TokenText | None = None
        self._prefixes: Tokens | None = None
        self._answers: Tokens | None = None
        self.is_following = True

    def tell(self, text: TokenText, prefixes: Tokens, answers: Tokens | None) -> None:
        """How tokens read, and what stands before and should stand in each suffix."""
        self._text, self._prefixes, self._answers = text, prefixes, answers

    def show(self, lines: Sequence[GuessLine]) -> None:
        """Replace the lines."""
        if self._lines and not self.is_following:
            return
        if lines and self._lines and lines[-1].seq == self._lines[-1].seq and len(lines) == len(self._lines):
            self.scroll_end(animate=False)
            return
        self._lines = lines
        if len(self._strips) > _LINES_REMEMBERED:
            self._strips.clear()
        # As wide as anything: lines are cut, never scrolled sideways.
        self.virtual_size = Size(1, len(lines))
        self.scroll_end(animate=False)
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Whoever looks back wants the lines to stay."""
        super().watch_scroll_y(old_value, new_value)
        if new_value < min(old_value, self.max_scroll_y):
            self.is_following = False

    def render_line(self, y: int) -> Strip:
        """The line at `y` of what can be seen."""
        row = y + self.scroll_offset.y
        if row >= len(self._lines):
            return Strip.blank(self.size.width, self.rich_style)
        line = self._lines[row]
        strip = self._strips.get(line.seq)
        if strip is None:
            strip = self._strips[line.seq] = Strip(self._segments(line))
        return strip.crop_extend(0, self.size.width, self.rich_style).apply_style(self.rich_style)

    def _segments(self, line: GuessLine) -> list[Segment]:
        assert self._text is not None and self._prefixes is not None
        at = time.strftime("%H:%M:%S", time.localtime(line.at))
        before = self._text.text(self._prefixes[line.example].tolist())[-_PREFIX_CHARACTERS:]
        segments = [
            Segment(f"{at} {line.example:>5} {line.score:>8.3f} ", Style(dim=True)),
            Segment(f"{_SIGNS[line.verdict]} ", Style(color=_COLOURS[line.verdict], bold=True)),
            Segment(f"{before:>{_PREFIX_CHARACTERS}} → ", Style(dim=True)),
        ]
        suffix = line.suffix.tolist()
        answer = suffix if self._answers is None else self._answers[line.example].tolist()
        for piece, token, wanted in zip(self._text.pieces(suffix), suffix, answer, strict=True):
            segments.append(Segment(piece, Style(underline=True, bold=True) if token != wanted else Style()))
        return segments
