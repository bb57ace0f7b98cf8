"""The grid of braille dots: what is drawn stays visible, whatever is drawn later."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.core.arrays import Floats
from harness.tui.braille import BACKGROUND, TINT, BrailleGrid

ROWS, COLUMNS = 6, 20
BLANK = 0x2800


def dots(grid: BrailleGrid) -> np.ndarray:
    """Return the dots of each cell as the bits of its character, [rows, columns]."""
    characters = [[cell.character for cell in row] for row in grid.cells()]
    return np.array([[max(0, ord(one) - BLANK) for one in row] for row in characters])


@st.composite
def curves(draw: st.DrawFn) -> tuple[Floats, Floats]:
    """A curve of 1 to 12 points in the unit square, and beyond it."""
    size = draw(st.integers(1, 12))
    numbers = st.lists(st.floats(-0.5, 1.5), min_size=size, max_size=size)
    return np.sort(np.array(draw(numbers))), np.array(draw(numbers))


@given(first=curves(), second=curves())
def test_curves_that_share_a_cell_merge_their_dots(first: tuple[Floats, Floats], second: tuple[Floats, Floats]) -> None:
    alone = [BrailleGrid(ROWS, COLUMNS) for _ in range(2)]
    both = BrailleGrid(ROWS, COLUMNS)
    for number, curve in enumerate((first, second)):
        alone[number].draw_curve(*curve, number)
        both.draw_curve(*curve, number)
    assert (dots(both) == (dots(alone[0]) | dots(alone[1]))).all()


@given(curve=curves(), place=st.floats(0, 1))
def test_a_vertical_line_keeps_the_dots_and_the_colours_of_a_curve(curve: tuple[Floats, Floats], place: float) -> None:
    alone, both = BrailleGrid(ROWS, COLUMNS), BrailleGrid(ROWS, COLUMNS)
    alone.draw_curve(*curve, 3)
    both.draw_curve(*curve, 3)
    both.draw_vertical(place, 9)
    assert ((dots(both) & dots(alone)) == dots(alone)).all()
    for before, after in zip(alone.cells(), both.cells(), strict=True):
        assert all(new.curve == 3 for old, new in zip(before, after, strict=True) if old.curve == 3)


@given(curve=curves(), place=st.floats(0, 1), label=st.text("abc 0123456789", max_size=30))
def test_the_label_of_a_line_covers_no_curve(curve: tuple[Floats, Floats], place: float, label: str) -> None:
    grid = BrailleGrid(ROWS, COLUMNS)
    grid.draw_curve(*curve, 0)
    before = grid.cells()
    grid.write_next_to(place, label, 9)
    for old_row, new_row in zip(before, grid.cells(), strict=True):
        assert all(new == old for old, new in zip(old_row, new_row, strict=True) if old.character != " ")


def test_a_jump_of_a_step_curve_is_a_vertical_line() -> None:
    grid = BrailleGrid(4, 10)
    grid.draw_curve(np.array([0.0, 0.5, 1.0]), np.array([0.0, 1.0, 1.0]), 0)
    shown = dots(grid)
    (jump,) = np.flatnonzero((shown > 0).all(axis=0)).tolist()
    assert jump in (4, 5)
    assert (shown[3, :jump] > 0).all() and not shown[:3, :jump].any() and not shown[1:, jump + 1 :].any()


def test_a_band_fills_the_cells_between_its_bounds() -> None:
    grid = BrailleGrid(4, 5)
    x = np.array([0.0, 1.0])
    grid.draw_band(x, np.array([0.3, 0.3]), np.array([0.6, 0.6]), 2)
    # Of 32 eighths, 0.3 to 0.6 are those from the 10th to the 19th.
    edges = [{(cell.character, cell.curve, cell.band) for cell in row} for row in grid.cells()]
    assert edges == [{(" ", -1, -1)}, {("▃", TINT + 2, -1)}, {("▂", BACKGROUND, 2)}, {(" ", -1, -1)}]
    assert not dots(grid).any()
    grid.draw_curve(x, np.array([0.5, 0.5]), 0)
    under_curve = dots(grid).any(axis=1)
    assert [
        {cell.band for cell in row} for row, is_under in zip(grid.cells(), under_curve, strict=True) if is_under
    ] == [{2}]


def test_a_curve_without_points_draws_nothing() -> None:
    grid = BrailleGrid(3, 3)
    grid.draw_curve(np.zeros(0), np.zeros(0), 0)
    grid.draw_band(np.zeros(0), np.zeros(0), np.zeros(0), 0)
    assert not dots(grid).any()
