"""A disk that fills while a run goes on: the run waits and says so, goes on once there is room, and loses nothing."""

import asyncio
import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from harness.supervisor.standby import read_standby

from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from harness.runs.summary import run_summary
from harness.supervisor.ledger import CRASH_CHARGE_SECONDS
from harness.tui.app import HarnessApp
from harness.tui.screens.run import RunScreen
from tests.functional.machine import (
    Machine,
    guess_count,
    is_valid,
    kill_supervisor,
    last_event,
    processes_that_name,
    wait_until,
    write_round,
)
from tests.tui.piloting import until, words_on

SMALL, ROOMY = "3m", "64m"
GUESSES = 200_000


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
    for process in processes_that_name(str(tmp_path)):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def _resize(machine: Machine, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(machine.folder / "state")], check=True)


def _filling(machine: Machine, *options: str) -> RunFolder:
    """A run that has filled its disk, and waits."""
    folder = machine.detached("million", "--set", f"guesses={GUESSES}", *options)
    wait_until(lambda: run_summary(folder).is_waiting_for_room)
    return folder


def test_a_run_on_a_full_disk_waits_says_so_and_ends_as_if_nothing_had_been(small_disk: Machine) -> None:
    machine = small_disk
    folder = _filling(machine)
    count, elapsed = guess_count(folder), run_summary(folder).elapsed_s
    assert "running – disk full; waiting for room." in machine.run("show", folder.id).stdout
    assert "running, disk full" in machine.run("runs").stdout
    watching = machine.start("watch", folder.id, "--plain")
    asyncio.run(_look(folder))
    # Nothing more is taken in, and the budget goes on.
    assert guess_count(folder) == count and run_summary(folder).elapsed_s > elapsed
    _resize(machine, ROOMY)
    _, seen = watching.communicate(timeout=60)
    assert "running, disk full" in seen and "finished" in seen.rpartition("disk full")[2]
    finished = machine.summary(folder)
    assert (finished["status"], finished["guesses"], finished["reason"]) == ("finished", GUESSES, "")
    assert "the disk was full for" in folder.supervisor_log.read_text()
    assert not folder.standby.exists() and not folder.reserve.exists()
    whole = machine.attack("million", "--set", f"guesses={GUESSES}")
    assert folder.submission.read_bytes() == Path(whole["submission"]).read_bytes()


def test_a_disk_that_stays_full_ends_the_run_at_its_deadline_with_all_that_was_acknowledged(
    small_disk: Machine,
) -> None:
    machine = small_disk
    folder = _filling(machine, "--budget", "8s")
    count = guess_count(folder)
    started = time.monotonic()
    wait_until(lambda: run_summary(folder).status.is_over)
    assert time.monotonic() - started < 11
    ended = machine.summary(folder)
    assert ended["status"] == "crashed" and ended["reason"].startswith("disk full; every acknowledged guess")
    assert ended["guesses"] == count > 0 and ended["elapsed_s"] == pytest.approx(8.0)
    _resize(machine, ROOMY)
    resumed = machine.json("resume", folder.id)
    assert (resumed["status"], resumed["guesses"]) == ("out_of_time", count)
    assert is_valid(folder.submission, machine.folder / "round.toml")


def test_a_supervisor_killed_on_a_full_disk_gains_no_time_and_the_run_goes_on_once_there_is_room(
    small_disk: Machine,
) -> None:
    machine = small_disk
    whole = machine.attack("draws", "--set", "pause=0")
    folder = machine.detached("draws", "--set", "pause=0.2")
    wait_until(lambda: guess_count(folder) > 0)
    rest = _rest_filled(machine)
    wait_until(lambda: run_summary(folder).is_waiting_for_room)
    time.sleep(4)
    kill_supervisor(folder)
    killed_at = time.time()
    with RunReader(folder.store) as reader:
        ledger = reader.ledger()
    standby = read_standby(folder.standby)
    alive = killed_at - next(entry.at for entry in ledger if entry.entry == "start")
    assert standby is not None and standby.spent > ledger[-1].spent + 2
    assert alive - CRASH_CHARGE_SECONDS < standby.spent < alive + 0.1
    assert "lost – its supervisor died, and its disk is full" in machine.run("show", folder.id).stdout
    asyncio.run(_look_lost(folder))
    assert "its disk is full" in machine.run("resume", folder.id, code=1).stderr
    rest.unlink()
    assert machine.json("resume", folder.id)["status"] == "finished"
    assert folder.submission.read_bytes() == Path(whole["submission"]).read_bytes()
    with RunReader(folder.store) as reader:
        again = [entry for entry in reader.ledger() if entry.entry == "start"][-1]
    assert again.spent == pytest.approx(standby.spent + CRASH_CHARGE_SECONDS, abs=0.1)


def test_a_run_that_waits_for_room_can_be_stopped_and_its_results_have_the_room_that_was_kept(
    small_disk: Machine,
) -> None:
    folder = small_disk.detached("draws", "--set", "pause=0.2")
    wait_until(lambda: guess_count(folder) > 0)
    _rest_filled(small_disk)
    wait_until(lambda: run_summary(folder).is_waiting_for_room)
    stopped = small_disk.json("stop", folder.id)
    assert (stopped["status"], stopped["reason"]) == (
        "stopped",
        "disk full; every acknowledged guess is in its record.",
    )
    assert stopped["guesses"] == guess_count(folder) > 0
    assert is_valid(folder.submission, small_disk.folder / "round.toml")


def test_a_start_on_a_full_disk_is_refused_in_a_sentence(small_disk: Machine) -> None:
    _rest_filled(small_disk)
    said = small_disk.run("run", "draws", *small_disk.plugin(), code=1).stderr
    assert "No space left on device" in said and "defect" not in said
    assert small_disk.folders() == []


def test_a_run_whose_ending_would_find_no_room_never_starts_its_worker(small_disk: Machine) -> None:
    rest = small_disk.folder / "state" / "rest"
    rest.write_bytes(b"x" * (5 << 19))
    said = small_disk.run("run", "million", *small_disk.plugin(), "--set", "guesses=9", code=1).stderr
    assert "crashed: disk full" in said and "make room, then harness resume" in said
    (folder,) = small_disk.folders()
    assert last_event(folder, "worker") is None
    rest.unlink()
    assert small_disk.json("resume", folder.id)["status"] == "finished"


def _rest_filled(machine: Machine) -> Path:
    """A file that takes what room there is."""
    rest = machine.folder / "state" / "rest"
    with contextlib.suppress(OSError), rest.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    return rest


async def _look(folder: RunFolder) -> None:
    app = HarnessApp(watched=folder)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and "running, disk full" in words_on(app))
        assert "waiting for room" in " ".join(words_on(app).split())
        await pilot.press("escape")
        await until(pilot, lambda: "million" in words_on(app) and "running, disk full" in words_on(app))


async def _look_lost(folder: RunFolder) -> None:
    app = HarnessApp(watched=folder)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and "· lost" in words_on(app))
        assert "its disk is full" in " ".join(words_on(app).split())
        await pilot.press("f2")
        await until(pilot, lambda: any("No space left" in said.message for said in app._notifications))
        await pilot.press("3", "up", "escape")
        await until(pilot, lambda: "draws" in words_on(app) and "lost" in words_on(app))
