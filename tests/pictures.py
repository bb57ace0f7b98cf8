"""`make pictures`: draw every page and screen from real runs on the demo, in three sizes, dark and light."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.screen import Screen

from harness.core.files import write_export
from harness.plugins.discovery import find_attacks
from harness.runs.folder import RunFolder, all_run_folders
from harness.runs.summary import run_summary
from harness.tui.app import HarnessApp
from harness.tui.screen_state import save_round_choice
from harness.tui.screens.audit import AuditScreen
from harness.tui.screens.compare import CompareScreen
from harness.tui.screens.example import ExampleScreen
from harness.tui.screens.new_run import NewRunScreen
from harness.tui.screens.package import PackageScreen
from harness.tui.screens.run import RunScreen
from tests.functional.machine import ROOT, homes
from tests.tui.piloting import on_page, table_of, text_of, title_of, until

Scenario = Callable[[Pilot[None]], Awaitable[None]]
PICTURES = ROOT / ".pictures"
SIZES = ((80, 24), (120, 35), (200, 55))
THEMES = {"dark": "textual-dark", "light": "textual-light"}
_README = ("run", "compare", "audit")
"""The pictures of the README: those of 120 x 35 in the dark theme, without size and theme in their names."""
_PROGRESS = 0.6


def main() -> None:
    """Draw a running run and a running audit once, and every page and screen in all sizes and themes."""
    PICTURES.mkdir(exist_ok=True)
    for old in PICTURES.glob("*-*x*-*.svg"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= homes(Path(folder)) | {"PYTHONPATH": str(ROOT), "HARNESS_CONFIG": folder}
        os.chdir(folder)
        _draw_all("first-run", lambda pilot: until(pilot, lambda: pilot.app.screen.query("#first-run")))
        _start("run", "baseline", "--set", "trials=1", "--seed", "7")
        _start("run", "baseline", "--set", "trials=4", "--detach")
        longer, shorter = all_run_folders()
        _draw_running(longer, "run")
        _start("audit", "sequence", "--detach")
        audit = next(folder for folder in all_run_folders() if folder not in (longer, shorter))
        _draw_running(audit, "audit")
        _start("tune", "baseline", "--limit", "50", "--set", "trials=1", "--vary", "top_k=5..20", "--runs", "4")
        (Path(folder) / "team.toml").write_text('[[members]]\nname = "Ada"\n')
        (Path(folder) / "description.md").write_text("# The baseline\n\nIt samples.\n")
        _command("package", shorter.id)
        save_round_choice("demo")
        for name, scenario in _scenarios(longer, shorter, audit).items():
            _draw_all(name, scenario)
    for name in _README:
        shutil.copy(PICTURES / f"{name}-120x35-dark.svg", PICTURES / f"{name}.svg")


def _scenarios(longer: RunFolder, shorter: RunFolder, audit: RunFolder) -> dict[str, Scenario]:
    """Return how to reach each page and screen that is not drawn from a run at work."""
    pair = (shorter, longer)
    attack = next(attack for attack in find_attacks(None) if attack.name == "baseline")

    def page(number: int, is_ready: Callable[[Pilot[None]], object]) -> Scenario:
        async def scenario(pilot: Pilot[None]) -> None:
            await on_page(pilot, number)
            await until(pilot, lambda: is_ready(pilot))

        return scenario

    def screen(make: Callable[[], Screen[Any]], is_ready: Callable[[Pilot[None]], object]) -> Scenario:
        async def scenario(pilot: Pilot[None]) -> None:
            await pilot.app.push_screen(make())
            await until(pilot, lambda: is_ready(pilot))

        return scenario

    return {
        "runs": page(1, lambda pilot: text_of(pilot, "#facts")),
        "attacks": page(2, lambda pilot: "lines" in title_of(pilot, "source")),
        "audits": page(3, lambda pilot: table_of(pilot, "audits").row_count),
        "tuning": page(4, lambda pilot: table_of(pilot, "settings").row_count),
        "leaderboard": page(5, lambda pilot: table_of(pilot, "entries").row_count),
        "data": page(6, lambda pilot: table_of(pilot, "files").row_count),
        "finished-run": screen(lambda: RunScreen(longer), lambda pilot: "exact@1" in text_of(pilot, "#details-text")),
        "finished-audit": screen(lambda: AuditScreen(audit), lambda pilot: text_of(pilot, "#bars")),
        "compare": screen(lambda: CompareScreen(pair), lambda pilot: "runs of" in text_of(pilot, "#header")),
        "example": screen(
            lambda: ExampleScreen(pair, range(1000), 3), lambda pilot: table_of(pilot, "candidates").row_count
        ),
        "new-run": screen(
            lambda: NewRunScreen(attack, attacks_folder=None, round_name="demo"),
            lambda pilot: pilot.app.screen.has_class("-form"),
        ),
        "package": screen(lambda: PackageScreen(longer), lambda pilot: "ready" in text_of(pilot, "#message")),
    }


def _start(noun: str, name: str, *options: str) -> None:
    _command(noun, name, "--round", "demo", *options)


def _command(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "harness", *arguments], check=True, stdout=subprocess.DEVNULL)


def _draw_running(folder: RunFolder, name: str) -> None:
    """Draw a run at work in every size and theme, and wait for its end."""

    async def scenario(pilot: Pilot[None]) -> None:
        while (run_summary(folder).progress or 0.0) < _PROGRESS:
            await pilot.pause(0.2)
        await pilot.pause(1.0)
        for size in SIZES:
            await pilot.resize_terminal(*size)
            for shade, theme in THEMES.items():
                pilot.app.theme = theme
                await _save(pilot, name, size, shade)
        while not run_summary(folder).status.is_over:
            await pilot.pause(0.5)

    async def play() -> None:
        async with HarnessApp(watched=folder).run_test(size=SIZES[0]) as pilot:
            await scenario(pilot)

    asyncio.run(play())


def _draw_all(name: str, scenario: Scenario) -> None:
    """Draw what `scenario` reaches in every size and theme."""

    async def play(size: tuple[int, int]) -> None:
        app = HarnessApp()
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app._overview is not None and app.main.is_mounted)
            await scenario(pilot)
            for shade, theme in THEMES.items():
                app.theme = theme
                await _save(pilot, name, size, shade)

    for size in SIZES:
        asyncio.run(play(size))


async def _save(pilot: Pilot[None], name: str, size: tuple[int, int], shade: str) -> None:
    await pilot.pause(0.7)
    file = PICTURES / f"{name}-{size[0]}x{size[1]}-{shade}.svg"
    write_export(file, pilot.app.export_screenshot(title="harness"))
    print(file)


if __name__ == "__main__":
    main()
