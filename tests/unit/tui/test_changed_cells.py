"""The cells that are written to a terminal: after them it shows the new picture, and little was written."""

import re
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from rich.ansi import AnsiDecoder
from rich.cells import get_character_cell_size
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from harness.tui.overrides import ChangedCells

Cell = tuple[str, str]
CONSOLE = Console(color_system="truecolor", force_terminal=True)
WIDTH = 24
STYLES = [
    Style(),
    Style(color="#ff0000"),
    Style(bold=True, bgcolor="#000080"),
    Style(color="#ff0000", bgcolor="#000080"),
    Style(bold=True, underline=True, color="#ff0000"),
]
SEQUENCE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")


def strip_of(text: str, style: int) -> Strip:
    return Strip([Segment(text, STYLES[style])]).adjust_cell_length(WIDTH, STYLES[0])


def lines() -> st.SearchStrategy[list[Strip]]:
    line = st.builds(strip_of, st.text("ab 文é", max_size=WIDTH), st.integers(0, len(STYLES) - 1))
    return st.lists(line, min_size=3, max_size=3)


def cells_of(text: Iterable[Segment]) -> list[Cell]:
    """Return the characters with their styles; a wide one has an empty cell behind it."""
    cells: list[Cell] = []
    for segment in text:
        style = segment.style or Style()
        # A terminal's own colour is none.
        colours = [None if colour is None or colour.is_default else colour for colour in (style.color, style.bgcolor)]
        look = str(Style(color=colours[0], bgcolor=colours[1], bold=style.bold, underline=style.underline))
        for character in segment.text:
            cells += [(character, look), *[("", look)] * (get_character_cell_size(character) - 1)]
    return cells


def shown_after(before: list[Strip], output: str) -> list[list[Cell]]:
    """Return the cells that a terminal shows when it gets `output`: pieces of text, each after its position."""
    shown, decoder = [cells_of(strip) for strip in before], AnsiDecoder()
    beginning, *pieces = re.split(r"\x1b\[(\d+;\d+)H", output)
    assert not beginning
    for position, piece in zip(pieces[::2], pieces[1::2], strict=True):
        row, column = (int(number) - 1 for number in position.split(";"))
        cells = cells_of(decoder.decode_line(piece).render(CONSOLE))
        shown[row][column : column + len(cells)] = cells
    assert decoder.style == Style()
    return shown


@given(lines(), lines())
def test_a_terminal_that_gets_the_changed_cells_shows_the_new_picture(before: list[Strip], now: list[Strip]) -> None:
    assert shown_after(before, ChangedCells(before, now).render_segments(CONSOLE)) == [cells_of(strip) for strip in now]


@given(lines())
def test_the_same_picture_writes_nothing(shown: list[Strip]) -> None:
    assert ChangedCells(shown, list(shown)).render_segments(CONSOLE) == ""


def test_one_changed_digit_writes_one_cell() -> None:
    before, now = [strip_of("12 of 20 done", 1)], [strip_of("13 of 20 done", 1)]
    written = ChangedCells(before, now).render_segments(CONSOLE)
    assert SEQUENCE.sub("", written) == "3"


def test_a_changed_colour_is_written() -> None:
    written = ChangedCells([strip_of("x", 0)], [strip_of("x", 1)]).render_segments(CONSOLE)
    assert SEQUENCE.sub("", written) == "x"


def test_everything_is_written_to_a_terminal_whose_content_is_unknown() -> None:
    written = ChangedCells([], [strip_of("abc", 0)]).render_segments(CONSOLE)
    assert SEQUENCE.sub("", written) == "abc".ljust(WIDTH)


def test_a_terminal_without_colours_gets_text_and_places() -> None:
    written = ChangedCells([], [strip_of("abc", 1)]).render_segments(Console(color_system=None))
    assert written == "\x1b[1;1H\x1b[0m" + "abc".ljust(WIDTH) + "\x1b[0m"
