"""The layout of a table: each row is as wide as the table, and cut text ends in an ellipsis."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from harness.tui.columns import GAP, Column, Layout, Row, Span, fit, lay_out, sorted_rows

COLUMN = st.builds(
    Column,
    st.text("abcdefgh ", max_size=12),
    width=st.sampled_from([0, 0, 5, 14]),
    min_width=st.sampled_from([0, 6, 10]),
    fills=st.booleans(),
    is_right=st.booleans(),
)
CELL = st.text(max_size=40) | st.lists(st.tuples(st.text(max_size=12), st.sampled_from(["", "good"])), max_size=3)


def width_of(spans: Sequence[Span]) -> int:
    return sum(cell_len(text) for text, _ in spans)


def row_width(layout: Layout) -> int:
    return sum(layout.widths) + GAP * (len(layout.widths) - 1)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Column], list[Row]]:
    columns = draw(st.lists(COLUMN, min_size=1, max_size=7))
    cells = st.lists(CELL, min_size=len(columns), max_size=len(columns))
    return columns, [Row(str(number), one) for number, one in enumerate(draw(st.lists(cells, max_size=4)))]


@given(table=tables(), available=st.integers(8, 120), first=st.integers(1, 6))
def test_the_shown_columns_fit_and_the_first_one_is_frozen(
    table: tuple[list[Column], list[Row]], available: int, first: int
) -> None:
    columns, rows = table
    layout = lay_out(columns, rows, available, first=first)
    assert layout.numbers[0] == 0
    assert list(layout.numbers) == sorted(set(layout.numbers))
    assert row_width(layout) <= available
    hidden = set(range(len(columns))) - set(layout.numbers)
    assert bool(hidden) == (layout.hides_left or layout.hides_right)
    assert layout.hides_right == (layout.numbers[-1] < len(columns) - 1)


@given(cell=CELL, width=st.integers(1, 60), is_right=st.booleans())
def test_a_cell_is_exactly_as_wide_as_its_column(cell: str | list[Span], width: int, is_right: bool) -> None:
    (spans,) = Row("key", [cell]).cells
    assert not callable(spans)
    found = fit(spans, width, is_right=is_right)
    assert width_of(found) == width
    text = "".join(part for part, _ in found)
    assert text.isprintable()
    if width_of(spans) > width:
        assert text.endswith("…")


@given(table=tables(), available=st.integers(8, 120), x=st.integers(-3, 130))
def test_a_position_is_that_of_the_column_drawn_there(
    table: tuple[list[Column], list[Row]], available: int, x: int
) -> None:
    layout = lay_out(*table, available, first=1)
    drawn = [
        number
        for number, width in zip(layout.numbers, layout.widths, strict=True)
        for number in [number] * width + [None] * GAP
    ]
    assert layout.column_at(x) == (drawn[x] if 0 <= x < len(drawn) else None)


def test_a_scrolled_table_keeps_the_first_column() -> None:
    columns = [Column(f"column {number}", width=10) for number in range(6)]
    assert lay_out(columns, [], 36, first=1) == Layout((0, 1, 2), (10, 10, 10), False, True)
    assert lay_out(columns, [], 36, first=4).numbers == (0, 4, 5)
    assert lay_out(columns, [], 36, first=4).hides_left


def test_columns_shrink_before_any_is_hidden_and_one_takes_the_rest() -> None:
    columns = [Column("name", min_width=8), Column("n", width=3), Column("note", fills=True, min_width=4)]
    rows = [Row("1", ["x" * 30, "1", ""])]
    assert lay_out(columns, rows, 80, first=1).widths == (30, 3, 43)
    narrow = lay_out(columns, rows, 24, first=1)
    assert narrow.numbers == (0, 1, 2) and row_width(narrow) <= 24 and narrow.widths[0] < 30


def test_a_heading_does_not_widen_a_column() -> None:
    columns = [Column("a"), Column("b")]
    rows = [Row("heading", [["x" * 50]], spans=True), Row("1", ["one", "two"])]
    assert lay_out(columns, rows, 80, first=1).widths == (3, 3)


def test_a_lazy_row_is_made_when_it_is_drawn() -> None:
    made: list[str] = []

    def cells() -> list[str]:
        made.append("cells")
        return ["one"]

    row = Row("key", cells)
    lay_out([Column("a")], [row], 20, first=1)
    assert made == []
    assert row.cells == ((("one", ""),),) and row.cells and made == ["cells"]


def test_rows_are_sorted_by_numbers_times_or_texts_with_gaps_last() -> None:
    def rows(*texts: str) -> list[Row]:
        return [Row(text, ["x", text]) for text in texts]

    def order(*texts: str) -> tuple[list[str], bool]:
        found, is_descending = sorted_rows([Row("heading", ["a heading"], spans=True), *rows(*texts)], 1)
        assert found[-1].key == "heading"
        return [row.key for row in found[:-1]], is_descending

    assert order("–", "1,000", "0.5", "20%") == (["1,000", "20%", "0.5", "–"], True)
    assert order("0:59", "1:00:00", "10:00") == (["1:00:00", "10:00", "0:59"], True)
    assert order("b", "", "A") == (["A", "b", ""], False)
