"""`make pictures`: draw every screen from real runs on the demo, in three sizes and two themes."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from textual.pilot import Pilot

from harness.core.files import write_export
from harness.tui.app import HarnessApp
from harness.tui.widgets.list_table import ListTable
from tests.demo_texts import trained_text, unseen_text
from tests.functional.machine import ROOT, homes
from tests.tui.piloting import screen_text, until

PICTURES = ROOT / ".pictures"
SIZES = ((80, 24), (120, 35), (200, 55))
THEMES = {"dark": "textual-dark", "light": "textual-light"}
SCREENS: dict[str, tuple[tuple[str, ...], str]] = {
    "first-run": ((), "bundled model"),
    "runs": ((), "exact@1|finished"),
    "run": (("enter",), "Recall@100 ±"),
    "log": (("enter", "l"), "Log"),
    "example": (("enter", "3", "m", "enter"), "guess "),
    "compare": (("space", "space", "c"), "p <|p ="),
    "package": (("p",), "description"),
    "keys": (("question_mark",), "This screen"),
    "round": (("b",), "satml-dev"),
    "attacks": (("2",), "import "),
    "new-run": (("2", "enter"), "Seed of all"),
    "audits": (("3",), "Probably"),
    "audit": (("3", "down", "enter"), "Probably"),
    "book": (("3", "enter"), "≥ 50 %"),
    "new-audit": (("3", "n", "enter"), "Directory of text"),
    "tuning": (("4",), "fold0of5|best"),
    "leaderboard": (("5",), "not verified"),
    "data": (("6",), "complete"),
}
"""Each picture: the keys that lead to it, and words that it shows once it is complete."""


def main(names: list[str]) -> None:
    """Draw the screens `names`, or all."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= homes(Path(folder)) | {"PYTHONPATH": str(ROOT), "HARNESS_CONFIG": folder}
        os.chdir(folder)
        _prepare(Path(folder))
        for name in names or SCREENS:
            # The first screen of a new user has no runs.
            os.environ["HARNESS_HOME"] = f"{folder}/new" if name == "first-run" else f"{folder}/state"
            for size in SIZES:
                for theme in THEMES:
                    asyncio.run(_draw(name, size, theme))


def _prepare(folder: Path) -> None:
    """Make two runs, a tuning, two audits and a bundle."""
    _harness("run", "baseline", "--round", "demo", "--set", "trials=1", "--seed", "7")
    _harness("tune", "baseline", "--round", "demo", "--set", "trials=1", "--limit", "100", "--runs", "4")
    _harness("audit", "sequence", "--round", "demo", "--limit", "100")
    (folder / "book.txt").write_text(trained_text(40), encoding="utf-8")
    (folder / "unseen.txt").write_text(unseen_text(20), encoding="utf-8")
    _harness("audit", "book", "book.txt", "--control", "unseen.txt", "--target", "demo", "--target", "demo-tiny")
    _harness("run", "baseline", "--round", "demo", "--preset")
    (folder / "team.toml").write_text('name = "Example"\n\n[[members]]\nname = "Ada"\n')
    (folder / "description.md").write_text("# The baseline\n\nTop-k sampling, ranked by mean token loss.\n")
    accepted = ("--accept", "sandbox")
    _harness("package", "latest", "--team", "team.toml", "--description", "description.md", *accepted)


def _harness(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "harness", *arguments, "--quiet"], check=True, stdout=subprocess.DEVNULL)


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
        file = PICTURES / f"{name}-{size[0]}-{theme}.svg"
        write_export(file, app.export_screenshot(title="harness"))
        print(file)


def _shows(pilot: Pilot[None], words: str) -> Callable[[], bool]:
    return lambda: any(word in screen_text(pilot.app) for word in words.split("|"))


if __name__ == "__main__":
    main(sys.argv[1:])
