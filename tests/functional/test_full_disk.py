"""A disk that fills while a run goes on: the run waits and says so, goes on once there is room, and loses nothing."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.runs.summary import run_summary
from tests.functional.machine import (
    Machine,
    guess_count,
    last_event,
    processes_that_name,
    wait_until,
    write_round,
)

pytestmark = pytest.mark.slow

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


def test_a_full_disk_ends_a_run_which_goes_on_to_the_same_bytes_once_there_is_space(small_disk: Machine) -> None:
    machine = small_disk
    folder = machine.detached("million", "--set", f"guesses={GUESSES}")
    wait_until(lambda: run_summary(folder).status.is_over)
    ended = machine.summary(folder)
    assert ended["status"] == "crashed" and ended["reason"].startswith("disk full; every acknowledged row")
    assert 0 < ended["guesses"] == guess_count(folder) < GUESSES
    assert "disk full" in machine.run("show", folder.id).stdout
    _resize(machine, ROOMY)
    resumed = machine.json("resume", folder.id)
    assert (resumed["status"], resumed["reason"]) == ("finished", "")
    assert not folder.reserve.exists()
    whole = machine.attack("million", "--set", f"guesses={GUESSES}")
    assert folder.submission.read_bytes() == Path(whole["submission"]).read_bytes()


def test_a_start_on_a_full_disk_is_refused_in_a_sentence(small_disk: Machine) -> None:
    _rest_filled(small_disk)
    said = small_disk.run("run", "draws", *small_disk.plugin(), code=1).stderr
    assert "No space left on device" in said and "defect" not in said
    assert small_disk.folders() == []


def test_a_run_whose_ending_would_find_no_room_never_starts_its_worker(small_disk: Machine) -> None:
    rest = small_disk.folder / "state" / "rest"
    rest.write_bytes(b"x" * (5 << 19))
    said = small_disk.run("run", "million", *small_disk.plugin(), "--set", "guesses=9", code=1).stderr
    assert "crashed: disk full" in said and "Free some space, then harness resume" in said
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
