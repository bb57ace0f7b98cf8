"""Draw single plots as SVG text for documents: recall vs. errors, and recall or rows over time, of one or more runs.

Equal data give equal text, whatever the Matplotlib settings of the user are.
"""

import contextlib
import io
from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from harness.core.scoring import Score
from harness.figures.curves import escape_math, line_styles, unit_of_time

_POINTS = 240
_BLUE, _RED, _GREY = "#0072b2", "#b03a2e", "#777777"
LOOK = {  # the style of every plot in a document
    "svg.hashsalt": "harness",
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.35,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "lines.linewidth": 1.3,
}
Size = tuple[float, float]
"""Width and height of a panel, in inches."""


def recall_panel(scores: Sequence[tuple[str, Score]], *, size: Size) -> str:
    """Draw recall vs. errors of each named score on the same examples, with the intervals and the cap."""
    with _panel(size) as (axes, svg):
        cap, examples = scores[0][1].cap, scores[0][1].examples
        apart = 1.05 ** (np.arange(len(scores)) - (len(scores) - 1) / 2)
        for (name, score), beside, style in zip(scores, apart, _styles(len(scores)), strict=True):
            curve = score.recall_curve(_POINTS)
            axes.step(curve.errors, curve.recall, where="post", label=escape_math(name), **style)
            low, high, _ = score.interval
            recall = score.recall_at_cap
            bars = [[max(0.0, recall - low)], [max(0.0, high - recall)]]
            axes.errorbar(
                [cap * beside],
                [recall],
                yerr=bars,
                color=_RED if len(scores) == 1 else style["color"],
                fmt="o",
                markersize=3,
                capsize=2.5,
                linewidth=1,
            )
        axes.axvline(cap, color=_GREY, linestyle="--", linewidth=0.8)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        most = max(max(len(score.curve), score.cap) for _, score in scores)
        highest = max(max(float(score.curve[-1] / examples), score.interval.high) for _, score in scores)
        axes.set_xlim(1, most * 1.25)
        axes.set_ylim(0, min(1.0, 1.15 * max(highest, 0.05)))
        axes.set_xlabel(f"errors (wrong rows); dashed line: cap of {cap:,}")
        axes.set_ylabel(f"recall of {examples:,} examples")
        _legend(axes, len(scores))
    return svg.getvalue()


def recall_in_time_panel(
    histories: Sequence[tuple[str, Sequence[tuple[float, float]]]], *, cap: int, size: Size
) -> str:
    """Draw recall at `cap` errors over time. A history has pairs of seconds spent and recall, ascending."""
    return _in_time(histories, label=f"Recall@{cap}", size=size)


def rows_in_time_panel(histories: Sequence[tuple[str, Sequence[tuple[float, float]]]], *, size: Size) -> str:
    """Draw the rows of each submission over time. A history has pairs of seconds spent and rows, ascending."""
    return _in_time(histories, label="rows of the submission", size=size)


def _in_time(histories: Sequence[tuple[str, Sequence[tuple[float, float]]]], *, label: str, size: Size) -> str:
    with _panel(size) as (axes, svg):
        unit, seconds = unit_of_time(max((spent for _, history in histories for spent, _ in history), default=0.0))
        for (name, history), style in zip(histories, _styles(len(histories)), strict=True):
            spent, value = np.array(history, np.float64).reshape(-1, 2).T
            axes.step(spent / seconds, value, where="post", label=escape_math(name), **style)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(f"{unit} of the budget spent")
        axes.set_ylabel(label)
        _legend(axes, len(histories))
    return svg.getvalue()


@contextlib.contextmanager
def _panel(size: Size) -> Iterator[tuple[Axes, io.StringIO]]:
    """Yield axes to draw on and the buffer that holds their SVG after the block."""
    svg = io.StringIO()
    with matplotlib.style.context(["default", LOOK]):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        axes.grid(True)
        yield axes, svg
        figure.savefig(svg, format="svg", transparent=True, metadata={"Date": None})


def _styles(count: int) -> list[dict[str, Any]]:
    """Return line styles. A single line needs no marker."""
    return [{"color": _BLUE}] if count == 1 else [style | {"markersize": 3} for style in line_styles(count)]


def _legend(axes: Axes, count: int) -> None:
    if count > 1:
        axes.legend(loc="best")
