"""Whatever happened to the files of a run, every command answers in sentences, and other runs are shown as before."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.runs.folder import RunFolder
from harness.runs.summary import run_status
from tests.functional.command import run_command
from tests.functional.machine import (
    PLUGINS,
    Machine,
    homes,
    kill_processes_that_name,
    kill_supervisor,
    wait_until,
    write_round,
)

FILES = (
    "spec.json",
    "code",
    "code/replay.py",
    "run.db",
    "run.db-wal",
    "worker.log",
    "supervisor.log",
    "submission.csv",
    "scorecard.json",
    "summary.json",
    "note.txt",
    "tags",
    "tokenizer.json",
    "lock",
    "reserve",
)
READ = ("spec.json", "run.db", "code/replay.py", "tokenizer.json")
"""The files that nearly every command reads."""
COMMANDS = (
    ("show",),
    ("show", "--json"),
    ("show", "--example", "3"),
    ("show", "--log"),
    ("export", "--out", "out.csv"),
    ("score",),
    ("compare", "good"),
    ("report", "--out", "out.html"),
    ("bundle", "create", "--check"),
    ("run", "--dry-run", "--like"),
    ("watch", "--plain"),
    ("stop",),
    ("resume",),
    ("runs", "tag"),
)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _nest(path: Path) -> None:
    path.write_text("[" * 100_000)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "directory": lambda path: path.mkdir(),
    "named pipe": lambda path: os.mkfifo(path),
    "link to nowhere": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "empty": lambda path: path.touch(),
    "garbage": lambda path: path.write_bytes(bytes(range(256)) * 64),
    "nested": _nest,
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with two finished runs."""
    folder = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in homes(folder).items():
            patch.setenv(name, value)
        write_round(folder)
        machine = Machine(folder)
        for name in ("good", "damaged"):
            run = machine.replayed(name, range(8))
            machine.run("runs", "note", run.id, "a note")
            machine.run("runs", "tag", run.id, "a-tag")
            machine.run("show", run.id)
            run.path.rename(run.path.with_name(name))
            # A run without these files is as valid as one with them.
            for extra in ("tokenizer.json", "run.db-wal", "reserve"):
                (run.path.with_name(name) / extra).touch()
        (folder / "intact").mkdir()
        (machine.runs / "damaged").rename(folder / "intact" / "damaged")
        yield machine
    kill_processes_that_name(str(folder))


@pytest.fixture
def damaged(recorded: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunFolder]:
    """A copy of a finished run, in a home that has another one."""
    for name, value in homes(recorded.folder).items():
        monkeypatch.setenv(name, value)
    copy = recorded.runs / "damaged"
    shutil.copytree(recorded.folder / "intact" / "damaged", copy)
    yield RunFolder(copy)
    # SQLite may remove the files of a store that was open at the end of the test at any moment.
    while copy.exists():
        shutil.rmtree(copy, ignore_errors=True)


def test_the_commands_know_an_undamaged_run(recorded: Machine, damaged: RunFolder) -> None:
    assert [words for words in COMMANDS if _run(recorded, *words, "damaged").returncode not in (0, 1)] == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in READ)) for name in FILES])
def test_a_damaged_file_is_a_sentence(recorded: Machine, damaged: RunFolder, name: str, damage: str) -> None:
    _remove(damaged.path / name)
    DAMAGES[damage](damaged.path / name)
    failed = []
    for words in (("list", "runs"), ("list", "runs", "--json"), *((*command, "damaged") for command in COMMANDS)):
        done = _run(recorded, *words)
        if "internal error" in done.stderr or "Traceback" in done.stderr or done.returncode not in (0, 1, 2, 3):
            failed.append(f"{' '.join(words)}: {done.returncode} {done.stderr}")
        elif done.returncode == 1 and "harness: " not in done.stderr and "✗" not in done.stdout:
            failed.append(f"{' '.join(words)}: no sentence: {done.stdout[-300:]} {done.stderr}")
        if words == ("list", "runs") and not ("good" in done.stdout and done.returncode == 0):
            failed.append(f"{' '.join(words)}: the other run is not listed")
    assert failed == []


def _run(machine: Machine, *words: str) -> "subprocess.CompletedProcess[str]":
    return run_command(words, folder=machine.folder, environment=machine.env())


@pytest.fixture
def read_only(recorded: Machine, damaged: RunFolder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """The machine with a finished run and a lost one, whose directories are on a read-only file system."""
    state = str(recorded.runs.parent)
    lost = recorded.detached("draws", "--set", "pause=5")
    kill_supervisor(lost)
    wait_until(lambda: run_status(lost).is_over)
    mounted = subprocess.run(["mount", "--bind", state, state], capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        shutil.rmtree(lost.path)
        pytest.skip(f"this user cannot mount a directory: {mounted.stderr.strip()}")
    subprocess.run(["mount", "-o", "remount,ro,bind", state], check=True)
    yield recorded
    subprocess.run(["umount", "--lazy", state], check=True)
    shutil.rmtree(lost.path)


def test_a_read_only_home_is_a_sentence(read_only: Machine) -> None:
    (lost,) = [folder.id for folder in read_only.folders() if folder.id.endswith("-small")]
    changes: tuple[tuple[str, ...], ...] = (
        ("run", "draws", *read_only.plugin()),
        ("resume", lost),
        ("runs", "tag", "damaged", "new"),
        ("runs", "note", "damaged", "new"),
        ("sweep", str(_sweep_file(read_only)), "--ray", "none", "--attacks", str(PLUGINS)),
        ("tune", "draws", *read_only.plugin(), "--vary", "trials=1..2", "--runs", "1"),
    )
    for words in changes:
        done = _run(read_only, *words)
        assert done.returncode == 1 and "Read-only file system" in done.stderr, f"{words}: {done.stderr}"
        assert "internal error" not in done.stderr and str(read_only.runs.parent) in done.stderr, done.stderr
    readings = (
        ("list", "runs"),
        ("show", lost),
        ("show", lost, "--log"),
        *((*command, "damaged") for command in COMMANDS),
    )
    for words in readings:
        done = _run(read_only, *words)
        assert "internal error" not in done.stderr, f"{words}: {done.stderr}"


def _sweep_file(machine: Machine) -> Path:
    file = machine.folder / "sweep.toml"
    file.write_text('attacks = ["draws"]\nrounds = ["./round.toml"]\n')
    return file
