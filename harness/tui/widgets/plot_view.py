"""A widget that draws a plot, and the plots of a run."""

import pickle
from collections.abc import Sequence
from enum import StrEnum
from itertools import groupby

from textual.color import Color
from textual.content import Content
from textual.style import Style
from textual.widget import Widget

from harness.analysis.replay import Moments, ReferenceCurve
from harness.core.arrays import Floats
from harness.core.scoring import DRAWN_POINTS
from harness.tui.axes import Axis, ClockAxis, EdgesAxis, ErrorsAxis, axis_up_to
from harness.tui.plot import DIM, Line, Plot, curve_colour, draw_plot
from harness.tui.run_feed import MAX_REPLAYED
from harness.tui.snapshot import RunSnapshot

_BLIND = "The round is blind: recall is not known."


class PlotView(Widget, can_focus=True):
    """Draws a Plot, again only if it or the size changes; or shows a text in its place."""

    DEFAULT_CSS = "PlotView { height: 1fr; width: 1fr; text-wrap: nowrap; }"

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._content: Plot | str = ""
        self._drawn = b""

    def show(self, content: Plot | str) -> None:
        """Draw a plot, or show a text."""
        # Equal plots have equal bytes.
        if (drawn := pickle.dumps(content)) != self._drawn:
            self._content, self._drawn = content, drawn
            self.refresh()

    def render(self) -> Content:
        """Return the lines of the plot."""
        width, height = self.size
        if isinstance(self._content, str):
            return Content("\n" * (height // 2) + self._content.center(width)[:width])
        if width < 12 or height < 3:
            return Content("")
        lines = [groupby(row, key=lambda cell: cell[1:]) for row in draw_plot(self._content, width, height)]
        return Content("\n").join(
            Content.assemble(*(("".join(cell.character for cell in run), self._style(*key)) for key, run in line))
            for line in lines
        )

    def _style(self, curve: int, band: int) -> Style:
        background = self.background_colors[1]
        return Style(
            foreground=self._colour(curve) if curve >= 0 else None,
            background=background.blend(self._colour(band), 0.25) if band >= 0 else None,
        )

    def _colour(self, number: int) -> Color:
        if number == DIM:
            background = self.background_colors[1]
            return background.get_contrast_text().blend(background, 0.45)
        return Color.parse(curve_colour(number, is_dark=self.app.current_theme.dark))


class RunPlot(StrEnum):
    """The kinds of plot of a run; the value is the title of its panel."""

    ERRORS = "Recall vs. errors"
    TIME = "Recall vs. time"
    TIMES = "Recall vs. errors, at several times"
    TRIALS = "Recall vs. errors, after several trials"
    SCORES = "Best score of each example"
    PACE = "Throughput"
    LOAD = "Utilization"

    def next(self, step: int) -> "RunPlot":
        """Return the plot after this one, or before it."""
        kinds = list(RunPlot)
        return kinds[(kinds.index(self) + step) % len(kinds)]


def plot_of(kind: RunPlot, snapshot: RunSnapshot, reference: ReferenceCurve | None) -> Plot | str:
    """Return the plot, or why there is none."""
    if kind is RunPlot.ERRORS:
        return _errors_plot(snapshot, reference)
    if kind is RunPlot.TIME:
        return _time_plot(snapshot)
    if kind in (RunPlot.TIMES, RunPlot.TRIALS):
        if snapshot.figures.errors is None:
            return _BLIND
        if snapshot.moments is None and snapshot.summary.guesses > MAX_REPLAYED:
            return f"More than {MAX_REPLAYED:,} guesses: see `harness report`."
        if snapshot.moments is None:
            return "Not computed yet." if snapshot.figures.guessed else _no_guesses(snapshot)
        return moments_plot(snapshot.moments, by_trials=kind is RunPlot.TRIALS)
    if kind is RunPlot.SCORES:
        return _score_plot(snapshot)
    load = snapshot.load
    if kind is RunPlot.PACE:
        return _over_time("suffixes/s", load.work_at, load.suffixes_per_s, min_high=1.0)
    return _over_time(f"{load.device} %", load.load_at, load.percent, min_high=100.0)


def _errors_plot(snapshot: RunSnapshot, reference: ReferenceCurve | None) -> Plot | str:
    figures, cap = snapshot.figures, snapshot.summary.error_cap
    if figures.errors is None or figures.recall is None:
        return _BLIND
    if not figures.guessed:
        return _no_guesses(snapshot)
    low, high = (None, None) if snapshot.band is None else (snapshot.band.low, snapshot.band.high)
    lines = [Line(figures.errors.astype(float), figures.recall, 0, "this run", low, high)]
    if reference is not None:
        label = f"best baseline {reference.id.partition('-')[0]}"
        lines.insert(0, Line(reference.errors.astype(float), reference.recall, None, label))
    return plot_over_errors(lines, cap)


def plot_over_errors(lines: Sequence[Line], cap: int, *, title: str = "Recall") -> Plot:
    """Return the plot of recall vs. errors with the error cap."""
    end = max(cap * 1.1, *(float(line.x[-1]) for line in lines if len(line.x)))
    heights = [heights for line in lines for heights in (line.y, line.high) if heights is not None]
    y = axis_up_to(title, heights, min_high=0.05)
    return Plot(ErrorsAxis("errors", 0.0, end), y, lines, mark=(float(cap), f"cap {cap:,}"))


def moments_plot(moments: Moments, *, by_trials: bool) -> Plot | str:
    """Return the plot of one run at several times or after several trials, or why there is none."""
    past_moments = moments.by_trials if by_trials else moments.in_time
    if not past_moments:
        return moments.note
    labels, scores = zip(*(moment.labelled for moment in past_moments), strict=True)
    curves = [score.recall_curve(DRAWN_POINTS) for score in scores]
    lines = [
        Line(curve.errors.astype(float), curve.recall, number, label, is_marked=True)
        for number, (label, curve) in enumerate(zip(labels, curves, strict=True))
    ]
    title = f"Recall. {moments.note}" if by_trials and moments.note else "Recall"
    return plot_over_errors(lines, scores[0].cap, title=title)


def _time_plot(snapshot: RunSnapshot) -> Plot | str:
    history, summary = snapshot.history, snapshot.summary
    if not len(history.spent):
        return _no_guesses(snapshot)
    title, y = f"Recall@{summary.error_cap}", history.recall
    if y is None:
        title, y = "Guesses", history.guesses.astype(float)
    return _over_time(title, history.spent, y, min_high=0.05, is_step=True)


def _score_plot(snapshot: RunSnapshot) -> Plot | str:
    edges, counts = snapshot.figures.score_edges, snapshot.figures.score_counts.astype(float)
    if not counts.any():
        return _no_guesses(snapshot)
    x = EdgesAxis("best score", 0.0, 1.0, tuple(edges.tolist()))
    return Plot(x, axis_up_to("Examples", [counts], min_high=1.0), bars=counts)


def _no_guesses(snapshot: RunSnapshot) -> str:
    return "No guesses." if snapshot.summary.status.is_over else "No guesses yet."


def _over_time(title: str, seconds: Floats, values: Floats, *, min_high: float, is_step: bool = False) -> Plot | str:
    if len(seconds) < 2:
        return "Not measured yet."
    y: Axis = axis_up_to(title, [values], min_high=min_high)
    return Plot(ClockAxis("time", 0.0, max(1.0, float(seconds[-1]))), y, [Line(seconds, values, is_step=is_step)])
