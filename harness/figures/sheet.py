"""The figure that every plot of a document is drawn on: its style, its characters and the layout of its labels."""

import contextlib
import functools
import io
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ft2font import FT2Font
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from harness.core.text import sanitize, shorten

_FILE = Path("fonts") / "ttf" / "DejaVuSansMono.ttf"
STYLE = {  # of every plot in a document
    "svg.hashsalt": "harness",
    "text.parse_math": False,  # a $ in a label must not start mathematics
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
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
NARROW, WIDE = 5.2, 10.6
"""Widths in inches of a chart in half a page and of a chart in a full page."""
INK, SOFT = "#1d2125", "#666666"
CHARACTER = 0.062
"""An upper estimate of the width of a tick label character, in inches."""
# Matplotlib repeats each text in a comment, which could end early at hostile text.
_COMMENT = re.compile(r"\s*<!--.*?-->", re.DOTALL)
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@functools.cache
def drawable_characters() -> frozenset[int]:
    """Return the code points for which the font has a glyph."""
    return frozenset(FT2Font(str(Path(matplotlib.get_data_path()) / _FILE)).get_charmap())


class Drawing(NamedTuple):
    """A chart as SVG text. Equal charts give equal text."""

    svg: str
    is_wide: bool


@contextlib.contextmanager
def sheet(width: float, height: float, *, reserved: float = 0.0) -> Iterator[tuple[Axes, io.StringIO]]:
    """Yield axes to draw on and the buffer that contains their SVG, on white, after the block.

    Sizes are in inches; `reserved` inches stay free above the axes. Equal drawings give equal text, whatever the
    Matplotlib settings of the user are.
    """
    svg = io.StringIO()
    with matplotlib.style.context(["default", STYLE]):
        layout = ConstrainedLayoutEngine(rect=(0, 0, 1, 1 - reserved / height))
        figure = Figure(figsize=(width, height), layout=layout)
        axes = figure.add_subplot()
        axes.set_axisbelow(True)
        yield axes, svg
        # The resolution only matters for images inside the SVG.
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", dpi=200, metadata={"Date": None})
        svg.write(_COMMENT.sub("", drawn.getvalue()))


def drawable_text(text: str, max_length: int) -> str:
    """Return `text` in at most `max_length` characters, all of which are visible and have a glyph."""
    drawable = drawable_characters()
    return "".join(
        character if ord(character) in drawable else "□"
        for character in shorten(sanitize(text[: max_length + 1]), max_length)
    )


def draw_placeholder(axes: Axes, text: str = "nothing yet") -> None:
    """Draw a placeholder for a chart without points."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, text, ha="center", va="center", color=SOFT, transform=axes.transAxes)


class _Labels(NamedTuple):
    """Axis labels: their text and style, their depth below the axis in inches, and the step between two labels."""

    words: list[str]
    style: dict[str, Any]
    depth: float
    step: int


def label_axis(axis: Axis, labels: Sequence[str], *, inches: float, max_length: int) -> None:
    """Label the positions 0, 1, … of a horizontal axis of `inches`: horizontally, slanted or vertically.

    If even vertical labels have no room, only every second, third, … position gets one.
    """
    names = _place_labels(labels, inches, max_length)
    axis.set_ticks(range(0, len(labels), names.step), names.words[:: names.step], **names.style)
    axis.set_tick_params(length=0)


def label_depth(labels: Sequence[str], *, inches: float, max_length: int) -> float:
    """Return how far the labels of `label_axis` reach below the axis, in inches."""
    return _place_labels(labels, inches, max_length).depth


def _place_labels(labels: Sequence[str], inches: float, max_length: int) -> _Labels:
    words = [drawable_text(label, max_length) for label in labels]
    room = inches / max(1, len(words))
    longest = max(map(len, words), default=0)
    fitting = int(room / CHARACTER) - 1
    if longest <= fitting:
        return _Labels(words, {}, 0.2, 1)
    # A line of a wrapped label may exceed the room by a character, because its neighbours are rarely as long.
    broken = [textwrap.wrap(word, fitting + 1, break_long_words=False) for word in words if fitting > 0]
    if fitting > 0 and all(len(lines) <= 2 and all(len(line) <= fitting + 1 for line in lines) for lines in broken):
        return _Labels(["\n".join(lines) for lines in broken], {}, 0.35, 1)
    if room >= 0.3:
        return _Labels(
            words, {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}, longest * CHARACTER * 0.6 + 0.1, 1
        )
    depth = longest * CHARACTER * 0.9 + 0.1
    return _Labels(words, {"rotation": 90, "fontsize": 7}, depth, max(1, math.ceil(0.13 / room)))


class PositionLocator(MaxNLocator):
    """Ticks for positions that are counted from 1: the first tick is 1, the others are round numbers."""

    def __init__(self) -> None:
        super().__init__(integer=True)

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        """Return the ticks of an axis from `vmin` to `vmax`."""
        ticks = np.asarray(super().tick_values(vmin, vmax))
        step = ticks[1] - ticks[0] if len(ticks) > 1 else 1.0
        # A round number next to 1 would leave no room for both labels.
        return [1.0, *ticks[ticks > 1 + step / 2].tolist()]


def format_log_ticks(axis: Axis, low: float, high: float) -> None:
    """Format the ticks of a logarithmic axis from `low` to `high` (> 0); a short axis also gets minor tick labels."""
    formatter = FuncFormatter(lambda value, _: format_power(value))
    axis.set_major_formatter(formatter)
    axis.set_minor_formatter(formatter if high / low < 12 else NullFormatter())


def format_power(value: float) -> str:
    """Return a number as `0.001`, `1,000`, `10⁶` or `2×10⁶`."""
    if value <= 0 or not math.isfinite(value):
        return ""
    if 1e-3 <= value < 1e6:
        return f"{value:,.0f}" if value >= 1 else f"{value:g}"
    mantissa, exponent = f"{value:.0e}".split("e")
    power = f"10{str(int(exponent)).translate(_SUPERSCRIPTS)}"
    return power if mantissa == "1" else f"{mantissa}×{power}"
