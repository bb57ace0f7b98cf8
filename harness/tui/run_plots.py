"""The plots of a run, one at a time: recall vs. errors, recall vs. time, scores, throughput and load."""

from enum import StrEnum

from harness.analysis.reference_curve import ReferenceCurve
from harness.core.arrays import Floats
from harness.tui.axes import Axis, ClockAxis, EdgesAxis, ErrorsAxis, axis_up_to
from harness.tui.plot import Line, Plot
from harness.tui.snapshot import RunSnapshot


class RunPlot(StrEnum):
    """The kinds of plot of a run; the value is the title of its panel."""

    ERRORS = "Recall vs. errors"
    TIME = "Recall vs. time"
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
    if kind is RunPlot.SCORES:
        return _score_plot(snapshot)
    load = snapshot.load
    if kind is RunPlot.PACE:
        return _over_time("suffixes/s", load.work_at, load.suffixes_per_s, least=1.0)
    return _over_time(f"{load.device} %", load.load_at, load.percent, least=100.0)


def _errors_plot(snapshot: RunSnapshot, reference: ReferenceCurve | None) -> Plot | str:
    figures, cap = snapshot.figures, snapshot.summary.error_cap
    if figures.errors is None or figures.recall is None:
        return "The round is blind: recall is not known."
    if not figures.guessed:
        return _no_guesses(snapshot)
    low, high = (None, None) if snapshot.band is None else (snapshot.band.low, snapshot.band.high)
    lines = [Line(figures.errors.astype(float), figures.recall, 0, "this run", low, high)]
    if reference is not None:
        label = f"best baseline {reference.id.partition('-')[0]}"
        lines.insert(0, Line(reference.errors.astype(float), reference.recall, None, label))
    most = max(cap * 1.1, *(float(line.x[-1]) for line in lines if len(line.x)))
    y = axis_up_to("Recall", [*(line.y for line in lines), *([] if high is None else [high])], least=0.05)
    return Plot(ErrorsAxis("errors", 0.0, most), y, lines, mark=(float(cap), f"cap {cap:,}"))


def _time_plot(snapshot: RunSnapshot) -> Plot | str:
    history, summary = snapshot.history, snapshot.summary
    if not len(history.spent):
        return _no_guesses(snapshot)
    title, y = f"Recall@{summary.error_cap}", history.recall
    if y is None:
        title, y = "Guesses", history.guesses.astype(float)
    return _over_time(title, history.spent, y, least=0.05, is_step=True)


def _score_plot(snapshot: RunSnapshot) -> Plot | str:
    edges, counts = snapshot.figures.score_edges, snapshot.figures.score_counts.astype(float)
    if not counts.any():
        return _no_guesses(snapshot)
    x = EdgesAxis("best score", 0.0, 1.0, tuple(edges.tolist()))
    return Plot(x, axis_up_to("Examples", [counts], least=1.0), bars=counts)


def _no_guesses(snapshot: RunSnapshot) -> str:
    return "No guesses." if snapshot.summary.status.is_over else "No guesses yet."


def _over_time(title: str, seconds: Floats, values: Floats, *, least: float, is_step: bool = False) -> Plot | str:
    if len(seconds) < 2:
        return "Not measured yet."
    y: Axis = axis_up_to(title, [values], least=least)
    return Plot(ClockAxis("time", 0.0, max(1.0, float(seconds[-1]))), y, [Line(seconds, values, is_step=is_step)])
