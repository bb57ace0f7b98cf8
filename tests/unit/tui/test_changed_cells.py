"""The cells that are written to a terminal: after them it shows the new picture, and little was written."""

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import get_character_cell_size
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from harness.tui.overrides import ChangedCells

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


def cells_of(strip: Strip) -> list[tuple[str, tuple[str, ...]]]:
    """Return the characters with the codes of their styles."""
    cells = []
    for segment in strip:
        style = segment.style or Style()
        codes = () if style.color is None else ("38", "2", *map(str, style.color.get_truecolor()))
        codes += () if style.bgcolor is None else ("48", "2", *map(str, style.bgcolor.get_truecolor()))
        codes += ("1",) * bool(style.bold) + ("4",) * bool(style.underline)
        for character in segment.text:
            cells += [(character, codes), *[("", codes)] * (get_character_cell_size(character) - 1)]
    return cells


class Terminal:
    """The cells that a terminal shows; it knows the sequences that move the cursor and change the style."""

    def __init__(self, shown: list[Strip]) -> None:
        self.lines = [cells_of(strip) for strip in shown]
        self.foreground: tuple[str, ...] = ()
        self.background: tuple[str, ...] = ()
        self.attributes: set[str] = set()

    def write(self, output: str) -> None:
        row = column = position = 0
        while position < len(output):
            if (match := SEQUENCE.match(output, position)) is not None:
                if match[2] == "H":
                    row, column = (int(number) - 1 for number in match[1].split(";"))
                else:
                    self.change_style(match[1].split(";"))
                position = match.end()
                continue
            character = output[position]
            codes = (*self.foreground, *self.background, *sorted(self.attributes))
            for cell in (character, *[""] * (get_character_cell_size(character) - 1)):
                self.lines[row][column] = (cell, codes)
                column += 1
            position += 1

    def change_style(self, codes: list[str]) -> None:
        while codes:
            code = codes.pop(0)
            if code == "0":
                self.foreground, self.background, self.attributes = (), (), set()
            elif code in ("38", "48"):
                colour = (code, *(codes.pop(0) for _ in range(4)))
                self.foreground, self.background = (
                    (colour, self.background) if code == "38" else (self.foreground, colour)
                )
            elif code == "39":
                self.foreground = ()
            elif code == "49":
                self.background = ()
            else:
                self.attributes.add(code)


@given(lines(), lines())
def test_a_terminal_that_gets_the_changed_cells_shows_the_new_picture(before: list[Strip], now: list[Strip]) -> None:
    terminal = Terminal(before)
    terminal.write(ChangedCells(before, now).render_segments(CONSOLE))
    assert terminal.lines == [cells_of(strip) for strip in now]
    assert not (terminal.foreground or terminal.background or terminal.attributes)


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
