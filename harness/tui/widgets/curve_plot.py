"""A plot of one or more curves: the one place that knows the plotting library."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

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

# Told apart by those who see fewer colours: Okabe and Ito's (2008), the lighter and the darker ones.
_ON_DARK = ("#56b4e9", "#e69f00", "#00b184", "#e08fc0", "#f0e442", "#ff7f50")
_ON_LIGHT = ("#0072b2", "#d55e00", "#00805d", "#a8508a", "#7a6a00", "#4d4d4d")
_MARKERS = "●■▲◆▼★"
_MARKS = 7


class Curve(NamedTuple):
    """x, y: [points], drawn as steps, each y from its x on; place: which of the colours, None for a curve that stands
    back; is_marked: with the marker of its place here and there, so that it is told from others without colour."""

    x: Floats
    y: Floats
    place: int | None = 0
    is_marked: bool = False


class ErrorsAxis(AxisFormatter):
    """Ticks at 1, 10, 100 … errors, for an axis of log10(1 + errors)."""

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        """The powers of ten between the two."""
        return [position for power in range(8) if min_ <= (position := float(np.log10(1 + 10**power))) <= max_]

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        """Each tick as a count of errors."""
        return [f"{round(10**tick - 1):,}" for tick in ticks]


class ClockAxis(AxisFormatter):
    """Ticks at even times of day-long runs, as a clock reads."""

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        """Four times from one end to the other."""
        return [float(tick) for tick in np.linspace(min_, max_, 4)]

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        """Each tick as a clock reads."""
        return [format_duration(tick) for tick in ticks]


class ScoreAxis(AxisFormatter):
    """Scores at a histogram's edges, for an axis of 0 .. bins: scores of any size have a place on it."""

    def __init__(self, edges: Floats) -> None:
        self._edges = edges

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        """Five edges from one end to the other, fewer where there are no five."""
        return [float(place) for place in np.unique(np.linspace(0, len(self._edges) - 1, 5).round())]

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        """The score at each edge."""
        return [f"{self._edges[round(tick)]:.3g}" for tick in ticks]


class _HeightAxis(AxisFormatter):
    """Ticks at round heights, as many as there are rows for, so that they stand at even distances."""

    def __init__(self, rows: Callable[[], int]) -> None:
        self._rows = rows

    def get_ticks(self, min_: float, max_: float, max_ticks: int = 8) -> list[float]:
        """Multiples of 1, 2 or 5 times a power of ten."""
        steps = [digit * 10.0**power for power in range(-9, 16) for digit in (1, 2, 5)]
        step = next(step for step in steps if (max_ - min_) / step <= max(1, self._rows() // 2))
        return [step * count for count in range(math.ceil(min_ / step), math.floor(max_ / step) + 1)]

    def get_labels_for_ticks(self, ticks: Sequence[float]) -> list[str]:
        """Each tick with as many digits as tell it from the next."""
        return [f"{tick:,.6g}" for tick in ticks]


class _StyledCanvas(Canvas):
    """A canvas whose every cell has a style: without colours, Textual asks each for one."""

    def render_line(self, y: int) -> Strip:
        """The line at `y`."""
        return super().render_line(y).apply_style(self.rich_style)


class CurvePlot(PlotWidget, can_focus=True, inherit_bindings=False):
    """Curves over one axis that begins at zero, redrawn only when they changed."""

    DEFAULT_CSS = """
    CurvePlot {
        & > .plot--axis, &:focus > .plot--axis { color: $foreground 40%; }
        & > .plot--tick { color: $foreground 80%; text-style: not bold; }
    }
    """

    def __init__(self, x_axis: AxisFormatter, *, id: str) -> None:
        super().__init__(id=id, allow_pan_and_zoom=False)
        self._x_axis = x_axis
        # Of the canvas as it is when ticks are drawn, which may come after a change of size.
        self._y_axis = _HeightAxis(lambda: self.size.height - 3)
        self._shown: tuple[object, ...] = ()
        self._again: Callable[[], None] | None = None

    def compose(self) -> ComposeResult:
        """The library's own parts, with a canvas that can be drawn without colours."""
        with Grid():
            for part in ("margin-top", "margin-left", "plot", "margin-bottom"):
                yield _StyledCanvas(1, 1, id=part)
        yield Legend(id="legend")

    def on_mount(self) -> None:
        """Small margins: a terminal has few lines."""
        super().on_mount()
        self.margin_bottom = 1
        self.margin_left = 6
        self.margin_top = 0
        self.set_x_formatter(self._x_axis)
        self.set_y_formatter(self._y_axis)

    def notify_style_update(self) -> None:
        """Colours follow the theme."""
        super().notify_style_update()
        if self._again is not None:
            self._again()

    def show(
        self,
        curves: Sequence[Curve],
        *,
        mark: float | None = None,
        x_most: float,
        y_most: float,
        y_least: float = 0.0,
        x_axis: AxisFormatter | None = None,
    ) -> None:
        """Draw `curves`, those behind first; `mark` is a vertical line at an x, `x_axis` another way to name an x."""
        colours = _ON_DARK if self.app.current_theme.dark else _ON_LIGHT
        axis = x_axis or self._x_axis
        labels = tuple(axis.get_labels_for_ticks(axis.get_ticks(0.0, x_most)))
        points = ((curve.x.tobytes(), curve.y.tobytes(), *curve[2:]) for curve in curves)
        key = (*points, mark, x_most, y_most, y_least, colours, labels)
        if key == self._shown or not all(map(math.isfinite, (x_most, y_most, y_least))):
            return
        self._shown = key
        self._again = partial(
            self.show, curves, mark=mark, x_most=x_most, y_most=y_most, y_least=y_least, x_axis=x_axis
        )
        self.set_x_formatter(axis)
        self.clear()
        self.set_xlimits(0.0, x_most)
        self.set_ylimits(y_least, y_most)
        known = [_known_points(curve) for curve in curves]
        for curve in known:
            if len(curve.x) > 1:
                x, y = np.repeat(curve.x, 2)[1:], np.repeat(curve.y, 2)[:-1]
                self.plot(x, y, line_style=_colour(curve, colours), hires_mode=HiResMode.BRAILLE)
        for number, curve in enumerate(known):
            if curve.is_marked or len(curve.x) == 1:
                x, y = _marks(curve, x_most, number / len(known))
                sign = marker(curve.place or 0) if curve.is_marked else "•"
                self.scatter(x, y, marker=sign, marker_style=_colour(curve, colours))
        if mark is not None and mark <= x_most:
            self.add_v_line(mark, "dim")


class ErrorsPlot(CurvePlot):
    """Recall against errors."""

    HELP = (
        "Recall (the share of examples solved) when so many wrong rows end the walk down the submission, on a scale of "
        "powers of ten. The vertical line is the round's cap on errors: the score is the recall there."
    )

    def __init__(self, *, id: str) -> None:
        super().__init__(ErrorsAxis(), id=id)


class HistoryPlot(CurvePlot):
    """What a run had reached when so much of its budget was spent."""

    HELP = "Recall at the round's cap, as the submission stood when so much of the budget was spent."

    def __init__(self, *, id: str) -> None:
        super().__init__(ClockAxis(), id=id)


class FigurePlot(CurvePlot):
    """A figure of an audit in time."""

    HELP = "The chosen figure as it stood when so much of the budget was spent; dimmed, its 95 % interval."

    def __init__(self, *, id: str) -> None:
        super().__init__(ClockAxis(), id=id)


def marker(place: int) -> str:
    """The sign of the curve at this place among several."""
    return _MARKERS[place % len(_MARKERS)]


def headroom(curves: Sequence[Curve]) -> float:
    """How high a plot of these curves reaches: a little over the highest."""
    finite = [curve.y[np.isfinite(curve.y)] for curve in curves]
    return max(0.05, 1.15 * max((float(y.max(initial=0.0)) for y in finite), default=0.0))


def _colour(curve: Curve, colours: Sequence[str]) -> str:
    return "dim" if curve.place is None else colours[curve.place % len(colours)]


def _known_points(curve: Curve) -> Curve:
    is_known = np.isfinite(curve.x) & np.isfinite(curve.y)
    return curve._replace(x=curve.x[is_known], y=curve.y[is_known])


def _marks(curve: Curve, x_most: float, shift: float) -> tuple[Floats, Floats]:
    """Places on the curve at even distances, the first `shift` of one distance in, so that those of several curves
    stand apart; of a curve too short for any, its end."""
    x = (np.arange(_MARKS) + shift) / _MARKS * x_most
    x = x[(x >= curve.x[:1].min(initial=np.inf)) & (x <= curve.x[-1:].max(initial=-np.inf))]
    if not len(x):
        return curve.x[-1:], curve.y[-1:]
    return x, curve.y[np.searchsorted(curve.x, x, side="right") - 1]
