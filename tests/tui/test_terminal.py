"""A terminal without braille, such as the Linux console, shows only glyphs that all fonts of the console have."""

import asyncio
import io
from collections.abc import Mapping

import pytest
from textual.pilot import Pilot

from harness.runs.folder import RunFolder
from harness.tui.screens.compare import CompareScreen
from harness.tui.screens.run import RunScreen
from harness.tui.terminal import UsualGlyphs, has_braille
from tests.functional.machine import Machine
from tests.tui.piloting import on_page, open_app, open_screen, press, screen_text, text_of, until
from tests.tui.stored import stored_run

GLYPHS = {*bytes(range(32, 256)).decode("cp437"), *"•♦►◄▲▼↑↓→←¶", "\n"}
"""The characters of code page 437, with some of those that it has in place of control characters."""


@pytest.fixture(scope="module")
def pair(machine: Machine, places: None) -> tuple[RunFolder, RunFolder]:
    return stored_run(machine.folder, "abcd-some", range(40)), stored_run(
        machine.folder, "efgh-other", range(9), seed=1
    )


def unusual(pilot: Pilot[None]) -> str:
    """Return the characters on the screen that some font of the console lacks."""
    return "".join(sorted({*screen_text(pilot.app)} - GLYPHS))


@pytest.mark.parametrize(
    ("environment", "has_it"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "linux", "LANG": "en_US.UTF-8"}, False),
        ({"LANG": "C"}, False),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False),
        ({"LANG": "C", "LC_CTYPE": "de_DE.UTF-8"}, True),
        ({"LANG": "C", "LC_ALL": "C.UTF-8"}, True),
        ({"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8"}, False),
        ({"LANG": "C.UTF-8"}, True),
    ],
)
def test_the_linux_console_and_locales_without_unicode_have_no_braille(
    environment: Mapping[str, str], has_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TERM", "LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert has_braille() is has_it


def test_a_terminal_whose_encoding_is_not_unicode_has_no_braille(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="iso-8859-1"))
    assert not has_braille()


def test_each_character_has_one_cell_in_its_place() -> None:
    characters = "".join(map(chr, UsualGlyphs._GLYPHS))
    shown = characters.translate(UsualGlyphs._GLYPHS)
    assert len(shown) == len(characters) and {*shown} <= GLYPHS
    assert "⠀⠉⣀⣿⡇⢸⠅⠨⠒⠤⢰".translate(UsualGlyphs._GLYPHS) == " ▀▄█││││▀▄│"


@pytest.mark.parametrize("size", [(80, 24), (120, 35)])
async def test_curves_bars_and_frames_are_drawn_on_the_linux_console(
    pair: tuple[RunFolder, RunFolder], size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "linux")
    async with open_screen(CompareScreen(pair), size=size) as pilot:
        await until(pilot, lambda: "runs of" in text_of(pilot, "#header"))
        for _ in range(5):
            await pilot.press("tab")
            await pilot.pause()
            assert unusual(pilot) == ""
    async with open_screen(RunScreen(pair[0]), size=size) as pilot:
        await until(pilot, lambda: {*"▀▄█"} & {*screen_text(pilot.app)})
        assert unusual(pilot) == ""
    async with open_app(size=size) as pilot:
        await until(pilot, lambda: "efgh" in screen_text(pilot.app))
        for number in range(1, 7):
            await on_page(pilot, number)
            await asyncio.sleep(0.2)
            await pilot.pause()
            assert unusual(pilot) == ""
        await press(pilot, "2", "enter", then=lambda: "harness run " in screen_text(pilot.app))
        assert unusual(pilot) == ""


async def test_other_terminals_have_braille(pair: tuple[RunFolder, RunFolder], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    async with open_screen(RunScreen(pair[0]), size=(120, 35)) as pilot:
        await until(pilot, lambda: "⣀" in screen_text(pilot.app))
