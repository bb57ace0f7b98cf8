"""A widget that draws a heat map."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from harness.core.arrays import Floats, Ints
from harness.core.text import format_bound, pluralize, sanitize, shorten_middle

_SHADES = "·░▒▓█"
_LABEL_SHARE, _MAX_LABEL = 4, 28
_MAX_LINES = 8
"""Lines of one row, in a panel that fills the screen."""
_FEW_ROWS, _LINES = 3, 3


class HeatMapView(Widget, can_focus=True):
    """Draws a heat map that has bounds. The cells are denser the larger their values are."""

    DEFAULT_CSS = "HeatMapView { height: 1fr; width: 1fr; padding: 0 1; }"

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._labels: list[str] = []
        self._bands = np.empty((0, 0), np.int64)
        self._bounds: list[float] = []

    @property
    def rows(self) -> int:
        """The number of rows of the map."""
        return len(self._labels)

    def show(self, chart: Mapping[str, Any]) -> None:
        """Draw a heat map as `harness show --json` prints it."""
        self._labels = [sanitize(label) for label in chart["rows"]]
        self._bounds = list(chart["bounds"])
        values = np.array(
            [[np.nan if value is None else value for value in row] for row in chart["values"]], np.float64
        )
        self._bands = bands_of(values, self._bounds)
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the preferred height: several lines for each of a few rows, and the legend."""
        return self.rows * (_LINES if self.rows <= _FEW_ROWS else 1) + 1

    def render(self) -> Content:
        """Return the rows and the legend."""
        width, height = self.content_size
        if not self._labels or width < 12 or height < 2:
            return Content("")
        row_count = min(self.rows, max(1, height - 1))
        room = min(_MAX_LABEL, width // _LABEL_SHARE, max(map(len, self._labels)))
        lines_of_row = max(1, min(_MAX_LINES, (height - 1) // row_count))
        cells = max(1, width - room - 1)
        lines: list[Content] = []
        for label, bands in zip(self._labels[:row_count], self._bands[:row_count], strict=True):
            drawn = resample(bands, cells * lines_of_row)
            for line in range(lines_of_row):
                name = shorten_middle(label, room) if line == 0 else ""
                lines.append(
                    Content.assemble((name.ljust(room + 1), ""), *shade(drawn[line * cells : (line + 1) * cells]))
                )
        further = f"  … {pluralize(self.rows - row_count, 'more row')}" if row_count < self.rows else ""
        lines.append(Content.styled(f"{' ' * (room + 1)}{legend(self._bounds)}{further}"[:width], "$foreground 70%"))
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
    cells = [" " if band < 0 else _SHADES[min(band, len(_SHADES) - 1)] for band in bands.tolist()]
    styles = {" ": "", _SHADES[0]: "$foreground 30%"}
    runs = groupby(cells, key=lambda cell: styles.get(cell, "$text-primary"))
    return [("".join(run), style) for style, run in runs]


def legend(bounds: Sequence[float]) -> str:
    """Return the meaning of each shade."""
    names = [f"{shade} ≥ {format_bound(bound)}" for shade, bound in zip(_SHADES[1:], bounds, strict=False)]
    return "  ".join([f"{_SHADES[0]} below", *names])
