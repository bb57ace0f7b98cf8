"""Curves of recall vs. errors and over time: as SVG text for a document, or in a file."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.core import files
from harness.core.errors import UsageError
from harness.core.scoring import Score, log_spaced
from harness.core.text import format_interval, format_score
from harness.figures.palette import COLOURS, REFERENCE, line_style
from harness.figures.sheet import draw_placeholder, format_log_ticks, sheet

FORMATS = (".svg", ".png")
_POINTS = 480
_MAX_IN_PANEL, _LEGEND_COLUMNS = 6, 3
_MINUTE, _HOUR = 60.0, 3600.0
# Ids inside an SVG come from a random salt unless it is set. A $ in a name must not start mathematics.
_REPRODUCIBLE = {"svg.hashsalt": "harness", "text.parse_math": False}
History = Sequence[tuple[float, float]]
"""Pairs of seconds spent and a value, ascending."""


Labelled = Sequence[tuple[str, Score]]
"""Scores on the same examples, each with the label of its curve."""


class PlottedRun(NamedTuple):
    """One run in a comparison figure: its score on some examples, and its recall at the cap over time.

    in_time, by_trials: its scores on all examples at several times, and after several trials, with their labels.
    note: a sentence about trials that are absent or not complete, else empty.
    """

    name: str
    score: Score
    recall_over_time: History
    in_time: Labelled = ()
    by_trials: Labelled = ()
    note: str = ""


def figure_format(path: Path) -> str:
    """Return `svg` or `png`, by the suffix of `path`. Raises UsageError for any other suffix."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{path}: unknown figure format. Use {' or '.join(FORMATS)}.")
    return path.suffix.lower().removeprefix(".")


def write_score_figure(score: Score, path: Path, *, title: str) -> None:
    """Write plots of recall vs. errors and precision vs. recall to `path`, replacing an existing file.

    Equal scores and titles give equal bytes. Raises HarnessError if the suffix is unknown or the file cannot be
    written.
    """
    with matplotlib.style.context(_REPRODUCIBLE):
        _write(score_figure(score, title=title), path)


def write_comparison(runs: Sequence[PlottedRun], not_in_train: Sequence[PlottedRun], path: Path, *, title: str) -> None:
    """Write the figure of `comparison_figure` to `path`, under the conditions of `write_score_figure`."""
    with matplotlib.style.context(_REPRODUCIBLE):
        _write(comparison_figure(runs, not_in_train, title=title), path)


def recall_panel(scores: Labelled, *, size: tuple[float, float], styles: Mapping[str, int] | None = None) -> str:
    """Draw recall vs. errors of each labelled score on the same examples, as SVG text.

    `size` is in inches. `styles` maps labels to numbers of line styles, so that a run looks alike in every panel.
    """
    with sheet(*size) as (axes, svg):
        draw_recall(axes, scores, styles)
    return svg.getvalue()


def history_panel(
    histories: Sequence[tuple[str, History]],
    *,
    label: str,
    size: tuple[float, float],
    styles: Mapping[str, int] | None = None,
) -> str:
    """Draw a value over time for each labelled history, as SVG text.

    `size` and `styles` are as in `recall_panel`.
    """
    with sheet(*size) as (axes, svg):
        draw_in_time(axes, histories, label=label, styles=styles)
    return svg.getvalue()


def score_figure(score: Score, *, title: str) -> Figure:
    """Return the figure of one submission: recall vs. errors, and precision vs. recall."""
    figure = Figure(figsize=(12.8, 4.0), layout="constrained")
    by_errors, by_recall = figure.subplots(1, 2)
    draw_recall(by_errors, [(f"{_recall_at_cap(score)}, by {score.interval.unit}", score)])
    draw_precision(by_recall, score)
    figure.suptitle(title, fontsize=10)
    return figure


def comparison_figure(runs: Sequence[PlottedRun], not_in_train: Sequence[PlottedRun], *, title: str) -> Figure:
    """Return the figure: recall vs. errors and over time, of `runs` on all examples.

    `not_in_train` are the runs on the examples that are not in the training rows, empty if there are none. Many
    runs share one legend below the panels. Further rows have recall vs. errors of each of the first runs at several
    times, and after several trials.
    """
    rows = [("all examples", runs)]
    if not_in_train:
        rows.append(("examples not in the training rows", not_in_train))
    is_shared = len(runs) > _MAX_IN_PANEL
    lines = -(-len(runs) // _LEGEND_COLUMNS) if is_shared else 0
    with_moments = [run for run in runs if run.in_time]
    panel_moments = with_moments[:_MAX_IN_PANEL]
    if len(panel_moments) < len(with_moments):
        title = f"{title}; at several times: the first {len(panel_moments)} runs"
    count = len(rows) + len(panel_moments)
    figure = Figure(figsize=(12.8, 4.4 * count + 0.22 * lines), layout="constrained")
    panels = figure.subplots(count, 2, squeeze=False)
    for (by_errors, in_time), (where, drawn) in zip(panels, rows, strict=False):
        draw_recall(by_errors, [(f"{run.name}: {_recall_at_cap(run.score)}", run.score) for run in drawn])
        by_errors.set_title(where, fontsize=10)
        histories = [(run.name, run.recall_over_time) for run in drawn]
        draw_in_time(in_time, histories, label=f"Recall@{drawn[0].score.cap}")
        in_time.set_title(f"{where}, over time", fontsize=10)
        for axes in (by_errors, in_time) if is_shared else ():
            axes.legend_.remove()
    for (in_time, by_trials), run in zip(panels[len(rows) :], panel_moments, strict=True):
        in_time.set_title(f"{run.name}, at several times", fontsize=10)
        draw_recall(in_time, run.in_time)
        if not run.by_trials:
            draw_placeholder(by_trials, run.note)
            continue
        by_trials.set_title(f"{run.name}, after several trials\n{run.note}".rstrip(), fontsize=10)
        draw_recall(by_trials, run.by_trials)
    if is_shared:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=_LEGEND_COLUMNS, fontsize=8)
    figure.suptitle(title, fontsize=12)
    return figure


def draw_recall(axes: Axes, scores: Labelled, styles: Mapping[str, int] | None = None) -> None:
    """Draw recall vs. errors of each labelled score on the same examples, with the intervals and the cap.

    x is the error at which the walk ends, from 1 to wrong rows + 1; y is recall there.
    """
    cap, examples = scores[0][1].cap, scores[0][1].examples
    # The intervals are moved apart, so that they do not hide each other.
    offsets = 1.05 ** (np.arange(len(scores)) - (len(scores) - 1) / 2)
    looks = _styles([label for label, _ in scores], styles)
    for (label, score), offset, style in zip(scores, offsets, looks, strict=True):
        curve = score.recall_curve(_POINTS)
        axes.step(curve.errors, curve.recall, where="post", label=label, **style)
        recall, (low, high, _) = score.recall_at_cap, score.interval
        axes.errorbar(
            [cap * offset],
            [recall],
            # A percentile interval need not contain the recall, but an error bar has no negative length.
            yerr=[[max(0.0, recall - low)], [max(0.0, high - recall)]],
            color=style["color"],
            fmt="o",
            markersize=3,
            capsize=2.5,
            linewidth=1,
        )
    axes.axvline(cap, color=REFERENCE, linestyle="--", linewidth=0.8)
    axes.set_xscale("log")
    highest = max(max(float(score.curve[-1] / examples), score.interval.high) for _, score in scores)
    longest = 1.25 * max(max(len(score.curve), score.cap) for _, score in scores)
    axes.set_xlim(1, longest)
    format_log_ticks(axes.xaxis, 1, longest)
    axes.set_ylim(0, min(1.0, 1.15 * max(highest, 0.05)))
    axes.set_xlabel(f"errors (wrong rows); dashed line: cap of {cap:,}")
    axes.set_ylabel(f"recall of {examples:,} examples")
    _finish(axes, scores[0][0])


def draw_precision(axes: Axes, score: Score) -> None:
    """Draw precision vs. recall along the whole submission, and the point at the cap."""
    recall, precision = score.precision_recall_curve()
    drawn = log_spaced(len(recall), max_points=2 * _POINTS) - 1
    axes.plot(recall[drawn], precision[drawn], color=COLOURS[0], label=f"{score.rows:,} rows")
    at_cap = f"cap of {score.cap:,} errors: precision {format_score(score.precision_at_cap)}"
    axes.plot([score.recall_at_cap], [score.precision_at_cap], "o", color=COLOURS[0], markersize=4, label=at_cap)
    axes.set_xlim(0, min(1.0, 1.15 * max(float(score.curve[-1] / score.examples), 0.05)))
    axes.set_ylim(0, 1.02)
    axes.set_xlabel(f"recall of {score.examples:,} examples")
    axes.set_ylabel("precision of the rows so far")
    axes.grid(True, alpha=0.3)
    axes.legend(loc="lower left")


def draw_in_time(
    axes: Axes,
    histories: Sequence[tuple[str, History]],
    *,
    label: str,
    styles: Mapping[str, int] | None = None,
) -> None:
    """Draw a value over time for each labelled history. `label` names the value."""
    unit, seconds = _unit_of_time(max((spent for _, history in histories for spent, _ in history), default=0.0))
    looks = _styles([name for name, _ in histories], styles)
    for (name, history), style in zip(histories, looks, strict=True):
        spent, value = np.array(history, np.float64).reshape(-1, 2).T
        axes.step(spent / seconds, value, where="post", label=name, **style)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"{unit} of the budget spent")
    axes.set_ylabel(label)
    _finish(axes, histories[0][0])


def _recall_at_cap(score: Score) -> str:
    low, high, _ = score.interval
    return f"{format_score(score.recall_at_cap)} {format_interval(low, high)}"


def _unit_of_time(latest: float) -> tuple[str, float]:
    """Return the unit of a time axis up to `latest` seconds, and the seconds in that unit."""
    if latest > 2 * _HOUR:
        return "hours", _HOUR
    return ("minutes", _MINUTE) if latest > 2 * _MINUTE else ("seconds", 1.0)


def _styles(names: Sequence[str], styles: Mapping[str, int] | None) -> list[dict[str, Any]]:
    """Return the style of each line: the one with its number in `styles`, or else in order."""
    # A single line needs no marker.
    if len(styles or names) == 1:
        return [{"color": COLOURS[0]}] * len(names)
    return [line_style(number if styles is None else styles[name]) for number, name in enumerate(names)]


def _finish(axes: Axes, first_label: str) -> None:
    """Draw the grid, and a legend if the lines have labels."""
    axes.grid(True, alpha=0.3)
    if first_label:
        axes.legend()


def _write(figure: Figure, path: Path) -> None:
    file_format = figure_format(path)
    content = io.BytesIO()
    figure.savefig(content, format=file_format, dpi=150, metadata={"Date": None} if file_format == "svg" else None)
    with files.file_errors(path, "written"):
        files.write_export(path, content.getvalue())
