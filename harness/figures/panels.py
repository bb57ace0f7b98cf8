"""Draw single plots as SVG text for documents: recall vs. errors, or a value over time, of one or more runs.

Equal data give equal text, whatever the Matplotlib settings of the user are.
"""

import contextlib
import io
from collections.abc import Iterator, Sequence

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.core.scoring import Score
from harness.figures.curves import History, draw_in_time, draw_recall

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
    """Draw recall vs. errors of each labelled score on the same examples, with the intervals and the cap."""
    with _panel(size) as (axes, svg):
        draw_recall(axes, scores)
    return svg.getvalue()


def history_panel(histories: Sequence[tuple[str, History]], *, label: str, size: Size) -> str:
    """Draw a value over time for each labelled history. `label` names the value."""
    with _panel(size) as (axes, svg):
        draw_in_time(axes, histories, label=label)
    return svg.getvalue()


@contextlib.contextmanager
def _panel(size: Size) -> Iterator[tuple[Axes, io.StringIO]]:
    """Yield axes to draw on and the buffer that holds their SVG after the block."""
    svg = io.StringIO()
    with matplotlib.style.context(["default", LOOK]):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        yield axes, svg
        figure.savefig(svg, format="svg", transparent=True, metadata={"Date": None})
