"""The colours of every figure and page, and the line styles that use them. A colour has one meaning everywhere.

- Blue is what a page is about: the run, the corpus, the first of several.
- Grey is what it is compared with: a control, chance, the error cap. Such lines are dashed.
- Green is right or equal, red is wrong or different. No line or bar has these colours.
- The other colours tell further runs, schemes and models apart. On one page a name always has the same one.
"""

from collections.abc import Iterable
from typing import Any

# The first five are distinguishable with colour blindness (Okabe and Ito 2008). 11 colours, 8 markers and 5 dashes
# give 440 styles.
COLOURS = (
    *("#0072b2", "#e69f00", "#cc79a7", "#56b4e9", "#000000"),
    *("#8c5a2b", "#6a3d9a", "#8a8a00", "#17838f", "#26327a", "#9b8cff"),
)
REFERENCE = "#666666"
RISING = ("#f1f6fa", "#9ecae4", "#2f8cc4", "#0b4f86", "#062b4d")
"""Small to large values of a heat map."""
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES = ("solid", "dashed", "dashdot", "dotted", (0, (7, 2, 1, 2, 1, 2)))


def line_style(number: int) -> dict[str, Any]:
    """Return the style of line `number`, from 0: its colour, marker and dashes."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": _MARKERS[number % len(_MARKERS)],
        "linestyle": _DASHES[number % len(_DASHES)],
        "markersize": 4,
        # Markers are evenly spaced, and the first one differs from line to line.
        "markevery": (0.03 * (number % 5), 0.15),
    }


def numbered(names: Iterable[str]) -> dict[str, int]:
    """Return a number for each distinct name, in order: the number of its line style on a page."""
    return {name: number for number, name in enumerate(dict.fromkeys(names))}
