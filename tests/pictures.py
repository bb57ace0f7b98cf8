"""`make pictures`: draw the README's pictures of the screen from real runs on the demo."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from textual.pilot import Pilot
from textual.widgets import Static

from harness.core.files import write_export
from harness.runs.folder import RunFolder, all_run_folders
from harness.runs.summary import run_summary
from harness.tui.app import HarnessApp
from harness.tui.screens.compare import CompareScreen
from tests.functional.machine import ROOT, homes
from tests.tui.piloting import until

Scenario = Callable[[Pilot[None]], Awaitable[None]]
PICTURES = ROOT / ".pictures"
SIZE = (130, 46)
_PROGRESS = 0.6


def main() -> None:
    """Draw a running run, the comparison of that run with a shorter one, and a running audit."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= homes(Path(folder)) | {"PYTHONPATH": str(ROOT), "HARNESS_CONFIG": folder}
        _start("run", "baseline", "--set", "trials=1", "--seed", "7")
        _start("run", "baseline", "--set", "trials=4", "--detach")
        longer, shorter = all_run_folders()
        asyncio.run(_draw(HarnessApp(watched=longer), _picture_of_running(longer, "run")))
        asyncio.run(_draw(HarnessApp(), _picture_of_comparison(shorter, longer)))
        _start("audit", "sequence", "--detach")
        audit, *_ = all_run_folders()
        asyncio.run(_draw(HarnessApp(watched=audit), _picture_of_running(audit, "audit")))


def _start(noun: str, name: str, *options: str) -> None:
    command = [sys.executable, "-m", "harness", noun, name, "--round", "demo", *options]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def _picture_of_running(folder: RunFolder, picture: str) -> Scenario:
    async def scenario(pilot: Pilot[None]) -> None:
        while (run_summary(folder).progress or 0.0) < _PROGRESS:
            await pilot.pause(0.2)
        await pilot.pause(1.0)
        _save(pilot, picture)
        while not run_summary(folder).status.is_over:
            await pilot.pause(0.5)

    return scenario


def _picture_of_comparison(*folders: RunFolder) -> Scenario:
    async def scenario(pilot: Pilot[None]) -> None:
        await pilot.app.push_screen(CompareScreen(folders))
        await until(pilot, lambda: "runs of" in str(pilot.app.screen.query_one("#header", Static).content))
        await pilot.pause(1.0)
        _save(pilot, "compare")

    return scenario


async def _draw(app: HarnessApp, scenario: Scenario) -> None:
    async with app.run_test(size=SIZE) as pilot:
        await scenario(pilot)


def _save(pilot: Pilot[None], name: str) -> None:
    file = PICTURES / f"{name}.svg"
    write_export(file, pilot.app.export_screenshot(title="harness"))
    print(file)


if __name__ == "__main__":
    main()
