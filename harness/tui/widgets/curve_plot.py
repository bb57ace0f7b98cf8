"""Plots of curves; the only module that imports the plotting library."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
from textual.app import ComposeResult
from textual.containers import Grid
from textual.strip import Strip
from textual_hires_canvas import Canvas
from textual_plot import HiResMode, PlotWidget
from textual_plot.axis_formatter import AxisFormatter
from textual_plot.plot_widget import Legend

from harness.core.arrays import Floats
from harness.core.times import format_duration

# The palette of Okabe and Ito (2008), which remains distinct for colour-blind readers, lightened and darkened.
_ON_DARK = ("#56b4e9", "#e69f00", "#00b184", "#e08fc0", "#f0e442", "#ff7f50")
_ON_LIGHT = ("#0072b2", "#d55e00", "#00805d", "#a8508a", "#7a6a00", "#4d4d4d")
_MARKERS = "●■▲◆▼★"
_MARKER_COUNT = 7


class Curve(NamedTuple):
    """One curve, drawn as steps.

    x, y: [points], each y holds from its x on. number: of its colour and marker, None for a dim curve. is_marked: draw
    markers, so that curves are distinct without colours.
    """

    x: Floats
    y: Floats
    number: int | None = 0
    is_marked: bool = False


class ErrorsAxis(AxisFormatter):
    """Ticks at 1, 10, 100 … errors on an axis of log10(1 + errors)."""

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        return [position for power in range(8) if min_ <= (position := float(np.log10(1 + 10**power))) <= max_]

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        return [f"{round(10**tick - 1):,}" for tick in ticks]


class ClockAxis(AxisFormatter):
    """Four evenly spaced ticks as clock times, h:mm:ss."""

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        return [float(tick) for tick in np.linspace(min_, max_, 4)]

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        return [format_duration(tick) for tick in ticks]


class ScoreAxis(AxisFormatter):
    """An axis of 0 .. bins with at most five edges of a histogram as scores, so that scores of any magnitude fit."""

    def __init__(self, edges: Floats) -> None:
        self._edges = edges

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        return [float(edge) for edge in np.unique(np.linspace(0, len(self._edges) - 1, 5).round())]

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        return [f"{self._edges[round(tick)]:.3g}" for tick in ticks]


class _RoundAxis(AxisFormatter):
    """Ticks at multiples of 1, 2 or 5 times a power of ten, at most one for every two rows of the terminal."""

    def __init__(self, rows: Callable[[], int]) -> None:
        self._rows = rows

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        steps = [digit * 10.0**power for power in range(-9, 16) for digit in (1, 2, 5)]
        step = next(step for step in steps if (max_ - min_) / step <= max(1, self._rows() // 2))
        return [step * count for count in range(math.ceil(min_ / step), math.floor(max_ / step) + 1)]

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        return [f"{tick:,.6g}" for tick in ticks]


class _StyledCanvas(Canvas):
    """A canvas that gives every cell a style, which Textual needs when NO_COLOR is set."""

    def render_line(self, y: int) -> Strip:
        """Return the line at `y`."""
        return super().render_line(y).apply_style(self.rich_style)


class CurvePlot(PlotWidget, can_focus=True, inherit_bindings=False):
    """Curves over an x axis that starts at zero, redrawn only if they change."""

    DEFAULT_CSS = """
    CurvePlot {
        & > .plot--axis, &:focus > .plot--axis { color: $foreground 40%; }
        & > .plot--tick { color: $foreground 80%; text-style: not bold; }
    }
    """

    X_AXIS: ClassVar[type[AxisFormatter]] = ClockAxis

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, allow_pan_and_zoom=False)
        self._x_axis = self.X_AXIS()
        # Read when the ticks are drawn, because the size may change.
        self._y_axis = _RoundAxis(lambda: self.size.height - 3)
        self._shown: tuple[object, ...] = ()
        self._redraw: Callable[[], None] | None = None

    def compose(self) -> ComposeResult:
        """Yield the parts of the library's widget, with canvases that work without colours."""
        with Grid():
            for part in ("margin-top", "margin-left", "plot", "margin-bottom"):
                yield _StyledCanvas(1, 1, id=part)
        yield Legend(id="legend")

    def on_mount(self) -> None:
        super().on_mount()
        self.margin_bottom = 1
        self.margin_left = 6
        self.margin_top = 0
        self.set_x_formatter(self._x_axis)
        self.set_y_formatter(self._y_axis)

    def notify_style_update(self) -> None:
        """Draw again with the colours of the new theme."""
        super().notify_style_update()
        if self._redraw is not None:
            self._redraw()

    def show(
        self,
        curves: Sequence[Curve],
        *,
        mark: float | None = None,
        x_max: float,
        y_max: float,
        y_min: float = 0.0,
        x_axis: AxisFormatter | None = None,
    ) -> None:
        """Draw `curves`, the last on top, with a vertical line at x = `mark`; `x_axis` replaces the default axis."""
        colours = _ON_DARK if self.app.current_theme.dark else _ON_LIGHT
        axis = x_axis or self._x_axis
        labels = tuple(axis.get_labels_for_ticks(axis.get_ticks(0.0, x_max)))
        points = ((curve.x.tobytes(), curve.y.tobytes(), *curve[2:]) for curve in curves)
        key = (*points, mark, x_max, y_max, y_min, colours, labels)
        if key == self._shown or not all(map(math.isfinite, (x_max, y_max, y_min))):
            return
        self._shown = key
        self._redraw = partial(self.show, curves, mark=mark, x_max=x_max, y_max=y_max, y_min=y_min, x_axis=x_axis)
        self.set_x_formatter(axis)
        self.clear()
        self.set_xlimits(0.0, x_max)
        self.set_ylimits(y_min, y_max)
        finite = [_finite_points(curve) for curve in curves]
        for curve in finite:
            if len(curve.x) > 1:
                x, y = np.repeat(curve.x, 2)[1:], np.repeat(curve.y, 2)[:-1]
                self.plot(x, y, line_style=_colour(curve, colours), hires_mode=HiResMode.BRAILLE)
        for number, curve in enumerate(finite):
            if curve.is_marked or len(curve.x) == 1:
                x, y = _marker_points(curve, x_max, number / len(finite))
                symbol = marker(curve.number or 0) if curve.is_marked else "•"
                self.scatter(x, y, marker=symbol, marker_style=_colour(curve, colours))
        if mark is not None and mark <= x_max:
            self.add_v_line(mark, "dim")


class ErrorsPlot(CurvePlot):
    """Recall vs. errors."""

    X_AXIS = ErrorsAxis
    HELP = (
        "Recall (the fraction of examples solved) when the walk down the submission stops at this many errors, on a "
        "logarithmic axis. The vertical line is the round's error cap, where the score is taken."
    )

    def show_recall(self, curves: Sequence[Curve], *, cap: int) -> None:
        """Draw `curves`, whose x are numbers of errors, with a vertical line at the error cap."""
        curves = [curve._replace(x=np.log10(1.0 + curve.x)) for curve in curves]
        mark = float(np.log10(1 + cap))
        self.show(curves, mark=mark, x_max=_x_limit(curves, mark * 1.05), y_max=_y_limit(curves))


class HistoryPlot(CurvePlot):
    """Recall vs. time."""

    HELP = "Recall at the round's error cap against the budget spent."

    def show_history(self, curves: Sequence[Curve]) -> None:
        """Draw `curves`, whose x are seconds of budget."""
        self.show(curves, x_max=_x_limit(curves, 1.0), y_max=_y_limit(curves))


class FigurePlot(CurvePlot):
    """A figure of an audit vs. time."""

    HELP = "The chosen figure against the budget spent; the dim curves are its 95 % interval."


def marker(number: int) -> str:
    """Return the marker of the curve with this number."""
    return _MARKERS[number % len(_MARKERS)]


def _x_limit(curves: Sequence[Curve], least: float) -> float:
    return max([least, *(float(curve.x.max(initial=0.0)) for curve in curves)])


def _y_limit(curves: Sequence[Curve]) -> float:
    """Return the upper limit of the y axis: 15 % above the highest point, and at least 0.05."""
    finite = [curve.y[np.isfinite(curve.y)] for curve in curves]
    return max(0.05, 1.15 * max((float(y.max(initial=0.0)) for y in finite), default=0.0))


def _colour(curve: Curve, colours: Sequence[str]) -> str:
    return "dim" if curve.number is None else colours[curve.number % len(colours)]


def _finite_points(curve: Curve) -> Curve:
    is_finite = np.isfinite(curve.x) & np.isfinite(curve.y)
    return curve._replace(x=curve.x[is_finite], y=curve.y[is_finite])


def _marker_points(curve: Curve, x_max: float, shift: float) -> tuple[Floats, Floats]:
    """Return evenly spaced points on the curve, or its end if it is too short.

    `shift`, a fraction of the distance, keeps the markers of several curves apart.
    """
    x = (np.arange(_MARKER_COUNT) + shift) / _MARKER_COUNT * x_max
    x = x[(x >= curve.x[:1].min(initial=np.inf)) & (x <= curve.x[-1:].max(initial=-np.inf))]
    if not len(x):
        return curve.x[-1:], curve.y[-1:]
    return x, curve.y[np.searchsorted(curve.x, x, side="right") - 1]
