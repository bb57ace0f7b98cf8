"""Pictures of every screen as SVG."""

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path

from textual.pilot import Pilot

from harness.core.files import write_export
from harness.tui.app import HarnessApp
from harness.tui.widgets.list_table import ListTable
from tests.functional.machine import ROOT
from tests.pictures import PICTURES
from tests.tui.piloting import screen_text, until

SIZE = (120, 35)
SIZES = ((80, 24), SIZE, (200, 55))
ALL_SIZES = ("runs", "run", "compare", "book")
"""The screens that are also drawn in a small and a large terminal."""
THEMES = {"dark": "textual-dark", "light": "textual-light"}
SCREENS: dict[str, tuple[tuple[str, ...], str]] = {
    "first-run": ((), "bundled model"),
    "runs": ((), "exact@1|finished"),
    "run": (("enter",), "Recall@100 ±"),
    "example": (("enter", "3", "m", "enter"), "guess "),
    "compare": (("space", "down", "space", "c"), "p <|p ="),
    "package": (("p",), "description"),
    "keys": (("question_mark",), "This screen"),
    "round": (("b",), "satml-dev"),
    "attacks": (("2",), "import "),
    "new-run": (("2", "enter"), "Seed of every"),
    "audits": (("3",), "How much"),
    "audit": (("3", "down", "enter"), "Probably"),
    "book": (("3", "enter"), "≥ 50 %"),
    "new-audit": (("3", "n", "enter"), "Directory of text"),
    "tuning": (("4",), "fold0of5|best"),
    "leaderboard": (("5",), "not verified"),
    "data": (("6",), "complete"),
}
"""Each picture: the keys that lead to it, and words that it shows once it is complete."""

_NOT_NEEDED = re.compile(r"@font-face \{.*?\}\s*|terminal-\d+-", re.DOTALL)
"""Fonts from another server, which an SVG in a page may not load, and a prefix of names."""


def draw_screen(name: str, folder: Path) -> None:
    """Draw the screen `name` with the records in `folder`, in each of its sizes and themes."""
    # The first screen of a new user has no runs.
    os.environ["HARNESS_HOME"] = f"{folder}/new" if name == "first-run" else f"{folder}/state"
    # The attacks are shown in the repository, where they are in ./attacks.
    os.chdir(ROOT if name == "attacks" else folder)
    for size, theme in variants(name):
        asyncio.run(_draw(name, size, theme))


def variants(name: str) -> list[tuple[tuple[int, int], str]]:
    """Return the sizes and themes in which the screen `name` is drawn."""
    sizes = SIZES if name in ALL_SIZES else [SIZE]
    return [(size, theme) for size in sizes for theme in (THEMES if size == SIZE else ["dark"])]


def file_name(name: str, size: tuple[int, int], theme: str) -> str:
    """Return the name of the file of a picture."""
    return f"{name}-{size[0]}-{theme}.svg"


async def _draw(name: str, size: tuple[int, int], theme: str) -> None:
    keys, words = SCREENS[name]
    app = HarnessApp()
    async with app.run_test(size=size) as pilot:
        app.theme = THEMES[theme]
        if name != "first-run":
            await until(pilot, lambda: app.screen.query(ListTable) and app.screen.query(ListTable).first().row_count)
        for key in keys:
            await pilot.press(key)
            await pilot.pause(1.0)
        await until(pilot, _shows(pilot, words) if size[0] > min(SIZES)[0] else lambda: True, seconds=30.0)
        await pilot.pause(2.0)
        file = PICTURES / file_name(name, size, theme)
        write_export(file, _shortened(app.export_screenshot(title="harness")))
        print(file)


def _shortened(svg: str) -> str:
    """Return a screenshot without what a file of its own does not need."""
    return _NOT_NEEDED.sub("", svg)


def _shows(pilot: Pilot[None], words: str) -> Callable[[], bool]:
    return lambda: any(word in screen_text(pilot.app) for word in words.split("|"))
