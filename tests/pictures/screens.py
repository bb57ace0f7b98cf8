"""Pictures of every screen as SVG."""

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from textual.pilot import Pilot

from harness.core.files import write_export
from harness.runs.folder import RunFolder
from harness.runs.summary import run_summary
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
    "first-run": ((), "How much of its training data"),
    "runs": ((), "exact@1|finished"),
    "run": (("enter", "m"), "Recall@100 ±"),
    "example": (("enter", "shift+tab", "m", "enter"), "guess "),
    "compare": (("space", "down", "space", "c"), "p <|p ="),
    "package": (("p",), "description"),
    "keys": (("question_mark",), "This screen"),
    "round": (("b",), "satml-dev"),
    "attacks": (("2",), "import "),
    "new-run": (("2", "enter"), "Bundled demo"),
    "audits": (("3",), "How much"),
    "audit": (("3", "down", "enter"), "Probably"),
    "book": (("3", "enter"), "≥ 50 %"),
    "new-audit": (("3", "n", "enter"), "harness audit "),
    "tuning": (("4",), "fold0of5|best"),
    "leaderboard": (("b", *"demo", "enter", "5"), "not verified"),
    "data": (("6",), "complete"),
}
"""Each picture: the keys that lead to it, and words that it shows once it is complete."""

_SETTINGS = ("trials=60", "temperature=0.7", "typical_p=1", "repetition_penalty=1")
_LIVE = (
    *("run", "sampling", "--round", "demo", "--detach", "--json"),
    *(word for setting in _SETTINGS for word in ("--set", setting)),
)
"""The command of the run that is at work on its picture. Its recall is soon above that of the baseline."""
_SHARE_DONE = 0.5
_NOT_NEEDED = re.compile(r"@font-face \{.*?\}\s*|terminal-\d+-", re.DOTALL)
"""Fonts from another server, which an SVG in a page may not load, and a prefix of names."""


def draw_screen(name: str, folder: Path) -> None:
    """Draw the screen `name` with the records in `folder`, in each of its sizes and themes."""
    # The first screen of a new user has no runs, and names their usual place.
    state = ".local/state/harness" if name == "first-run" else "state"
    os.environ |= {"HOME": str(folder), "HARNESS_HOME": f"{folder}/{state}"}
    # The attacks are shown in the repository, where they are in ./attacks.
    os.chdir(ROOT if name == "attacks" else folder)
    with _live_run() if name == "run" else contextlib.nullcontext():
        for size, theme in variants(name):
            asyncio.run(_draw(name, size, theme))


@contextlib.contextmanager
def _live_run() -> Iterator[None]:
    """Run an attack, half of which is done at first, and delete it at the end."""
    command = [sys.executable, "-m", "harness"]
    started = subprocess.run([*command, *_LIVE], check=True, stdout=subprocess.PIPE, text=True)
    run = json.loads(started.stdout)["id"]
    while (run_summary(RunFolder.of(run)).progress or 0.0) < _SHARE_DONE:
        time.sleep(0.5)
    try:
        yield
    finally:
        subprocess.run([*command, "runs", "rm", "--force", "--yes", "--now", run], check=True)


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
