"""Writes only the cells that have changed since the last picture, because people watch over slow connections.

Textual writes every widget that was refreshed as a whole: a table with one new row is written again cell by cell.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest

from rich.cells import get_character_cell_size
from rich.color import ColorSystem
from rich.console import Console, RenderableType
from rich.control import Control
from rich.style import Style
from textual._compositor import CompositorUpdate
from textual.app import App
from textual.screen import Screen
from textual.strip import Strip

_CellOfLine = tuple[str, Style]
_LONGEST_GAP = 6
"""Unchanged cells between changed ones that are written too: moving the cursor takes about as many bytes."""


class ChangedCells(CompositorUpdate):
    """The cells of `now` that are not the same in `before`, line by line."""

    def __init__(self, before: Sequence[Strip], now: Sequence[Strip]) -> None:
        self._before, self._now = before, now

    def render_segments(self, console: Console) -> str:
        """Return the text with its escape sequences."""
        system = console._color_system or ColorSystem.TRUECOLOR
        parts = []
        for y, (strip, before) in enumerate(zip_longest(self._now, self._before[: len(self._now)])):
            if before is not None and strip == before:
                continue
            cells = _cells(strip)
            for start, end in _changed_spans(cells, [] if before is None else _cells(before)):
                parts.append(Control.move_to(start, y).segment.text)
                for style, run in groupby(cells[start:end], key=lambda cell: cell[1]):
                    parts.append(style.render("".join(character for character, _ in run), color_system=system))
        return "".join(parts)


class ChangedCellsApp(App[None]):
    """An application that writes changed cells only."""

    def __init__(self) -> None:
        super().__init__()
        self._painted: list[Strip] = []

    def on_load(self) -> None:
        # After another program has used the terminal, nothing on it is known.
        self.app_resume_signal.subscribe(self, lambda _: self._painted.clear())

    def on_resize(self) -> None:
        self._painted.clear()

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        if isinstance(renderable, CompositorUpdate) and not self._batch_count and not self.is_headless:
            now = [strip.discard_meta() for strip in self.screen._compositor.render_strips()]
            renderable, self._painted = ChangedCells(self._painted, now), now
        super()._display(screen, renderable)


def _cells(strip: Strip) -> list[_CellOfLine]:
    """Return the characters with their styles. The second cell of a wide character is an empty text."""
    cells: list[_CellOfLine] = []
    for segment in strip:
        style = segment.style or Style.null()
        if segment.text.isascii() or segment.cell_length == len(segment.text):
            cells += [(character, style) for character in segment.text]
        else:
            for character in segment.text:
                width = get_character_cell_size(character)
                if width == 0 and cells:
                    cells[-1] = (cells[-1][0] + character, cells[-1][1])
                else:
                    cells += [(character, style), *[("", style)] * (width - 1)]
    return cells


def _changed_spans(cells: Sequence[_CellOfLine], before: Sequence[_CellOfLine]) -> Iterator[tuple[int, int]]:
    """Yield the spans of changed cells; one never begins inside a wide character."""
    start = end = -1
    for place, (cell, old) in enumerate(zip_longest(cells, before[: len(cells)])):
        if cell == old:
            continue
        if start >= 0 and place - end > _LONGEST_GAP:
            yield start, end
            start = -1
        if start < 0:
            start = place
            while start > 0 and not cells[start][0]:
                start -= 1
        end = place + 1
    if start >= 0:
        while end < len(cells) and not cells[end][0]:
            end += 1
        yield start, end
