"""A disk that fills while a run goes on: the run is lost for a reason that is told, and goes on once there is room."""

import asyncio
import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.runs.folder import RunFolder
from harness.tui.app import HarnessApp
from harness.tui.screens.run import RunScreen
from tests.functional.machine import Machine, guess_count, write_round
from tests.tui.piloting import until, words_on

SMALL = "3m"


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A machine whose runs live on a disk of 3 MiB."""
    disk = tmp_path / "state"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    write_round(tmp_path)
    made = Machine(tmp_path)
    for name, value in made.env().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HARNESS_CONFIG", str(tmp_path / "config"))
    yield made
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_full_disk_is_told_on_the_screen_and_the_run_goes_on_once_there_is_room(small_disk: Machine) -> None:
    machine = small_disk
    words = machine.run("run", "million", *machine.plugin(), "--set", "guesses=200000", code=1).stderr
    assert "its disk is full; make room" in words
    (folder,) = machine.folders()
    count = guess_count(folder)
    asyncio.run(_look(folder))
    subprocess.run(["mount", "-o", "remount,size=64m", str(machine.folder / "state")], check=True)
    resumed = machine.json("resume", folder.id)
    assert resumed["status"] == "finished" and resumed["guesses"] >= 200_000 > count


def test_a_start_on_a_full_disk_is_refused_in_a_sentence(small_disk: Machine) -> None:
    (small_disk.folder / "state" / "rest").write_bytes(b"")
    with contextlib.suppress(OSError), (small_disk.folder / "state" / "rest").open("wb") as rest:
        while True:
            rest.write(b"x" * 65536)
            rest.flush()
    said = small_disk.run("run", "draws", *small_disk.plugin(), code=1).stderr
    assert "No space left on device" in said and "defect" not in said
    assert small_disk.folders() == []


async def _look(folder: RunFolder) -> None:
    app = HarnessApp(watched=folder)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and "· lost" in words_on(app))
        assert "its disk is full" in " ".join(words_on(app).split())
        await pilot.press("f2")
        await until(pilot, lambda: any("No space left" in said.message for said in app._notifications))
        await pilot.press("3", "up", "escape")
        await until(pilot, lambda: "million" in words_on(app) and "lost" in words_on(app))
