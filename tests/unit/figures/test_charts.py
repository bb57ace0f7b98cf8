"""Charts and panels: reproducible SVG for any text and any numbers, with a placeholder if there is no data."""

import functools
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import matplotlib
import numpy as np
import pytest

from harness.core.findings import BarChart, Chart, HeatMap, LineChart, Series
from harness.figures.charts import draw_charts
from harness.figures.palette import COLOURS, REFERENCE
from harness.figures.sheet import Drawing, PositionLocator

HOSTILE = "</svg><script>x</script> & -- \x1b[31m\u202e\x00\ud800 $x_{ \\frac 漢字 " + "long " * 400
NUMBERS = np.arange(1, 11)
NONE = np.zeros(0)


def lines(series: list[Series], *, name: str = "a", x: bool = False, y: bool = False) -> LineChart:
    return LineChart(name, name, name, name, series, is_x_logarithmic=x, is_y_logarithmic=y, has_markers=True)


def bars(name: str, values: np.ndarray, labels: list[str], *, spread: float | None = None) -> BarChart:
    bounds = {} if spread is None else {"low": values - spread, "high": values + spread}
    groups = [f"{name} {number}" for number in range(len(values))]
    return BarChart(name, name, name, labels, groups, values, reference=0.5, **bounds)


def heat(name: str, values: np.ndarray, *, words: bool = True, is_diverging: bool = False) -> HeatMap:
    rows, columns = values.shape
    written = [[name] * columns] * rows if words else None
    return HeatMap(name, name, [name] * rows, [name] * columns, values, written, is_diverging)


CHARTS: dict[str, Chart] = {
    "lines": lines([Series("one", NUMBERS, NUMBERS / 10, NUMBERS / 11, NUMBERS / 9), Series("two", NUMBERS, NUMBERS)]),
    "references": lines([Series(str(n), NUMBERS, NUMBERS * n, is_dashed=n % 2 == 0) for n in range(6)], x=True, y=True),
    "hostile lines": lines([Series(HOSTILE, NUMBERS, NUMBERS), Series(HOSTILE, NUMBERS, NUMBERS)], name=HOSTILE),
    "no points": lines([Series("a", NONE, NONE), Series("b", NUMBERS, np.full(10, np.nan))]),
    "no series": lines([]),
    "nothing above zero": lines([Series("a", NUMBERS, -NUMBERS.astype(float))], y=True),
    "infinite": lines([Series("a", np.r_[NUMBERS, np.inf], np.r_[np.inf, NUMBERS])]),
    "one point": lines([Series("a", np.array([3]), np.array([0.0]), np.array([0.0]), np.array([0.0]))]),
    "bound at zero": lines([Series("a", NUMBERS, 0.1**NUMBERS, NUMBERS * 0.0, 0.2**NUMBERS)], y=True),
    "bars": bars("share", np.array([[0.2, 0.4], [np.nan, 0.1]]), ["first", "second"], spread=0.1),
    "hostile bars": bars(HOSTILE, np.array([[0.2, 0.4], [0.3, 0.1]]), [HOSTILE, HOSTILE], spread=0.1),
    "no bars": bars("share", np.zeros((1, 0)), []),
    "many bars": bars("share", np.full((1, 90), 0.6), ["a rather long label"] * 90),
    "heat": heat("cell", np.arange(6.0).reshape(2, 3), is_diverging=True),
    "hostile heat": heat(HOSTILE, np.array([[0.0, np.nan], [np.inf, 0.0]])),
    "no heat": heat("cell", np.zeros((0, 0))),
    "banded heat": replace(heat("cell", np.linspace(0, 1, 12).reshape(2, 6), words=False), bounds=(0.1, 0.5)),
    "banded strip": replace(heat("cell", np.random.default_rng(1).random((2, 400)), words=False), bounds=(0.1, 0.5)),
    "large heat": heat("cell", np.random.default_rng(0).random((60, 50)), words=False),
}


@functools.cache
def drawn(name: str) -> Drawing:
    return draw_charts([CHARTS[name]])[0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_well_formed_and_reproducible(name: str) -> None:
    first = drawn(name)
    root = ElementTree.fromstring(first.svg)
    assert root.tag.endswith("svg")
    assert not [
        element for element in root.iter() if str(element.tag).split("}")[-1] in ("script", "foreignObject", "a")
    ]
    targets = re.findall(r'href="([^"]*)"', first.svg)
    assert all(target.startswith(("#", "data:image/png;base64,")) for target in targets)
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "text.parse_math": True}):
        assert draw_charts([CHARTS[name]]) == [first]


def test_the_svg_has_no_comments() -> None:
    chart = lines([Series("whisper", NUMBERS, NUMBERS), Series("b", NUMBERS, NUMBERS)], name="murmur")
    svg = draw_charts([chart])[0].svg
    assert "<!--" not in svg and "whisper" not in svg and "murmur" not in svg


def test_many_points_make_a_small_file() -> None:
    many = np.arange(1, 100_001)
    for x in (True, False):
        assert len(draw_charts([lines([Series("a", many, np.sqrt(many))], x=x)])[0].svg) < 150_000
    assert len(draw_charts([heat("", np.zeros((100, 500)), words=False)])[0].svg) < 200_000


def test_a_chart_with_many_labels_is_wide() -> None:
    assert not drawn("bars").is_wide
    assert drawn("many bars").is_wide and drawn("large heat").is_wide


def test_a_chart_has_a_white_background() -> None:
    assert "fill: #ffffff" in drawn("bars").svg


@pytest.mark.parametrize("last", [2, 4, 50, 400, 100_000])
def test_ticks_of_positions_begin_at_one(last: int) -> None:
    ticks = np.array(PositionLocator().tick_values(1 - 0.02 * last, 1.02 * last))
    assert ticks[0] == 1 and (np.diff(ticks) >= 1).all() and len(ticks) > 1


def test_a_name_has_one_colour_in_all_charts_of_a_page() -> None:
    first = lines([Series("a", NUMBERS, NUMBERS), Series("b, rate 3", NUMBERS, NUMBERS, key="b")])
    second = lines([Series("b", NUMBERS, NUMBERS)])
    third = BarChart("c", "c", "c", ["x"], ["chance", "b"], np.ones((2, 1)), controls=("chance",))
    drawings = [drawing.svg for drawing in draw_charts([first, second, third])]
    assert COLOURS[0] in drawings[0] and COLOURS[0] not in drawings[1] + drawings[2]
    assert all(COLOURS[1] in svg for svg in drawings)
    assert f"fill: {REFERENCE}" in drawings[2]


def test_no_line_or_bar_is_red_or_green() -> None:
    for colour in COLOURS:
        red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
        assert not (red > 1.6 * green and red > 1.6 * blue) and not (green > 1.3 * red and green > 1.3 * blue)
