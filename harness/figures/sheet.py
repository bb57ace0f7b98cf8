"""The sheet that a chart is drawn on: its look, its title, and words from anywhere made fit to be drawn.

It knows nothing of what is drawn.
"""

import contextlib
import io
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import matplotlib
import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, NullFormatter

from harness.core.text import sanitize, shorten
from harness.figures.glyphs import drawable_characters
from harness.figures.panels import LOOK

NARROW, WIDE = 5.2, 10.6
"""Widths in inches: of one of two charts side by side on a page, and of one that stands alone."""
INK, SOFT = "#1d2125", "#666666"
CHARACTER = 0.062
"""The width of a character of the tick labels, in inches, on the generous side."""
TITLE = 0.25
"""The height of a title, in inches."""
_TITLE_FONT = 9.5
_INSET = 0.05
# What the words say stands in the comments too.
_COMMENT = re.compile(r"\s*<!--.*?-->", re.DOTALL)
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Drawing(NamedTuple):
    """A chart as SVG text, in the order of its making: equal charts give equal text."""

    svg: str
    is_wide: bool


@contextlib.contextmanager
def sheet(width: float, height: float, title: str, *, reserved: float = 0.0) -> Iterator[tuple[Axes, io.StringIO]]:
    """Axes to draw on, and where their SVG is once the block has ended. Sizes in inches; `reserved` ones are kept free
    between the title and the axes.

    With a title the sheet is white paper, a file of its own; with an empty one it is clear, and part of a page.
    """
    svg = io.StringIO()
    # Nobody's $ is mathematics here.
    with matplotlib.style.context(["default", LOOK, {"text.parse_math": False, "axes.edgecolor": SOFT}]):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.add_subplot()
        axes.set_axisbelow(True)
        below = 1 - TITLE * bool(title) / height
        if title:
            words = drawable(title, int(width / CHARACTER * 0.8))
            figure.text(_INSET / width, below, words, va="bottom", fontsize=_TITLE_FONT, color=INK)
        layout = figure.get_layout_engine()
        assert isinstance(layout, ConstrainedLayoutEngine)
        layout.set(rect=(0, 0, 1, below - reserved / height))
        yield axes, svg
        # An image inside is as fine as this asks; lines are lines.
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", dpi=200, transparent=not title, metadata={"Date": None})
        svg.write(_COMMENT.sub("", drawn.getvalue()))


def drawable(text: str, most: int) -> str:
    """`text` in at most `most` characters, each of which is seen and has a glyph."""
    known = drawable_characters()
    return "".join(
        character if ord(character) in known else "□" for character in shorten(sanitize(text[: most + 1]), most)
    )


def say_that_nothing_is_there(axes: Axes) -> None:
    """In place of a chart without any point."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, "nothing yet", ha="center", va="center", color=SOFT, transform=axes.transAxes)


class _Names(NamedTuple):
    """Labels as they are set side by side, how far they reach down (in inches), and each how many is named."""

    words: list[str]
    style: dict[str, Any]
    depth: float
    step: int


def name_along(axis: Axis, labels: Sequence[str], *, inches: float, most: int) -> None:
    """Label the places 0 … of an axis that runs from left to right over `inches`: level, slanted, or upright.

    Where not even upright labels have room, every second, third … is named.
    """
    names = _names(labels, inches, most)
    axis.set_ticks(range(0, len(labels), names.step), names.words[:: names.step], **names.style)
    axis.set_tick_params(length=0)


def depth_of_names(labels: Sequence[str], *, inches: float, most: int) -> float:
    """How far below the axis the labels of `name_along` reach, in inches."""
    return _names(labels, inches, most).depth


def _names(labels: Sequence[str], inches: float, most: int) -> _Names:
    words = [drawable(label, most) for label in labels]
    room = inches / max(1, len(words))
    longest = max(map(len, words), default=0)
    fitting = int(room / CHARACTER) - 1
    if longest <= fitting:
        return _Names(words, {}, 0.2, 1)
    # Of broken labels few lines are as long as the room, and hardly ever those side by side.
    broken = [textwrap.wrap(word, fitting + 1, break_long_words=False) for word in words if fitting > 0]
    if fitting > 0 and all(len(lines) <= 2 and all(len(line) <= fitting + 1 for line in lines) for lines in broken):
        return _Names(["\n".join(lines) for lines in broken], {}, 0.35, 1)
    if room >= 0.3:
        return _Names(
            words, {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}, longest * CHARACTER * 0.6 + 0.1, 1
        )
    depth = longest * CHARACTER * 0.9 + 0.1
    return _Names(words, {"rotation": 90, "fontsize": 7}, depth, max(1, math.ceil(0.13 / room)))


def number_powers(axis: Axis, low: float, high: float) -> None:
    """Plain figures on a logarithmic axis from `low` to `high`, both above 0; further ones where it is short."""
    shown = FuncFormatter(lambda value, _: power_in_words(value))
    axis.set_major_formatter(shown)
    axis.set_minor_formatter(shown if high / low < 12 else NullFormatter())


def power_in_words(value: float) -> str:
    """`0.001`, `1,000`, `10⁶`, `2×10⁶`."""
    if value <= 0 or not math.isfinite(value):
        return ""
    if 1e-3 <= value < 1e6:
        return f"{value:,.0f}" if value >= 1 else f"{value:g}"
    mantissa, exponent = f"{value:.0e}".split("e")
    power = f"10{str(int(exponent)).translate(_SUPERSCRIPTS)}"
    return power if mantissa == "1" else f"{mantissa}×{power}"
