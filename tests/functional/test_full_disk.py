"""A full disk ends a run with all of its guesses, and the run resumes once there is space."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.runs.summary import run_summary
from tests.functional.machine import (
    Machine,
    fill_disk,
    guess_count,
    kill_processes_that_name,
    last_event,
    wait_until,
    write_round,
)

pytestmark = pytest.mark.slow

SMALL, LARGE = "3m", "64m"
GUESSES = 80_000


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A machine whose runs are on a disk of 3 MiB."""
    disk = tmp_path / "state"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small disk: {mounted.stderr.strip()}")
    write_round(tmp_path)
    machine = Machine(tmp_path)
    for name, value in machine.env().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HARNESS_CONFIG", str(tmp_path / "config"))
    yield machine
    kill_processes_that_name(str(tmp_path))
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def _resize(machine: Machine, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", str(machine.folder / "state")], check=True)


def test_a_full_disk_ends_a_run_which_resumes_to_the_same_bytes(small_disk: Machine) -> None:
    machine = small_disk
    folder = machine.detached("million", "--set", f"guesses={GUESSES}")
    wait_until(lambda: run_summary(folder).status.is_over)
    ended = machine.summary(folder)
    assert ended["status"] == "crashed" and ended["reason"].startswith("disk full; every acknowledged row")
    assert 0 < ended["guesses"] == guess_count(folder) < GUESSES
    assert "disk full" in machine.run("show", folder.id).stdout
    _resize(machine, LARGE)
    resumed = machine.json("resume", folder.id)
    assert (resumed["status"], resumed["reason"]) == ("finished", "")
    assert not folder.reserve.exists()
    reference = machine.attack("million", "--set", f"guesses={GUESSES}")
    assert folder.submission.read_bytes() == Path(reference["submission"]).read_bytes()


def test_a_run_on_a_full_disk_is_refused(small_disk: Machine) -> None:
    fill_disk(small_disk.folder / "state")
    error = small_disk.run("run", "draws", *small_disk.plugin(), code=1).stderr
    assert "No space left on device" in error and "defect" not in error
    assert small_disk.folders() == []


def test_a_run_without_space_for_its_last_rows_starts_no_worker(small_disk: Machine) -> None:
    rest = small_disk.folder / "state" / "rest"
    rest.write_bytes(b"x" * (5 << 19))
    error = small_disk.run("run", "million", *small_disk.plugin(), "--set", "guesses=9", code=1).stderr
    assert "crashed: disk full" in error and "Free some space, then harness resume" in error
    (folder,) = small_disk.folders()
    assert last_event(folder, "worker") is None
    rest.unlink()
    assert small_disk.json("resume", folder.id)["status"] == "finished"
