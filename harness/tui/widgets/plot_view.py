"""A widget that draws a plot, and the plots of a run."""

import pickle
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import groupby

import numpy as np
from textual.color import Color
from textual.content import Content
from textual.style import Style
from textual.widget import Widget

from harness.analysis.replay import Moments, ReferenceCurve
from harness.core.scoring import DRAWN_POINTS, Score
from harness.core.text import format_score, sanitize
from harness.tui.axes import ClockAxis, ErrorsAxis, axis_up_to
from harness.tui.braille import BACKGROUND, TINT
from harness.tui.plot import DIM, Line, Plot, curve_colour, draw_plot
from harness.tui.series import Series
from harness.tui.snapshot import RunSnapshot


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
            foreground=self._colour(curve) if curve != -1 else None,
            background=self._colour(TINT + band) if band >= 0 else background if curve != -1 else None,
        )

    def _colour(self, number: int) -> Color:
        background = self.background_colors[1]
        if number == BACKGROUND:
            return background
        if number >= TINT:
            return background.blend(self._colour(number - TINT), 0.2)
        if number == DIM:
            return background.get_contrast_text().blend(background, 0.35)
        return Color.parse(curve_colour(number, is_dark=self.app.current_theme.dark))


class RunPlot(StrEnum):
    """The kinds of plot of a run; the value is the title of its panel."""

    ERRORS = "Recall vs. errors"
    TIME = "Recall vs. time"


def plot_of(kind: RunPlot, snapshot: RunSnapshot, reference: ReferenceCurve | None) -> Plot | str:
    """Return the plot, or why there is none."""
    summary, figures = snapshot.summary, snapshot.figures
    if snapshot.loaded < 1 and not figures.guessed:
        return "reading …"
    if not figures.guessed:
        return (
            "No guesses."
            if summary.status.is_over
            else ": ".join(filter(None, ("No guesses yet", sanitize(summary.step))))
        )
    if kind is RunPlot.TIME:
        return plot_over_time(snapshot.recall) if len(snapshot.recall.at) > 1 else "Not measured yet."
    if figures.errors is None or figures.recall is None:
        return "The round is blind: recall is not known."
    low, high = (None, None) if snapshot.band is None else (snapshot.band.low, snapshot.band.high)
    curve = Line(figures.errors.astype(float), figures.recall, 0, "this run", low, high)
    return above_reference(curve, reference, summary.error_cap, figures.recall_at_cap)


def above_reference(curve: Line, reference: ReferenceCurve | None, cap: int, at_cap: float | None) -> Plot:
    """Return the plot of a curve over errors, with its recall `at_cap`, above the dim one of the reference."""
    lines = [curve]
    if reference is not None:
        label = f"best baseline {reference.id.partition('-')[0]}"
        lines.insert(0, Line(reference.errors.astype(float), reference.recall, None, label))
    return plot_over_errors(lines, cap, at_cap=at_cap)


def plot_over_errors(lines: Sequence[Line], cap: int, *, title: str = "Recall", at_cap: float | None = None) -> Plot:
    """Return the plot of recall vs. errors with the error cap, and the recall `at_cap` next to it."""
    end = max(cap * 1.1, *(float(line.x[-1]) for line in lines if len(line.x)))
    heights = [heights for line in lines for heights in (line.y, line.high) if heights is not None]
    y = axis_up_to(title, heights, min_high=0.05)
    value = "" if at_cap is None else f": {format_score(at_cap)}"
    return Plot(ErrorsAxis("errors", 0.0, end), y, lines, mark=(float(cap), f"cap {cap:,}{value}"))


def moments_plot(moments: Moments, *, by_trials: bool) -> Plot | str:
    """Return the plot of one run at several times or after several trials, or why there is none."""
    past_moments = moments.by_trials if by_trials else moments.in_time
    if not past_moments:
        return moments.note
    title = f"Recall. {moments.note}" if by_trials and moments.note else "Recall"
    return plot_of_scores([moment.labelled for moment in past_moments], title=title)


def plot_of_scores(scores: Sequence[tuple[str, Score]], *, title: str = "Recall") -> Plot:
    """Return the plot of recall vs. errors of several scores with their labels."""
    curves = [(label, score.recall_curve(DRAWN_POINTS).as_json()) for label, score in scores]
    return plot_of_curves(curves, scores[0][1].cap, title=title)


def plot_of_curves(curves: Sequence[tuple[str, Mapping[str, list[float]]]], cap: int, *, title: str = "Recall") -> Plot:
    """Return the plot of several curves, which are as `ScoreCurve.as_json` returns them, with their labels."""
    lines = [
        Line(np.array(curve["errors"], np.float64), np.array(curve["recall"]), number, label, is_marked=True)
        for number, (label, curve) in enumerate(curves)
    ]
    return plot_over_errors(lines, cap, title=title)


def plot_over_time(series: Series, *, end: float = 0.0) -> Plot:
    """Return the plot of a number over time, until `end` or longer."""
    x = ClockAxis("time", 0.0, max([1.0, end, *series.at[-1:].tolist()]))
    return Plot(x, axis_up_to(series.title, [series.value], min_high=series.min_high), [Line(series.at, series.value)])
