"""The store survives a power loss, two commands at once, a file system without locks, and a failed clean-up."""

import errno
import fcntl
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import HarnessError
from harness.runs import launch
from harness.runs.folder import RunFolder
from harness.runs.launch import resume_run
from harness.runs.reader import RunReader
from harness.runs.summary import run_status
from tests.functional.machine import PLUGINS, Machine, kill_supervisor, spent_time, wait_until


class SyncedFiles:
    """Remembers the state in which each file and directory was last synced by this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._synced: dict[tuple[int, int], tuple[int, int]] = {}
        self.checked: list[RunFolder] = []
        sync, start = os.fsync, launch.start_supervisor

        def fsync(file: Any) -> None:
            sync(file)
            found = os.fstat(file)
            self._synced[found.st_dev, found.st_ino] = found.st_size, found.st_mtime_ns

        def start_supervisor(folder: RunFolder, **options: Any) -> None:
            self.checked.append(folder)
            assert self.unsynced(folder) == []
            start(folder, **options)

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(launch, "start_supervisor", start_supervisor)

    def unsynced(self, folder: RunFolder) -> list[Path]:
        """Return what a power loss could take of a run that starts: its files, directories, and its entry."""
        paths = [folder.path.parent, folder.path, *folder.path.rglob("*")]
        return [path for path in paths if path != folder.lock and not self.is_synced(path)]

    def is_synced(self, path: Path) -> bool:
        """Return True if the file or directory has not changed since this process synced it."""
        found = path.stat()
        return self._synced.get((found.st_dev, found.st_ino)) == (found.st_size, found.st_mtime_ns)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> SyncedFiles:
    return SyncedFiles(monkeypatch)


STARTS = {
    "attack": ("run", "draws", "--attacks", str(PLUGINS), "--round", "round.toml"),
    "attack with a target": ("run", "greedy", "--round", "demo", "--target", "demo-tiny"),
    "audit": ("audit", "sequence", "--round", "demo", "--threads", "1", "--target", "demo-tiny", "--limit", "50"),
}


@pytest.mark.parametrize("kind", STARTS)
def test_all_that_a_resume_needs_is_on_disk_before_the_supervisor_starts(
    machine: Machine, synced: SyncedFiles, kind: str
) -> None:
    machine.run(*STARTS[kind], "--detach")
    (folder,) = synced.checked
    assert (folder.code if folder.code.exists() else folder.inputs).is_dir()
    assert folder.tokenizer.exists() == (kind == "attack with a target")
    machine.run("stop", folder.id)


def test_a_tuning_and_its_runs_are_on_disk_before_their_supervisors_start(
    machine: Machine, synced: SyncedFiles
) -> None:
    machine.run("tune", "draws", *machine.plugin(), "--vary", "trials=1..2", "--set", "pause=0", "--runs", "2")
    assert len(synced.checked) == 2
    (record,) = (machine.runs.parent / "tunings").glob("*.json")
    assert synced.is_synced(record) and synced.is_synced(record.parent)


def test_results_and_notes_are_on_disk_when_they_are_there(machine: Machine, synced: SyncedFiles) -> None:
    folder = machine.replayed("replayed", range(8))
    machine.run("runs", "note", folder.id, "kept")
    machine.run("runs", "tag", folder.id, "good")
    assert all(map(synced.is_synced, (folder.note, folder.tags, folder.path)))


def _executions(folder: RunFolder) -> int:
    with RunReader(folder.store) as reader:
        return len(reader.events_named("supervisor"))


def test_a_command_that_decided_before_another_one_resumed_the_run_does_not_run_it_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = machine.detached("draws", "--set", "pause=0.5")
    kill_supervisor(folder)
    wait_until(lambda: run_status(folder).is_over)
    start, after_other = launch.start_supervisor, []

    def start_late(run: RunFolder, **options: Any) -> None:
        """Start a supervisor after another command has resumed the run to its end."""
        monkeypatch.setattr(launch, "start_supervisor", start)
        resume_run(run, weights_sha256=())
        wait_until(lambda: run_status(run).is_over and not run.is_alive)
        after_other.append((_executions(run), spent_time(run), run.submission.read_bytes()))
        start(run, **options)

    monkeypatch.setattr(launch, "start_supervisor", start_late)
    with pytest.raises(HarnessError, match=rf"^{folder.id} was continued by another command\."):
        resume_run(folder, weights_sha256=())
    assert run_status(folder) == "finished"
    assert (
        after_other == [(_executions(folder), spent_time(folder), folder.submission.read_bytes())]
        and _executions(folder) == 2
    )


def test_of_four_commands_that_resume_a_run_at_once_one_does(machine: Machine) -> None:
    folder = machine.detached("draws", "--set", "pause=0.2")
    kill_supervisor(folder)
    wait_until(lambda: run_status(folder).is_over)
    refused: list[str] = []

    def resume() -> None:
        try:
            resume_run(folder, weights_sha256=())
        except HarnessError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=resume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: run_status(folder).is_over and not folder.is_alive)
    assert run_status(folder) == "finished" and _executions(folder) == 2
    assert len(refused) == 3 and all(folder.id in sentence for sentence in refused)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_named_and_keeps_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    error = machine.run("run", "draws", *machine.plugin(), code=1).stderr.splitlines()[-1]
    assert error.startswith(f"harness: {machine.runs}") and "its file system has no file locks" in error
    assert error.endswith("Set --home or HARNESS_HOME to a directory on another one.")
    assert list(machine.runs.iterdir()) == []
