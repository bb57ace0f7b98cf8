"""Home directories and runs that the tests of one file share."""

import os
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot

from harness.runs.folder import RunFolder
from tests.functional.machine import ROOT, Machine, homes, kill_processes_that_name, write_round
from tests.records import Recorded
from tests.tui.piloting import open_app
from tests.tui.stored import CRASHED, DRAWS, AddRun, live_run, stored_run

SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.fixture(scope="session")
def schema_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for all tests, so that the schema of each attack is read once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session", autouse=True)
def shared_style_sheets() -> Iterator[None]:
    """Parse each style sheet once for all applications."""
    parse, parsed = Stylesheet._parse_rules, dict[object, list[RuleSet]]()

    def parse_once(sheet: Stylesheet, *arguments: object, **options: object) -> list[RuleSet]:
        key = (*arguments, *sorted(options.items()), *sheet._variables.items())
        if key not in parsed:
            parsed[key] = parse(sheet, *arguments, **options)
        return parsed[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parse_once)
        yield


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with a small round; its processes are killed at the end."""
    folder = tmp_path_factory.mktemp("machine")
    write_round(folder)
    yield Machine(folder)
    kill_processes_that_name(str(folder))


@pytest.fixture(scope="module", autouse=True)
def places(machine: Machine, schema_cache: Path) -> Iterator[None]:
    """Set the home directories of this process to those of the machine."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in homes(machine.folder).items():
            patch.setenv(name, value)
        patch.setenv("HARNESS_CACHE", str(schema_cache))
        patch.setenv("HARNESS_CONFIG", str(machine.folder / "config"))
        patch.setenv("PYTHONPATH", str(ROOT))
        # Otherwise pictures would depend on the terminal of the tests.
        patch.setenv("TERM", "xterm-256color")
        patch.setenv("LC_ALL", "C.UTF-8")
        yield


@pytest.fixture(scope="module")
def finished(machine: Machine, places: None) -> RunFolder:
    """A finished run."""
    return stored_run(machine.folder, "aaaa-draws-small")


@pytest.fixture(scope="module")
def two_runs(machine: Machine, places: None) -> None:
    """A finished run and a newer crashed run."""
    stored_run(machine.folder, DRAWS, range(8), age=1000.0)
    stored_run(machine.folder, CRASHED, [], name="misbehaving", phase="crashed")


@pytest.fixture
def add_run(machine: Machine) -> Iterator[AddRun]:
    """Return `stored_run` with the folder of the machine; the runs are deleted after the test."""
    added: list[RunFolder] = []

    def add(*arguments: Any, **options: Any) -> RunFolder:
        added.append(stored_run(machine.folder, *arguments, **options))
        return added[-1]

    yield add
    for folder in added:
        shutil.rmtree(folder.path, ignore_errors=True)


@pytest.fixture
def small_round(machine: Machine) -> str:
    """The file of the small round, for the choice of `open_app`."""
    return str(machine.folder / "round.toml")


@pytest.fixture
def running(machine: Machine) -> Iterator[Recorded]:
    """A run that is running until its test ends. The test itself writes the guesses."""
    run = live_run(machine.folder, "bbbb-patient-small", name="patient")
    yield run
    run.store.close()
    shutil.rmtree(run.folder.path)


@pytest.fixture
async def pilot() -> AsyncIterator[Pilot[None]]:
    """Start the application on the runs of the module."""
    async with open_app() as pilot:
        yield pilot


@pytest.fixture
def copy(finished: RunFolder) -> Iterator[RunFolder]:
    """A copy of the finished run, which a test may damage."""
    folder = RunFolder(finished.path.with_name("zzzz-copy"))
    shutil.copytree(finished.path, folder.path)
    yield folder
    shutil.rmtree(folder.path, ignore_errors=True)


@pytest.fixture
def matches_snapshot(tmp_path: Path) -> Callable[[str, str], None]:
    """Compare an SVG of the screen with the one in snapshots/; HARNESS_UPDATE_SNAPSHOTS=1 replaces it."""

    def compare(name: str, svg: str) -> None:
        expected, actual = SNAPSHOTS / f"{name}.svg", _without_ids(svg)
        if os.environ.get("HARNESS_UPDATE_SNAPSHOTS") == "1":
            expected.write_text(actual)
        drawn = tmp_path / f"{name}.svg"
        drawn.write_text(actual)
        is_same = expected.exists() and expected.read_text() == actual
        assert is_same, f"{drawn} differs from {expected}. Open both; HARNESS_UPDATE_SNAPSHOTS=1 replaces the latter."

    return compare


def _without_ids(svg: str) -> str:
    """Remove the checksum of the picture with which Rich prefixes every id and class."""
    return re.sub(r"terminal-\d+-", "terminal-", svg)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Set new home directories with a small round for each test. Processes are killed at the end."""
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HARNESS_DATA", str(tmp_path / "data"))
    write_round(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    kill_processes_that_name(str(tmp_path))


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    folder = tmp_path / "plugins"
    folder.mkdir()
    return folder
