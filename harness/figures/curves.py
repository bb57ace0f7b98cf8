"""Plot recall vs. errors of one submission, or of several runs together with their recall over time."""

import io
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from harness.core import files
from harness.core.errors import HarnessError
from harness.core.scoring import Score

FORMATS = (".svg", ".png")
_BLUE, _RED, _GREY = "#1f5f8b", "#b03a2e", "#777777"
# Distinguishable with colour blindness (Okabe and Ito 2008). 7 colours, 8 markers and 5 dashes give 280 styles.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES = ("solid", "dashed", "dashdot", "dotted", (0, (7, 2, 1, 2, 1, 2)))
_MINUTE, _HOUR = 60.0, 3600.0


class PlottedRun(NamedTuple):
    """One run in a comparison figure.

    unreachable: the score on examples that are unreachable from training rows, None for all runs if there are none;
    recall_over_time: pairs of seconds spent and recall at the cap, ascending; unreachable_over_time: the same on the
    unreachable examples.
    """

    name: str
    score: Score
    unreachable: Score | None
    recall_over_time: Sequence[tuple[float, float]]
    unreachable_over_time: Sequence[tuple[float, float]] | None = None


def figure_format(path: Path) -> str:
    """Return `svg` or `png`, by the suffix of `path`. Raises HarnessError for any other suffix."""
    if path.suffix.lower() not in FORMATS:
        raise HarnessError(f"{path}: unknown figure format. Use {' or '.join(FORMATS)}.")
    return path.suffix.lower().removeprefix(".")


def write_recall_curve(score: Score, path: Path, *, title: str) -> None:
    """Write a plot of recall vs. errors to `path`, replacing an existing file.

    Equal scores and titles give equal bytes. Raises HarnessError if the suffix is unknown or the file cannot be
    written.
    """
    _write(recall_figure(score, title=title), path)


def write_comparison(runs: Sequence[PlottedRun], path: Path, *, title: str) -> None:
    """Write a plot of several runs to `path`, under the conditions of `write_recall_curve`."""
    _write(comparison_figure(runs, title=title), path)


def recall_figure(score: Score, *, title: str) -> Figure:
    """Return the figure: x is the error at which the walk ends, from 1 to wrong rows + 1; y is recall there."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    _draw_curve(axes, score, label="recall", color=_BLUE)
    _mark_cap(axes, score.cap)
    low, high, unit = score.interval
    label = f"{score.recall_at_cap:.3f} [{low:.3f}, {high:.3f}], by {unit}"
    _draw_interval(axes, score, score.cap, label=label, color=_RED, fmt="o")
    _fit_to_errors(axes, [score])
    axes.set_title(escape_math(title), fontsize=10)
    return figure


def comparison_figure(runs: Sequence[PlottedRun], *, title: str) -> Figure:
    """Return the figure: recall vs. errors and over time, on all examples and on the unreachable ones."""
    parts = [run.unreachable for run in runs if run.unreachable is not None]
    rows = 2 if parts else 1
    figure = Figure(figsize=(12.8, 4.4 * rows), layout="constrained")
    panels = figure.subplots(rows, 2, squeeze=False)
    names = [run.name for run in runs]
    _overlay(panels[0][0], names, [run.score for run in runs], title="all examples")
    histories = [run.recall_over_time for run in runs]
    _overlay_over_time(panels[0][1], names, histories, cap=runs[0].score.cap, title="all examples, over time")
    if parts:
        _overlay(panels[1][0], names, parts, title="unreachable examples")
        histories = [run.unreachable_over_time or () for run in runs]
        _overlay_over_time(panels[1][1], names, histories, cap=parts[0].cap, title="unreachable examples, over time")
    figure.suptitle(escape_math(title), fontsize=12)
    return figure


def _overlay(axes: Axes, names: Sequence[str], scores: Sequence[Score], *, title: str) -> None:
    """Draw the curve of each score and its interval at the cap, shifted so that no interval hides another."""
    apart = 1.05 ** (np.arange(len(scores)) - (len(scores) - 1) / 2)
    for name, score, beside, style in zip(names, scores, apart, line_styles(len(scores)), strict=True):
        low, high, _ = score.interval
        label = escape_math(f"{name}: {score.recall_at_cap:.3f} [{low:.3f}, {high:.3f}]")
        _draw_curve(axes, score, label=label, **style)
        _draw_interval(axes, score, score.cap * beside, color=style["color"], fmt=style["marker"])
    _mark_cap(axes, scores[0].cap)
    _fit_to_errors(axes, scores)
    axes.set_title(title, fontsize=10)


def _overlay_over_time(
    axes: Axes, names: Sequence[str], histories: Sequence[Sequence[tuple[float, float]]], *, cap: int, title: str
) -> None:
    latest = max((spent for history in histories for spent, _ in history), default=0.0)
    unit, seconds = unit_of_time(latest)
    for name, history, style in zip(names, histories, line_styles(len(names)), strict=True):
        spent, recall = np.array(history).reshape(-1, 2).T
        axes.step(spent / seconds, recall, where="post", label=escape_math(name), **style)
    axes.set_title(title, fontsize=10)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"{unit} of the budget spent")
    axes.set_ylabel(f"Recall@{cap}")
    axes.grid(True, alpha=0.25)
    axes.legend(loc="lower right", fontsize=9)


def unit_of_time(latest: float) -> tuple[str, float]:
    """Return the unit of a time axis up to `latest` seconds, and the seconds in that unit."""
    if latest > 2 * _HOUR:
        return "hours", _HOUR
    return ("minutes", _MINUTE) if latest > 2 * _MINUTE else ("seconds", 1.0)


def line_styles(count: int) -> list[dict[str, Any]]:
    """Return `count` line styles that differ in colour, marker and dashes."""
    looks = zip(cycle(_COLOURS), cycle(_MARKERS), cycle(_DASHES), strict=False)
    return [
        # Markers are evenly spaced, and the first one differs from line to line.
        {
            "color": colour,
            "marker": marker,
            "linestyle": dashes,
            "markersize": 5,
            "markevery": (0.03 * (place % 5), 0.15),
        }
        for place, (colour, marker, dashes) in enumerate(islice(looks, count))
    ]


def _draw_curve(axes: Axes, score: Score, **style: Any) -> None:
    errors = np.arange(1, len(score.curve) + 1)
    axes.step(errors, score.curve / score.examples, where="post", **style)


def _draw_interval(axes: Axes, score: Score, errors: float, **style: Any) -> None:
    recall, (low, high, _) = score.recall_at_cap, score.interval
    # A percentile interval need not contain the recall, but an error bar has no negative length.
    bars = [[max(0.0, recall - low)], [max(0.0, high - recall)]]
    axes.errorbar([errors], [recall], yerr=bars, markersize=4, capsize=4, **style)


def _mark_cap(axes: Axes, cap: int) -> None:
    axes.axvline(cap, color=_GREY, linestyle="--", linewidth=1, label=f"cap: {cap:,} errors")


def _fit_to_errors(axes: Axes, scores: Sequence[Score]) -> None:
    """Set scales, limits and labels for curves over the same number of examples."""
    most_errors = max(max(len(score.curve), score.cap) for score in scores)
    highest = max(max(float(score.curve[-1] / score.examples), score.interval.high) for score in scores)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.set_xlim(1, most_errors * 1.25)
    axes.set_ylim(0, min(1.0, 1.15 * max(highest, 0.05)))
    axes.set_xlabel("errors (wrong rows)")
    axes.set_ylabel(f"recall of {scores[0].examples:,} examples")
    axes.grid(True, alpha=0.25)
    axes.legend(loc="upper left", fontsize=9)


def escape_math(text: str) -> str:
    """Return `text` with $ escaped, because Matplotlib reads $…$ as mathematics."""
    return text.replace("$", r"\$")


def _write(figure: Figure, path: Path) -> None:
    file_format = figure_format(path)
    content = io.BytesIO()
    # Ids inside an SVG come from a random salt, its metadata from the clock, unless both are set.
    with matplotlib.rc_context({"svg.hashsalt": "harness"}):
        figure.savefig(content, format=file_format, dpi=150, metadata={"Date": None} if file_format == "svg" else None)
    try:
        files.write_export(path, content.getvalue())
    except OSError as error:
        raise HarnessError(f"{path}: cannot be written ({error.strerror}).") from None
