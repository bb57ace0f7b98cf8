"""A plot of lines drawn in text cells.

In pictures of the same curves at three sizes, textual-plot 0.10 is worse: a curve erases the cells of those before it,
the line of the cap erases all of them, the legend covers curves, and bands are missing, so that the interval, the
baseline and the cap cannot be read together. It also draws for 50 to 80 ms, and this for 10 to 30.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from harness.core.arrays import Floats
from harness.core.text import sanitize, shorten
from harness.tui.axes import Axis
from harness.tui.braille import BrailleGrid, Cell

# The palette of Okabe and Ito (2008), which remains distinct for colour-blind readers, lightened and darkened.
_ON_DARK = ("#56b4e9", "#e69f00", "#00b184", "#e08fc0", "#f0e442", "#ff7f50")
_ON_LIGHT = ("#005a8f", "#a04000", "#00633f", "#8a3a73", "#5f5200", "#4d4d4d")
_MARKERS = "●■▲◆▼★"
_MARKER_COUNT = 7
DIM = 1000
"""The number of everything that is not a curve with a colour: axes, labels, dim curves."""
_MAX_LABEL = 40
_END_LABEL_WIDTH = 70
_MIN_WIDTHS_PER_LABEL = 3
"""A plot that is not as many times as wide as the longest label has a legend, so that labels do not take the room."""
_TITLE_HEIGHT = 6
_LABELLED_ROWS = 8
"""The rows from which on a plot has at least four labels of y."""


@dataclass(frozen=True, eq=False)
class Line:
    """One curve, a step function: each y holds until the next x.

    x: [points] ascending.
    y: [points].
    low, high: [points], the bounds of a band around it.
    number: of its colour and marker, None for a dim curve.
    is_marked: draw markers, so that curves are distinct without colours.
    label: shown at its end, or above the plot.
    """

    x: Floats
    y: Floats
    number: int | None = 0
    label: str = ""
    low: Floats | None = None
    high: Floats | None = None
    is_marked: bool = False


@dataclass(frozen=True, eq=False)
class Plot:
    """The content of a plot. bars: [bins] heights of a histogram over the x axis. mark: a labelled position on it."""

    x: Axis
    y: Axis
    lines: Sequence[Line] = ()
    bars: Floats = field(default_factory=lambda: np.zeros(0))
    mark: tuple[float, str] | None = None


def draw_plot(plot: Plot, width: int, height: int) -> list[list[Cell]]:
    """Return the plot as `height` rows of `width` cells: the title of y, the curves, the axis with its ticks."""
    lines = [_place(line, plot) for line in plot.lines]
    labelled = [line for line in lines if line.label and len(line.x)]
    right = 1 + max((len(line.label) for line in labelled), default=0)
    has_end_labels = len(labelled) > 1 and width >= max(_END_LABEL_WIDTH, _MIN_WIDTHS_PER_LABEL * right)
    legend = [] if has_end_labels or len(labelled) < 2 else labelled
    drawn = _title_rows(plot.y.title, legend, width)[: height // 4 if height >= _TITLE_HEIGHT else 0]
    rows = height - 2 - len(drawn)
    y_ticks = plot.y.ticks(max(7 if rows >= _LABELLED_ROWS else 2, (rows + 1) // 2))
    left = 2 + max(len(tick.label) for tick in y_ticks)
    grid = BrailleGrid(rows, max(4, width - left - (right if has_end_labels else 1)))
    _draw_curves(grid, plot, lines)
    rows_of_ticks = {min(rows - 1, grid.row_of(tick.at)): tick.label for tick in reversed(y_ticks)}
    margin = _end_labels(grid, labelled) if has_end_labels else {}
    for row, area in enumerate(grid.cells()):
        label = rows_of_ticks.get(row)
        axis = _text(f"{label or '':>{left - 1}}{'┤' if label is not None else '│'}", DIM)
        drawn.append([*axis, *area, *margin.get(row, [])])
    # Long labels leave a narrow plot less than its few columns.
    blank = _text(" " * width, DIM)
    return [[*row, *blank][:width] for row in (*drawn, *_x_axis(plot, left, grid.columns, width))]


def marker(number: int) -> str:
    """Return the marker of the curve with this number."""
    return _MARKERS[number % len(_MARKERS)]


def curve_colour(number: int, *, is_dark: bool) -> str:
    """Return the colour of the curve with this number, for tables that name the curves."""
    colours = _ON_DARK if is_dark else _ON_LIGHT
    return colours[number % len(colours)]


def _place(line: Line, plot: Plot) -> Line:
    """Return a line as it is drawn: finite points as fractions, a number, and the label with its marker."""
    is_finite = np.isfinite(line.x) & np.isfinite(line.y)
    x, y = plot.x.fractions(line.x[is_finite]), plot.y.fractions(line.y[is_finite])
    label = shorten(sanitize(line.label), _MAX_LABEL)
    low, high = (
        None if bound is None else plot.y.fractions(np.nan_to_num(bound[is_finite])) for bound in (line.low, line.high)
    )
    number = DIM if line.number is None else line.number
    if label and line.is_marked:
        label = f"{marker(number)} {label}"
    return replace(line, x=x, y=y, number=number, label=label, low=low, high=high)


def _draw_curves(grid: BrailleGrid, plot: Plot, lines: Sequence[Line]) -> None:
    for number, height in enumerate(plot.y.fractions(plot.bars).tolist()):
        grid.draw_bar(number / len(plot.bars), (number + 1) / len(plot.bars), height, 0)
    mark = None if plot.mark is None else float(plot.x.fractions(np.array(plot.mark[0])))
    if mark is not None and 0 <= mark <= 1:
        grid.draw_vertical(mark, DIM)
    for line in lines:
        if line.low is not None and line.high is not None:
            grid.draw_band(line.x, line.low, line.high, line.number or 0)
    for line in lines:
        grid.draw_curve(line.x, line.y, line.number or 0)
    for index, line in enumerate(lines):
        if line.is_marked or len(line.x) == 1:
            _draw_markers(grid, line, shift=index / len(lines))
    if mark is not None and plot.mark is not None:
        grid.write_next_to(mark, plot.mark[1], DIM)


def _draw_markers(grid: BrailleGrid, line: Line, *, shift: float) -> None:
    """Draw evenly spaced markers; `shift`, a fraction of their distance, keeps those of several curves apart."""
    places = (np.arange(_MARKER_COUNT) + shift) / _MARKER_COUNT
    places = places[(places >= line.x[:1].min(initial=np.inf)) & (places <= line.x[-1:].max(initial=-np.inf))]
    if not len(places):
        places = line.x[-1:]
    heights = line.y[np.searchsorted(line.x, places, side="right") - 1]
    symbol = marker(line.number or 0) if line.is_marked else "•"
    for place, height in zip(places.tolist(), heights.tolist(), strict=True):
        grid.put(place, height, symbol, line.number or 0)


def _end_labels(grid: BrailleGrid, lines: Sequence[Line]) -> dict[int, list[Cell]]:
    """Return the label of each curve in the row where it ends, or in the nearest free one."""
    labels: dict[int, list[Cell]] = {}
    for line in lines:
        end = grid.row_of(float(line.y[-1]))
        free = [row for row in range(grid.rows) if row not in labels]
        if free:
            row = min(free, key=lambda row: (abs(row - end), row))
            labels[row] = _text(f" {line.label}", line.number or 0)
    return labels


def _title_rows(title: str, legend: Sequence[Line], width: int) -> list[list[Cell]]:
    """Return the title of y and the legend, in as many rows as it needs."""
    rows = [_text(f" {title}", DIM)]
    for line in legend:
        symbol, _, name = line.label.partition(" ") if line.is_marked else ("━", "", line.label)
        entry = [*_text(f"   {symbol} ", line.number or 0), *_text(name, DIM)]
        if len(rows[-1]) + len(entry) > width:
            rows.append([])
        rows[-1] += entry
    return rows


def _x_axis(plot: Plot, left: int, columns: int, width: int) -> list[list[Cell]]:
    """Return the line of the axis, and its labels with the title in the last gap that is wide enough.

    The mark has its label first, then the ticks from the left that do not touch another label.
    """
    line, labels, title = ["─"] * columns, " " * width, plot.x.title
    marks = [] if plot.mark is None else plot.x.labelled([plot.mark[0]])
    for at, label in (*marks, *plot.x.ticks(max(2, columns // 12))):
        column = min(columns - 1, round(at * (columns - 1)))
        start = min(max(0, left + column - len(label) // 2), width - len(label))
        if 0 <= at <= 1 and not labels[max(0, start - 1) : start + len(label) + 1].strip():
            line[column] = "┴"
            labels = labels[:start] + label + labels[start + len(label) :]
    # Two spaces, so that the title and a label are not read as one.
    if (place := 2 + labels.rfind(" " * (len(title) + 4))) > 1:
        labels = labels[:place] + title + labels[place + len(title) :]
    return [_text(" " * (left - 1) + "└" + "".join(line), DIM), _text(labels, DIM)]


def _text(text: str, curve: int) -> list[Cell]:
    return [Cell(character, curve, -1) for character in text]
