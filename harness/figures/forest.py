"""Draw a forest plot: differences with their intervals, one below the other, around a line at zero."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.ticker import MaxNLocator

from harness.figures.palette import COLOURS, REFERENCE
from harness.figures.sheet import WIDE, Drawing, draw_placeholder, drawable_text, sheet

MOST_ROWS = 60
_ROW, _AXIS = 0.24, 0.62
_NAME = 60


class ForestRow(NamedTuple):
    """One difference, its interval or None, and whether it is drawn as different from zero."""

    name: str
    difference: float
    interval: tuple[float, float] | None
    is_different: bool


def forest_panel(rows: Sequence[ForestRow], *, label: str) -> Drawing:
    """Draw the first MOST_ROWS rows as SVG, from top to bottom. `label` names the axis. Equal rows give equal text.

    A difference without an interval is drawn as an open point.
    """
    drawn = rows[:MOST_ROWS]
    with sheet(WIDE, _AXIS + _ROW * max(3, len(drawn))) as (axes, svg):
        if not drawn:
            draw_placeholder(axes)
        else:
            axes.axvline(0.0, color=REFERENCE, linestyle="--", linewidth=0.8)
            for place, row in enumerate(drawn):
                colour = COLOURS[0] if row.is_different else REFERENCE
                if row.interval is not None:
                    axes.plot(row.interval, (place, place), color=colour, linewidth=1.2, solid_capstyle="butt")
                filled = colour if row.interval is not None else "none"
                axes.plot([row.difference], [place], "o", color=colour, markerfacecolor=filled, markersize=4)
            axes.set_yticks(range(len(drawn)), [drawable_text(row.name, _NAME) for row in drawn])
            axes.set_ylim(len(drawn) - 0.4, -0.6)
            axes.tick_params(axis="y", length=0)
            axes.grid(True, axis="x")
            axes.xaxis.set_major_locator(MaxNLocator(9))
            axes.set_xlabel(drawable_text(label, 90))
    return Drawing(svg.getvalue(), is_wide=True)
