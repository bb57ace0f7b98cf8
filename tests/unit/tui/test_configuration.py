"""The settings that the screens use."""

import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.pilot import Pilot

from harness.core.errors import HarnessError
from harness.core.settings import settings_file
from harness.runs.folder import RunFolder
from harness.runs.status import Status
from harness.tui.app import HarnessApp
from tests.records import recorded_run
from tests.tui.piloting import notifications, until


@pytest.fixture(autouse=True)
def file(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_CONFIG", str(home / "config"))
    (home / "config").mkdir()
    return settings_file()


def test_an_unknown_theme_is_rejected_with_a_list_of_themes(file: Path) -> None:
    file.write_text('theme = "plaid"\n')
    with pytest.raises(HarnessError, match=r"config.toml, line 1: theme: unknown theme. Choose one of .*textual-light"):
        HarnessApp()


@contextlib.asynccontextmanager
async def crashing_run(folder: Path) -> AsyncIterator[tuple[Pilot[None], RunFolder]]:
    """Start the application, and let a run crash while it is shown as running."""
    run = recorded_run(folder, pid=os.getpid())
    run.event("phase", phase="running")
    app = HarnessApp()
    async with app.run_test() as pilot:
        await until(pilot, lambda: run.folder.id in app.running_ids)
        run.event("phase", phase="crashed")
        yield pilot, run.folder


async def test_on_finish_receives_its_arguments_the_run_and_the_status(file: Path, tmp_path: Path) -> None:
    script = (
        "import json, os, sys; "
        "json.dump([sys.argv[2:], os.environ['HARNESS_RUN'], os.environ['HARNESS_STATUS']], open(sys.argv[1], 'w'))"
    )
    output = tmp_path / "output.json"
    command = [sys.executable, "-c", script, str(output), "$HOME; touch x", "a b"]
    file.write_text(f"on_finish = {json.dumps(command)}\n")
    async with crashing_run(tmp_path) as (pilot, folder):
        await until(pilot, lambda: output.exists() and output.read_text().endswith("]"))
    assert json.loads(output.read_text()) == [["$HOME; touch x", "a b"], folder.id, str(Status.CRASHED)]
    assert not (Path.cwd() / "x").exists()


@pytest.mark.parametrize("command", [["no-such-command-[/"], ["a\x00b"], [""]])
async def test_an_on_finish_that_cannot_start_is_a_notification(file: Path, tmp_path: Path, command: list[str]) -> None:
    file.write_text(f"on_finish = {json.dumps(command)}\n")
    async with crashing_run(tmp_path) as (pilot, _):
        await until(pilot, lambda: "on_finish cannot be started" in notifications(pilot))
        assert notifications(pilot).isprintable()
