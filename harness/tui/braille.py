"""A grid of character cells with braille dots. Curves that cross one cell merge their dots, so none erases another.

Positions are fractions of the grid: x from the left, y from the bottom, both in [0, 1].
"""

from typing import NamedTuple

import numpy as np

from harness.core.arrays import Bools, Floats, Ints

DOT_ROWS, DOT_COLUMNS = 4, 2
_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.int64)
_BLANK = 0x2800
_NO_CURVE = -1
BACKGROUND = -2
"""The colour of a character that covers the lower part of a band's cell."""
TINT = 10_000
"""Added to the number of a curve, it is the colour of its band."""
_EIGHTHS = " ▁▂▃▄▅▆▇█"


class Cell(NamedTuple):
    """One cell: its character, the number of its colour, and of the curve whose band is behind it (-1 for none)."""

    character: str
    curve: int
    band: int


class BrailleGrid:
    """Cells that curves, bands, vertical lines and text are drawn on. A later drawing colours the cells it shares."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self._dots: Bools = np.zeros((rows * DOT_ROWS, columns * DOT_COLUMNS), np.bool_)
        self._curve: Ints = np.full((rows, columns), _NO_CURVE, np.int64)
        self._band: Ints = np.full((rows, columns), _NO_CURVE, np.int64)
        self._edges: dict[tuple[int, int], tuple[str, int, int]] = {}
        """The character, colour and band of cells that a band fills in part."""
        self._text: dict[tuple[int, int], tuple[str, int]] = {}

    def draw_curve(self, x: Floats, y: Floats, curve: int) -> None:
        """Draw y [points] over ascending x [points]; each y holds until the next x."""
        columns, heights = self._sample(x, y)
        dots = self._dot_rows(heights)
        # Each column of dots reaches to the height of the column before, so that a jump is a vertical line.
        before = np.concatenate([dots[:1], dots[:-1]])
        for column, top, bottom in zip(columns, np.minimum(dots, before), np.maximum(dots, before), strict=True):
            self._dots[top : bottom + 1, column] = True
            self._curve[top // DOT_ROWS : bottom // DOT_ROWS + 1, column // DOT_COLUMNS] = curve

    def draw_band(self, x: Floats, low: Floats, high: Floats, curve: int) -> None:
        """Fill the cells between the curves `low` and `high` [points]; where no curve is, its edges are in eighths."""
        columns, lows = self._sample(x, low)
        _, highs = self._sample(x, high)
        for column, bottom, top in zip((columns // DOT_COLUMNS).tolist(), lows.tolist(), highs.tolist(), strict=True):
            first, last = (min(8 * self.rows, max(0, round(8 * self.rows * height))) for height in (bottom, top))
            last = max(last, first + 1)
            rows = slice(self.rows - 1 - (last - 1) // 8, self.rows - first // 8)
            self._band[rows, column] = curve
            # The upper edge fills the lower part of its cell; at the lower edge the background covers that part.
            self._edges[rows.start, column] = _EIGHTHS[last % 8], TINT + curve, _NO_CURVE if last % 8 else curve
            if first % 8 and rows.stop - 1 > rows.start:
                self._edges[rows.stop - 1, column] = _EIGHTHS[first % 8], BACKGROUND, curve

    def draw_vertical(self, x: float, curve: int) -> None:
        """Draw a dotted vertical line; cells of other curves keep their colour."""
        column = self._dot_column(x)
        self._dots[::2, column] = True
        cells = self._curve[:, column // DOT_COLUMNS]
        cells[cells == _NO_CURVE] = curve

    def draw_bar(self, left: float, right: float, height: float, curve: int) -> None:
        """Fill a rectangle from the bottom up to `height`, with a gap of one column of dots at its right."""
        first, last = self._dot_column(left), max(self._dot_column(left), self._dot_column(right) - 1)
        if height > 0:
            top = int(self._dot_rows(np.array([height]))[0])
            self._dots[top:, first:last] = True
            self._curve[top // DOT_ROWS :, first // DOT_COLUMNS : max(first + 1, last - 1) // DOT_COLUMNS + 1] = curve

    def put(self, x: float, y: float, character: str, curve: int) -> None:
        """Put one character, such as a marker, into the cell at a position."""
        row = int(self._dot_rows(np.array([y]))[0]) // DOT_ROWS
        self._text[row, self._dot_column(x) // DOT_COLUMNS] = character, curve

    def write_next_to(self, x: float, text: str, curve: int) -> None:
        """Write `text` next to a vertical line at `x`, in the highest row where no curve is in the way."""
        column = self._dot_column(x) // DOT_COLUMNS
        starts = [start for start in (column + 1, column - len(text)) if 0 <= start <= self.columns - len(text)]
        has_dots: Bools = np.any(self._dots.reshape(self.rows, DOT_ROWS, self.columns, DOT_COLUMNS), axis=(1, 3))
        for row in range(self.rows):
            for start in starts:
                if not has_dots[row, start : start + len(text)].any():
                    self._text |= {(row, column): (cell, curve) for column, cell in enumerate(text, start)}
                    return

    def cells(self) -> list[list[Cell]]:
        """Return the cells, row by row from the top."""
        shape = (self.rows, DOT_ROWS, self.columns, DOT_COLUMNS)
        codes = np.einsum("rdce,de->rc", self._dots.reshape(shape).astype(np.int64), _BITS)
        cells = [
            [Cell(chr(_BLANK + code) if code else " ", curve, band) for code, curve, band in zip(*row, strict=True)]
            for row in zip(codes.tolist(), self._curve.tolist(), self._band.tolist(), strict=True)
        ]
        for (row, column), edge in self._edges.items():
            if not codes[row, column]:
                cells[row][column] = Cell(*edge)
        for (row, column), (character, curve) in self._text.items():
            cells[row][column] = Cell(character, curve, cells[row][column].band)
        return cells

    def row_of(self, y: float) -> int:
        """Return the row of cells at a height."""
        return int(self._dot_rows(np.array([y]))[0]) // DOT_ROWS

    def _dot_column(self, x: float) -> int:
        width = self.columns * DOT_COLUMNS
        return min(width - 1, max(0, round(x * (width - 1))))

    def _dot_rows(self, y: Floats) -> Ints:
        height = self.rows * DOT_ROWS
        return np.asarray(np.clip(np.rint((1 - y) * (height - 1)), 0, height - 1), np.int64)

    def _sample(self, x: Floats, y: Floats) -> tuple[Ints, Floats]:
        """Return the columns of dots that the curve covers, and its height in each."""
        if not len(x):
            return np.zeros(0, np.int64), np.zeros(0)
        columns = np.arange(self._dot_column(float(x[0])), self._dot_column(float(x[-1])) + 1)
        # Half a dot further right, so that a step at the middle of a column is part of it.
        positions = (columns + 0.5) / max(1, self.columns * DOT_COLUMNS - 1)
        return columns, y[np.maximum(0, np.searchsorted(x, positions, side="right") - 1)]
