"""A plot as rows of cells: its size, its labels, and nothing that covers a curve."""

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.tui.axes import Axis, ClockAxis, ErrorsAxis, axis_up_to
from harness.tui.braille import _EIGHTHS, Cell
from harness.tui.plot import Line, Plot, draw_plot, marker

ERRORS = np.arange(200.0)
RISING = Line(ERRORS, ERRORS / 400, 0, "this run", ERRORS / 500, ERRORS / 300)
FLAT = Line(ERRORS, np.full(200, 0.25), 1, "another run")


def plot_of(*lines: Line, cap: float = 100.0) -> Plot:
    y = axis_up_to("Recall", [line.y for line in lines], min_high=0.05)
    return Plot(ErrorsAxis("errors", 0.0, 220.0), y, lines, mark=(cap, f"cap {cap:,.0f}"))


def text_of(rows: list[list[Cell]]) -> list[str]:
    return ["".join(cell.character for cell in row) for row in rows]


def y_labels(rows: list[str]) -> list[str]:
    return [row.partition("┤")[0].strip() for row in rows if "┤" in row]


@st.composite
def plots(draw: st.DrawFn) -> Plot:
    lines = []
    for number in range(draw(st.integers(0, 4))):
        size = draw(st.integers(0, 6))
        x = np.sort(np.array(draw(st.lists(st.floats(0, 300), min_size=size, max_size=size)), np.float64))
        values = st.floats(-1, 1e6) | st.sampled_from([float("nan"), float("inf")])
        y = np.array(draw(st.lists(values, min_size=size, max_size=size)), np.float64)
        label = draw(st.text(max_size=40))
        lines.append(Line(x, y, draw(st.sampled_from([None, number])), label, is_marked=draw(st.booleans())))
    x_axis = draw(st.sampled_from([ErrorsAxis("errors", 0.0, 300.0), ClockAxis("time", 0.0, 300.0)]))
    title = draw(st.sampled_from(["Recall", "a title that no narrow plot has room for, however it is cut"]))
    mark = draw(st.none() | st.tuples(st.floats(0, 400), st.just("cap 100")))
    return Plot(x_axis, axis_up_to(title, [line.y for line in lines], min_high=0.05), lines, mark=mark)


@given(plot=plots(), width=st.integers(12, 130), height=st.integers(3, 40))
def test_every_row_has_exactly_the_width(plot: Plot, width: int, height: int) -> None:
    rows = draw_plot(plot, width, height)
    assert len(rows) == height
    assert {len(row) for row in rows} == {width}
    assert all(len(cell.character) == 1 and cell.character.isprintable() for row in rows for cell in row)


@given(
    highest=st.floats(1e-3, 1e9),
    width=st.integers(40, 130),
    height=st.integers(7, 40),
)
def test_the_y_axis_has_two_different_labels_at_any_size(highest: float, width: int, height: int) -> None:
    line = Line(ERRORS, ERRORS / 200 * highest)
    plot = Plot(ErrorsAxis("errors", 0.0, 200.0), axis_up_to("value", [line.y], min_high=1e-9), [line])
    labels = y_labels(text_of(draw_plot(plot, width, height)))
    assert len(labels) >= 2 and len(set(labels)) == len(labels)


def test_the_x_axis_has_two_labels_and_its_title() -> None:
    *_, axis, labels = text_of(draw_plot(plot_of(RISING), 60, 12))
    assert axis.count("┴") >= 2
    assert labels.split()[:2] == ["0", "1"] and "errors" in labels


@given(highest=st.floats(110, 1e6), width=st.integers(50, 130), cap=st.sampled_from([1, 16, 100]))
def test_0_1_the_cap_and_each_power_of_ten_that_has_room_are_on_the_axis_of_errors(
    highest: float, width: int, cap: int
) -> None:
    axis = ErrorsAxis("", 0.0, highest)
    *_, line, labels = text_of(draw_plot(Plot(axis, Axis("Recall", 0.0, 1.0), mark=(cap, f"cap {cap}")), width, 12))
    assert {"0", "1", str(cap)} <= set(labels.split()) and line.count("┴") == len(labels.split())
    start, end = line.index("└") + 1, len(line.rstrip()) - 1
    for power in (10, 100, 1_000, 10_000, 100_000):
        label = f"{power:,}"
        if power <= highest and label not in labels.split():
            place = start + round(float(axis.fractions(np.array(power))) * (end - start)) - len(label) // 2
            assert labels[min(place, width - len(label)) - 1 :][: len(label) + 2].strip()


def test_the_cap_line_and_its_label_cover_no_curve() -> None:
    bare = draw_plot(replace(plot_of(RISING, FLAT), mark=None), 60, 16)
    marked = draw_plot(plot_of(RISING, FLAT), 60, 16)
    assert any("cap 100" in row for row in text_of(marked))
    for before, after in zip(bare, marked, strict=True):
        for old, new in zip(before, after, strict=True):
            if old.character not in _EIGHTHS:
                assert new.curve == old.curve
                assert old.character == new.character or ord(new.character) & ord(old.character) == ord(old.character)


def test_labels_at_the_ends_are_one_per_row() -> None:
    same = [replace(FLAT, number=number, label=f"a run with the long name {number}") for number in range(3)]
    rows = text_of(draw_plot(plot_of(*same), 90, 14))
    labelled = [row.rstrip()[-26:] for row in rows if "a run with" in row]
    assert sorted(labelled) == [f"a run with the long name {number}" for number in range(3)]


@pytest.mark.parametrize(("name", "width"), [("greedy", 56), ("contrastive_search", 56), ("z" * 28, 95)])
def test_six_curves_have_their_whole_names(name: str, width: int) -> None:
    labels = [f"ab{number}d {name}" for number in range(6)]
    lines = [replace(FLAT, number=number, label=label, is_marked=True) for number, label in enumerate(labels)]
    text = "\n".join(text_of(draw_plot(plot_of(*lines), width, 17)))
    assert all(f"{marker(number)} {label}" in text for number, label in enumerate(labels)) and "…" not in text


def test_a_narrow_plot_has_a_legend_above() -> None:
    title, *_ = text_of(draw_plot(plot_of(RISING, FLAT), 60, 14))
    assert "Recall" in title and "━ this run" in title and "━ another run" in title


def test_markers_of_curves_are_apart_and_those_of_the_legend() -> None:
    lines = [replace(FLAT, number=number, label=str(number), is_marked=True) for number in range(3)]
    rows = text_of(draw_plot(plot_of(*lines), 90, 14))
    area = "\n".join(row[:80] for row in rows)
    assert all(area.count(marker(number)) >= 3 for number in range(3))


def test_bars_are_over_their_bins() -> None:
    counts = np.array([0.0, 4.0, 2.0, 0.0])
    plot = Plot(Axis("score", -2.0, 2.0), axis_up_to("Examples", [counts], min_high=1.0), bars=counts)
    *area, _, labels = text_of(draw_plot(plot, 46, 12))
    heights = [sum(row[column] != " " for row in area[1:]) for column in (8, 18, 28, 38)]
    assert heights[0] == heights[3] == 0 and heights[1] > heights[2] > 0
    assert labels.split()[0] == "-2" and labels.split()[-1] == "2"


@pytest.mark.parametrize("width", [12, 30, 120])
def test_an_empty_plot_has_axes(width: int) -> None:
    rows = text_of(draw_plot(Plot(ClockAxis("time", 0.0, 60.0), Axis("value", 0.0, 1.0)), width, 8))
    assert len(y_labels(rows)) >= 2 and "┴" in rows[-2]


def test_plots_that_look_the_same_have_the_same_bytes() -> None:
    rising = pickle.dumps(plot_of(RISING))
    assert rising == pickle.dumps(plot_of(replace(RISING, y=RISING.y.copy())))
    assert rising != pickle.dumps(plot_of(replace(RISING, y=RISING.y + 1e-9)))
    assert all(one != other for one, other in pairwise([rising, pickle.dumps(plot_of(FLAT)), pickle.dumps(plot_of())]))
