"""Draw heat maps as SVG. A cell has a colour, and a word if there is room; a large map is an image inside the SVG."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, Colormap, LinearSegmentedColormap, Normalize, to_rgb
from matplotlib.ticker import MaxNLocator

from harness.core.arrays import Floats
from harness.core.findings import HeatMap
from harness.core.text import format_bound
from harness.figures.palette import RISING
from harness.figures.sheet import (
    CHARACTER,
    INK,
    NARROW,
    WIDE,
    Drawing,
    draw_placeholder,
    drawable_text,
    label_axis,
    label_depth,
    sheet,
)

_RISING = LinearSegmentedColormap.from_list("rising", RISING)
_DIVERGING = LinearSegmentedColormap.from_list(
    "diverging", ["#6b4300", "#d18f1f", "#f6eddb", "#f7f7f7", "#e8f0f6", "#4f9bcb", "#0b4f86"]
)
_MAX_VECTORS = 2_500  # with more cells, an image is smaller than their outlines
_ROW_LABEL, _COLUMN_LABEL, _WORD = 36, 24, 14
_FONT, _MIN_FONT = 6.5, 4.0
_COLOUR_BAR = 0.75  # inches
_MAX_ROW_LABELS = 50
_MAX_COLUMN_LABELS, _FEW_COLUMNS_NAMED = 60, 10


def draw_heat_map(chart: HeatMap) -> Drawing:
    """Draw a heat map as SVG, with the first row at the top."""
    values = np.asarray(chart.values, np.float64).reshape(len(chart.row_labels), len(chart.column_labels))
    rows, columns = values.shape
    margin = _COLOUR_BAR + CHARACTER * min(_ROW_LABEL, max(map(len, chart.row_labels), default=0)) + 0.15
    preferred = columns * _room_for_a_cell(chart)
    is_wide = preferred > NARROW - margin
    width = WIDE if is_wide else NARROW
    # A map with few cells does not fill the page.
    inches = min(width - margin, max(preferred, 1.8)) if is_wide else width - margin
    is_strip = columns > _MAX_COLUMN_LABELS and bool(chart.bounds)
    names_below = 0.2 if is_strip else label_depth(chart.column_labels, inches=inches, max_length=_COLUMN_LABEL)
    cells_high = min(6.5, max(1.2, rows * (0.26 if rows <= 24 else 0.13)))
    height = cells_high + names_below + 0.15
    with sheet(width, height) as (axes, svg):
        if not np.isfinite(values).any():
            draw_placeholder(axes)
        else:
            colours, norm = _colours(values, chart)
            _draw_cells(axes, values, colours, norm, chart.bounds, is_image=is_strip or values.size > _MAX_VECTORS)
            if is_strip:
                step = columns // _FEW_COLUMNS_NAMED
                axes.xaxis.set_ticks(range(0, columns, step), list(chart.column_labels)[::step])
            else:
                label_axis(axes.xaxis, chart.column_labels, inches=inches, max_length=_COLUMN_LABEL)
            _label_rows(axes, chart)
            _write_words(axes, chart, values, colours, norm, room=inches / columns)
    return Drawing(svg.getvalue(), is_wide)


def _room_for_a_cell(chart: HeatMap) -> float:
    """Return the preferred width of a column in inches."""
    if chart.words is None:
        return 0.2 if len(chart.column_labels) <= 40 else 0.1
    longest = max((len(word) for row in chart.words for word in row), default=0)
    return max(0.28, min(longest, _WORD) * CHARACTER * _FONT / 8 + 0.08)


def _colours(values: Floats, chart: HeatMap) -> tuple[Colormap, Normalize]:
    if chart.bounds:
        ends = [min(0.0, chart.bounds[0]), *chart.bounds, max(1.0, chart.bounds[-1])]
        return _RISING, BoundaryNorm(ends, _RISING.N)
    finite = values[np.isfinite(values)]
    low, high = float(finite.min()), float(finite.max())
    if chart.is_diverging:
        bound = max(abs(low), abs(high)) or 1.0
        return _DIVERGING, Normalize(-bound, bound)
    if low >= 0 and low < 0.5 * high:
        low = 0.0
    return _RISING, Normalize(low, high if high > low else low + 1.0)


def _draw_cells(
    axes: Axes, values: Floats, colours: Colormap, norm: Normalize, bounds: Sequence[float], *, is_image: bool
) -> None:
    rows, columns = values.shape
    masked_values = np.ma.masked_invalid(values)
    if is_image:
        cells: ScalarMappable = axes.imshow(
            masked_values, cmap=colours, norm=norm, aspect="auto", interpolation="nearest"
        )
    else:
        cells = axes.pcolormesh(
            np.arange(columns + 1) - 0.5,
            np.arange(rows + 1) - 0.5,
            masked_values,
            cmap=colours,
            norm=norm,
            edgecolors="white",
            linewidth=0.7 if values.size <= 800 else 0.2,
        )
        axes.set_ylim(rows - 0.5, -0.5)
    for side in axes.spines.values():
        side.set_visible(False)
    bar = axes.figure.colorbar(cells, ax=axes, pad=0.015, fraction=0.05, aspect=max(8, min(30, 3 * rows)), shrink=0.95)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=2, labelsize=7)
    if bounds:
        bar.set_ticks(list(bounds), labels=[format_bound(bound) for bound in bounds])
    else:
        bar.locator = MaxNLocator(5)
        bar.update_ticks()


def _label_rows(axes: Axes, chart: HeatMap) -> None:
    step = math.ceil(len(chart.row_labels) / _MAX_ROW_LABELS)
    names = [drawable_text(label, _ROW_LABEL) for label in chart.row_labels]
    axes.yaxis.set_ticks(range(0, len(names), step), names[::step], fontsize=8 if len(names) <= 24 else 7)
    axes.yaxis.set_tick_params(length=0)


def _write_words(
    axes: Axes, chart: HeatMap, values: Floats, colours: Colormap, norm: Normalize, *, room: float
) -> None:
    """Write words into cells `room` inches wide, in a font that fits the longest, unless it would be too small."""
    if chart.words is None:
        return
    longest = max((min(_WORD, len(word)) for row in chart.words for word in row), default=0)
    font = min(_FONT, 8 * (room - 0.04) / (CHARACTER * max(1, longest)))
    if font < _MIN_FONT or values.size > _MAX_VECTORS:
        return
    for row, words in enumerate(chart.words):
        for column, word in enumerate(words):
            value = values[row, column]
            ink = INK if not math.isfinite(value) or _is_light(colours(norm(value))) else "white"
            axes.text(column, row, drawable_text(word, _WORD), ha="center", va="center", fontsize=font, color=ink)


def _is_light(colour: tuple[float, float, float, float]) -> bool:
    red, green, blue = to_rgb(colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue > 0.55
