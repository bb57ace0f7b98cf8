"""Draw the charts of an audit as SVG: line charts and bar charts. Heat maps are in harness.figures.heat_maps."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import MaxNLocator, StrMethodFormatter
from numpy.typing import NDArray

from harness.core.arrays import Floats
from harness.core.findings import BarChart, Chart, HeatMap, LineChart, Series
from harness.figures.heat_maps import draw_heat_map
from harness.figures.palette import COLOURS, REFERENCE, line_style, numbered
from harness.figures.sheet import (
    CHARACTER,
    INK,
    NARROW,
    WIDE,
    Drawing,
    PositionLocator,
    draw_placeholder,
    drawable_text,
    format_log_ticks,
    label_axis,
    label_depth,
    sheet,
)

_HEIGHT, _LEGEND_LINE = 3.1, 0.155
_AXIS_LABEL = 70
_NAME = 34
_MAX_LABELS = 24
_MAX_POINTS = 1_000
_REFERENCES = ((0, (5, 2.5)), (0, (1.2, 1.8)), (0, (6, 2, 1.2, 2)), (0, (2.5, 1.5)))
_MARGIN = 0.75  # inches beside the axes, for their label and tick labels


def draw_charts(charts: Sequence[Chart]) -> list[Drawing]:
    """Draw the charts of one page as SVG, without their titles. A name has the same colour in all of them.

    Equal charts give equal text.
    """
    styles = numbered(name for chart in charts for name in _styled_names(chart))
    return [_draw_chart(chart, styles) for chart in charts]


def _styled_names(chart: Chart) -> Iterator[str]:
    match chart:
        case LineChart():
            yield from (line.key or line.name for line in chart.series if not line.is_dashed)
        case BarChart():
            yield from (group for group in chart.groups if group not in chart.controls)


def _draw_chart(chart: Chart, styles: Mapping[str, int]) -> Drawing:
    match chart:
        case HeatMap():
            return draw_heat_map(chart)
        case BarChart():
            return _draw_bars(chart, styles)
        case LineChart():
            return _draw_lines(chart, styles)


def _draw_lines(chart: LineChart, styles: Mapping[str, int]) -> Drawing:
    names = [line.name for line in chart.series]
    reserved = _legend_height(names, NARROW)
    with sheet(NARROW, _HEIGHT + reserved, reserved=reserved) as (axes, svg):
        lines = [_plottable_series(line, chart) for line in chart.series]
        if not any(np.isfinite(line.y).any() for line in lines):
            draw_placeholder(axes)
        else:
            axes.grid(True)
            for line, style in zip(lines, _styles_of_series(chart, styles), strict=True):
                axes.plot(line.x, line.y, **style)
                if line.low is not None and line.high is not None:
                    axes.fill_between(line.x, line.low, line.high, color=style["color"], alpha=0.16, linewidth=0)
            x = [line.x for line in lines]
            _scale(axes.xaxis, x, is_logarithmic=chart.is_x_logarithmic, may_be_positions=True)
            # Lines show changes, so the axis need not start at zero.
            heights = [bound for line in lines for bound in (line.y, line.low, line.high) if bound is not None]
            _scale(axes.yaxis, heights, is_logarithmic=chart.is_y_logarithmic)
            if not chart.is_y_logarithmic:
                _fit_height(axes, heights, is_from_zero=False)
            axes.set_xlabel(drawable_text(chart.x_label, _AXIS_LABEL))
            axes.set_ylabel(drawable_text(chart.y_label, _AXIS_LABEL))
            _draw_legend(axes, names, NARROW)
    return Drawing(svg.getvalue(), is_wide=False)


def _draw_bars(chart: BarChart, styles: Mapping[str, int]) -> Drawing:
    values = np.asarray(chart.values, np.float64).reshape(len(chart.groups), len(chart.labels))
    is_wide = len(chart.labels) > 16 or values.size > 36
    width = WIDE if is_wide else NARROW
    inches, longest = width - _MARGIN, 30
    names_below = label_depth(chart.labels, inches=inches, max_length=longest)
    reserved = _legend_height(chart.groups, width)
    height = _HEIGHT - 0.4 + names_below + reserved
    with sheet(width, height, reserved=reserved) as (axes, svg):
        if not np.isfinite(values).any():
            draw_placeholder(axes)
        else:
            axes.grid(True, axis="y")
            _draw_groups(axes, chart, values, styles)
            heights = [values, *(np.asarray(bound) for bound in (chart.low, chart.high) if bound is not None)]
            if chart.reference is not None and math.isfinite(chart.reference):
                axes.axhline(chart.reference, color=REFERENCE, linewidth=0.9, linestyle=_REFERENCES[0])
                heights.append(np.array([chart.reference]))
            label_axis(axes.xaxis, chart.labels, inches=inches, max_length=longest)
            axes.set_xlim(-0.6, len(chart.labels) - 0.4)
            _fit_height(axes, heights, is_from_zero=True)
            axes.set_ylabel(drawable_text(chart.y_label, _AXIS_LABEL))
            _draw_legend(axes, chart.groups, width)
    return Drawing(svg.getvalue(), is_wide)


def _draw_groups(axes: Axes, chart: BarChart, values: Floats, styles: Mapping[str, int]) -> None:
    """Draw the bars of each label side by side, with their intervals. values: [groups, labels]."""
    groups, labels = values.shape
    width = 0.78 / groups
    for number, group in enumerate(chart.groups):
        places = np.arange(labels) + (number - (groups - 1) / 2) * width
        heights = values[number]
        axes.bar(
            places,
            np.nan_to_num(heights),
            width * 0.94,
            color=REFERENCE if group in chart.controls else line_style(styles[group])["color"],
            alpha=0.82,
            label=drawable_text(group, _NAME),
        )
        if chart.low is None or chart.high is None:
            continue
        bounds = np.stack([heights - np.asarray(chart.low)[number], np.asarray(chart.high)[number] - heights])
        is_finite = np.isfinite(bounds).all(axis=0) & np.isfinite(heights)
        axes.errorbar(
            places[is_finite],
            heights[is_finite],
            yerr=np.maximum(bounds[:, is_finite], 0.0),
            fmt="none",
            ecolor=INK,
            elinewidth=0.8,
            capsize=min(2.5, 60 * width / labels),
            capthick=0.8,
        )


def _plottable_series(line: Series, chart: LineChart) -> Series:
    """Return a series with no more points than can be distinguished. Values that an axis cannot show become gaps."""
    x, y = _plottable(line.x, chart.is_x_logarithmic), _plottable(line.y, chart.is_y_logarithmic)
    low, high = (None if bound is None else _plottable(bound, False) for bound in (line.low, line.high))
    if chart.is_y_logarithmic and low is not None:
        # A bound at zero has no place on a logarithmic axis, so it is drawn below the smallest value.
        low = np.where(low > 0, low, np.nanmin(y) / 10 if np.isfinite(y).any() else np.nan)
    kept = _sampled_points(len(y), is_logarithmic=chart.is_x_logarithmic)
    low, high = (None if bound is None else bound[kept] for bound in (low, high))
    return line._replace(x=x[kept], y=y[kept], low=low, high=high)


def _plottable(values: NDArray[Any], is_logarithmic: bool) -> Floats:
    numbers = np.asarray(values, np.float64)
    return np.where(np.isfinite(numbers) & ((numbers > 0) | (not is_logarithmic)), numbers, np.nan)


def _sampled_points(points: int, *, is_logarithmic: bool) -> NDArray[np.int64]:
    """Return the indices of the points to draw: all, or evenly spaced ones, denser at the start of a log axis."""
    if points <= _MAX_POINTS:
        return np.arange(points)
    spaced = np.geomspace(1, points, _MAX_POINTS) - 1 if is_logarithmic else np.linspace(0, points - 1, _MAX_POINTS)
    return np.unique(spaced.astype(np.int64))


def _styles_of_series(chart: LineChart, styles: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the style of each series: a colour, dashes once all colours are used, and grey dashes for references."""
    references = cycle(_REFERENCES)
    of_series = []
    for series in chart.series:
        label = drawable_text(series.name, _NAME)
        if series.is_dashed:
            of_series.append({"color": REFERENCE, "linestyle": next(references), "linewidth": 1.1, "label": label})
            continue
        number = styles[series.key or series.name]
        style = line_style(number)
        line = {"color": style["color"], "label": label, "solid_capstyle": "round"}
        line["linestyle"] = "solid" if number < len(COLOURS) else style["linestyle"]
        if chart.has_markers:
            line |= {"marker": style["marker"], "markersize": 3.5, "markeredgewidth": 0}
        of_series.append(line)
    return of_series


def _scale(axis: Axis, values: Sequence[Floats], *, is_logarithmic: bool, may_be_positions: bool = False) -> None:
    """Set the scale and the ticks. An axis of whole numbers from 1 on, if it may show positions, starts at 1."""
    finite = np.concatenate([numbers[np.isfinite(numbers)] for numbers in values])
    if is_logarithmic:
        finite = finite[finite > 0]
        if len(finite):
            axis._set_axes_scale("log")  # type: ignore[attr-defined]
            format_log_ticks(axis, float(finite.min()), float(finite.max()))
        return
    largest = float(np.abs(finite).max(initial=0.0))
    if len(finite) and (finite == np.round(finite)).all():
        if may_be_positions and finite.min() == 1 < largest:
            axis.set_major_locator(PositionLocator())
            axis.set_view_interval(1 - 0.02 * (largest - 1), 1 + 1.02 * (largest - 1), ignore=True)
        else:
            axis.set_major_locator(MaxNLocator(integer=True))
    if 1_000 <= largest < 1e7:
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _fit_height(axes: Axes, values: Sequence[Floats], *, is_from_zero: bool) -> None:
    """Set the limits of the y axis: from zero if that is near or required, and at most 1 for shares."""
    finite = np.concatenate([np.ravel(numbers)[np.isfinite(np.ravel(numbers))] for numbers in values])
    low, high = float(finite.min()), float(finite.max())
    if low < 0:
        return
    room = 0.06 * (high if is_from_zero or low < 0.5 * high else high - low)
    top = high + (room or 0.06 * max(high, 0.5))
    bottom = 0.0 if is_from_zero or low < 0.5 * high else max(0.0, low - (room or 0.06 * high))
    axes.set_ylim(bottom, min(top, 1.02) if high <= 1 else top)


def _draw_legend(axes: Axes, names: Sequence[str], width: float) -> None:
    """Draw a legend above the axes, in as many columns as fit."""
    if len(names) < 2:
        return
    handles, labels = axes.get_legend_handles_labels()
    axes.figure.legend(
        handles[:_MAX_LABELS],
        labels[:_MAX_LABELS],
        loc="upper left",
        bbox_to_anchor=(0, 1),
        ncols=_columns(names, width),
        borderaxespad=0.2,
        borderpad=0.1,
        handlelength=1.8,
        columnspacing=1.2,
        title=f"the first {_MAX_LABELS} of {len(names):,}:" if len(names) > _MAX_LABELS else None,
        alignment="left",
    )


def _columns(names: Sequence[str], width: float) -> int:
    longest = min(_NAME, max(map(len, names)))
    return max(1, min(len(names), int(width / (CHARACTER * (longest + 7)))))


def _legend_height(names: Sequence[str], width: float) -> float:
    if len(names) < 2:
        return 0.0
    count = min(len(names), _MAX_LABELS)
    return 0.04 + _LEGEND_LINE * (math.ceil(count / _columns(names, width)) + (len(names) > _MAX_LABELS))
