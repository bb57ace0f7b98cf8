"""Recall against errors, drawn: the whole walk down a submission, the cap, and the interval at the cap; and several
such walks over one another, with the recall that each had reached in time."""

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
# Told apart by those who see fewer colours (Okabe and Ito 2008); 7, 8 and 5 of each give 280 lines that differ.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES = ("solid", "dashed", "dashdot", "dotted", (0, (7, 2, 1, 2, 1, 2)))
_MINUTE, _HOUR = 60.0, 3600.0


class DrawnRun(NamedTuple):
    """What is drawn of one of several runs.

    unreachable: its score on the examples that cannot be reached from training rows, None for all runs where there are
    none; recall_over_time: seconds of budget spent and the recall at the cap that came then, ascending;
    unreachable_over_time: the same on those examples.
    """

    name: str
    score: Score
    unreachable: Score | None
    recall_over_time: Sequence[tuple[float, float]]
    unreachable_over_time: Sequence[tuple[float, float]] | None = None


def figure_format(path: Path) -> str:
    """`svg` or `png`, by the suffix of `path`. Raises HarnessError for any other."""
    if path.suffix.lower() not in FORMATS:
        raise HarnessError(f"{path}: a figure is written as {' or '.join(FORMATS)}.")
    return path.suffix.lower().removeprefix(".")


def write_recall_curve(score: Score, path: Path, *, title: str) -> None:
    """Write recall (a fraction) against errors (a count, logarithmic) to `path`, replacing what was there.

    Equal scores and titles give equal bytes. Raises HarnessError when the suffix names no known format or the folder
    cannot be written to.
    """
    _write(recall_figure(score, title=title), path)


def write_comparison(runs: Sequence[DrawnRun], path: Path, *, title: str) -> None:
    """Write the curves of `runs` over one another to `path`, as `write_recall_curve` does with one."""
    _write(comparison_figure(runs, title=title), path)


def recall_figure(score: Score, *, title: str) -> Figure:
    """The figure itself: x = errors at which the walk would end, 1 .. wrong rows + 1; y = recall there."""
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    _draw_curve(axes, score, label="recall", color=_BLUE)
    _mark_cap(axes, score.cap)
    low, high, unit = score.interval
    label = f"{score.recall_at_cap:.3f} [{low:.3f}, {high:.3f}], by {unit}"
    _draw_interval(axes, score, score.cap, label=label, color=_RED, fmt="o")
    _fit_to_errors(axes, [score])
    axes.set_title(plain(title), fontsize=10)
    return figure


def comparison_figure(runs: Sequence[DrawnRun], *, title: str) -> Figure:
    """The figure itself: recall against errors, on all examples and on the unreachable ones, and against time."""
    parts = [run.unreachable for run in runs if run.unreachable is not None]
    rows = 2 if parts else 1
    figure = Figure(figsize=(12.8, 4.4 * rows), layout="constrained")
    panels = figure.subplots(rows, 2, squeeze=False)
    names = [run.name for run in runs]
    _overlay(panels[0][0], names, [run.score for run in runs], title="all examples")
    histories = [run.recall_over_time for run in runs]
    _overlay_in_time(panels[0][1], names, histories, cap=runs[0].score.cap, title="all examples, in time")
    if parts:
        _overlay(panels[1][0], names, parts, title="examples that cannot be reached from the training rows")
        histories = [run.unreachable_over_time or () for run in runs]
        _overlay_in_time(panels[1][1], names, histories, cap=parts[0].cap, title="the same examples, in time")
    figure.suptitle(plain(title), fontsize=12)
    return figure


def _overlay(axes: Axes, names: Sequence[str], scores: Sequence[Score], *, title: str) -> None:
    """Each score's curve and its interval at the cap, which stand a little apart so that none hides another."""
    apart = 1.05 ** (np.arange(len(scores)) - (len(scores) - 1) / 2)
    for name, score, beside, style in zip(names, scores, apart, line_styles(len(scores)), strict=True):
        low, high, _ = score.interval
        label = plain(f"{name}: {score.recall_at_cap:.3f} [{low:.3f}, {high:.3f}]")
        _draw_curve(axes, score, label=label, **style)
        _draw_interval(axes, score, score.cap * beside, color=style["color"], fmt=style["marker"])
    _mark_cap(axes, scores[0].cap)
    _fit_to_errors(axes, scores)
    axes.set_title(title, fontsize=10)


def _overlay_in_time(
    axes: Axes, names: Sequence[str], histories: Sequence[Sequence[tuple[float, float]]], *, cap: int, title: str
) -> None:
    latest = max((spent for history in histories for spent, _ in history), default=0.0)
    unit, seconds = unit_of_time(latest)
    for name, history, style in zip(names, histories, line_styles(len(names)), strict=True):
        spent, recall = np.array(history).reshape(-1, 2).T
        axes.step(spent / seconds, recall, where="post", label=plain(name), **style)
    axes.set_title(title, fontsize=10)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"{unit} of the budget spent")
    axes.set_ylabel(f"recall at {cap:,} errors")
    axes.grid(True, alpha=0.25)
    axes.legend(loc="lower right", fontsize=9)


def unit_of_time(latest: float) -> tuple[str, float]:
    """The unit, and the seconds in it, that an axis of time up to `latest` seconds is drawn in."""
    if latest > 2 * _HOUR:
        return "hours", _HOUR
    return ("minutes", _MINUTE) if latest > 2 * _MINUTE else ("seconds", 1.0)


def line_styles(count: int) -> list[dict[str, Any]]:
    """How each of `count` lines is drawn: distinct by colour, by marker and by dashes."""
    looks = zip(cycle(_COLOURS), cycle(_MARKERS), cycle(_DASHES), strict=False)
    return [
        # Markers stand at even distances on paper, and begin elsewhere for each line.
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
    # A percentile interval may lie beside the figure; a bar has no negative length.
    bars = [[max(0.0, recall - low)], [max(0.0, high - recall)]]
    axes.errorbar([errors], [recall], yerr=bars, markersize=4, capsize=4, **style)


def _mark_cap(axes: Axes, cap: int) -> None:
    axes.axvline(cap, color=_GREY, linestyle="--", linewidth=1, label=f"cap: {cap:,} errors")


def _fit_to_errors(axes: Axes, scores: Sequence[Score]) -> None:
    """Axes that hold every curve of one number of examples."""
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


def plain(text: str) -> str:
    """`text` as it is drawn: Matplotlib reads $…$ as mathematics, and text may be a file's name."""
    return text.replace("$", r"\$")


def _write(figure: Figure, path: Path) -> None:
    file_format = figure_format(path)
    content = io.BytesIO()
    # Ids inside an SVG come from a random salt, its metadata from the clock, unless both are set.
    with matplotlib.rc_context({"svg.hashsalt": "harness"}):
        figure.savefig(content, format=file_format, dpi=150, metadata={"Date": None} if file_format == "svg" else None)
    try:
        files.write_atomically(path, content.getvalue())
    except OSError as error:
        raise HarnessError(f"{path}: cannot be written ({error.strerror}).") from None
