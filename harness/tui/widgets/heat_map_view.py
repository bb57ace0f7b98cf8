"""A widget that draws a heat map."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from harness.core.arrays import Floats, Ints
from harness.core.text import format_bound, pluralize, sanitize, shorten_middle

_SHADES = "·░▒▓█"
_LABEL_SHARE, _MAX_LABEL = 3, 40
_MAX_LINES = 8
"""Lines of one row, in a panel that fills the screen."""
_FEW_ROWS, _LINES = 3, 3
_CHOSEN = -2
"""Stands for the band of the chosen cell."""


Place = tuple[str, float]
"""The label of a row, and a point in it from 0 to 1."""


class HeatMapView(Widget, can_focus=True):
    """Draws a heat map that has bounds. The cells are denser the larger their values are.

    A click or a key chooses one of the places that have a passage.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", "Last passage", tooltip="Show the passage before on the map"),
        Binding("right", "move(1)", "Next passage", tooltip="Show the next passage on the map"),
    ]
    DEFAULT_CSS = "HeatMapView { height: 1fr; width: 1fr; padding: 0 1; }"

    @dataclass
    class Chosen(Message):
        """The user has chosen the place of a passage."""

        place: Place

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._places: list[Place] = []
        self._chosen: Place | None = None
        self._labels: list[str] = []
        self._bands = np.empty((0, 0), np.int64)
        self._bounds: list[float] = []

    def show(self, chart: Mapping[str, Any], places: Collection[Place]) -> None:
        """Draw a heat map as `harness show --json` prints it. places: those that have a passage."""
        order = list(chart["rows"])
        self._places = sorted((place for place in places if place[0] in order), key=lambda at: (order.index(at[0]), at))
        self._labels = [sanitize(label) for label in chart["rows"]]
        self._bounds = list(chart["bounds"])
        values = np.array(
            [[np.nan if value is None else value for value in row] for row in chart["values"]], np.float64
        )
        self._bands = bands_of(values, self._bounds)
        self.refresh(layout=True)

    def action_move(self, step: int) -> None:
        if self._places:
            at = self._places.index(self._chosen) + step if self._chosen in self._places else min(0, step)
            self._choose(self._places[at % len(self._places)])

    def on_click(self, event: Click) -> None:
        """Choose the passage of the row that is nearest to the cell under the pointer."""
        at, (room, lines, cells) = event.get_content_offset(self), self._layout()
        row, line = divmod(0 if at is None else at.y, lines)
        if at is None or row >= len(self._labels):
            return
        point = (line * cells + at.x - room) / (lines * cells)
        if nearest := [place for place in self._places if sanitize(place[0]) == self._labels[row]]:
            self._choose(min(nearest, key=lambda place: abs(place[1] - point)))

    def _choose(self, place: Place) -> None:
        self._chosen = place
        self.post_message(self.Chosen(place))
        self.refresh()

    def _layout(self) -> tuple[int, int, int]:
        """Return the width of the labels, the lines of a row and the cells of a line."""
        width, height = self.content_size
        room = 1 + min(_MAX_LABEL, width // _LABEL_SHARE, max(map(len, self._labels), default=0))
        lines = (height - 1) // max(1, min(len(self._labels), height - 1))
        return room, max(1, min(_MAX_LINES, lines)), max(1, width - room)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the preferred height: several lines for each of a few rows, and the legend."""
        return len(self._labels) * (_LINES if len(self._labels) <= _FEW_ROWS else 1) + 1

    def render(self) -> Content:
        """Return the rows and the legend."""
        width, height = self.content_size
        if not self._labels or width < 12 or height < 2:
            return Content("")
        row_count = min(len(self._labels), max(1, height - 1))
        room, lines_of_row, cells = self._layout()
        chosen, point = self._chosen or ("", 0.0)
        lines: list[Content] = []
        for label, bands in zip(self._labels[:row_count], self._bands[:row_count], strict=True):
            drawn = resample(bands, cells * lines_of_row)
            if label == sanitize(chosen):
                drawn[int(point * len(drawn))] = _CHOSEN
            for line in range(lines_of_row):
                name = shorten_middle(label, room - 1) if line == 0 else ""
                lines.append(Content.assemble((name.ljust(room), ""), *shade(drawn[line * cells : (line + 1) * cells])))
        further = f"  … {pluralize(len(self._labels) - row_count, 'more row')}" if row_count < len(self._labels) else ""
        lines.append(Content.styled(f"{' ' * room}{legend(self._bounds)}{further}"[:width], "$foreground 70%"))
        return Content("\n").join(lines)


def bands_of(values: Floats, bounds: Sequence[float]) -> Ints:
    """Return how many of `bounds` each value reaches, -1 for NaN, in the shape of `values`."""
    return np.where(np.isnan(values), -1, np.digitize(values, bounds)).astype(np.int64)


def resample(bands: Ints, cells: int) -> Ints:
    """Return `cells` bands: the largest of those that fall into each cell."""
    if cells >= len(bands):
        return bands[np.arange(cells) * len(bands) // cells]
    return np.asarray(np.maximum.reduceat(bands, np.arange(cells) * len(bands) // cells))


def shade(bands: Ints) -> list[tuple[str, str]]:
    """Return the cells as texts with their styles. Any number of bands has five shades."""
    marks = {-1: " ", _CHOSEN: "◆"}
    cells = [marks.get(band) or _SHADES[min(band, len(_SHADES) - 1)] for band in bands.tolist()]
    styles = {" ": "", _SHADES[0]: "$foreground 30%", "◆": "bold $text-warning"}
    runs = groupby(cells, key=lambda cell: styles.get(cell, "$text-primary"))
    return [("".join(run), style) for style, run in runs]


def legend(bounds: Sequence[float]) -> str:
    """Return the meaning of each shade."""
    names = [f"{shade} ≥ {format_bound(bound)}" for shade, bound in zip(_SHADES[1:], bounds, strict=False)]
    return "  ".join([f"{_SHADES[0]} below", *names, "blank: not measured"])
