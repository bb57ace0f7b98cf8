"""Homes of their own, and commands in the test's own process."""

from pathlib import Path

import pytest

from tests.functional.machine import homes
from tests.unit.cli.command_line import CommandLine


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that holds everything the command line reads and writes."""
    for name, value in {**homes(tmp_path), "HARNESS_CONFIG": str(tmp_path / "config")}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "state").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def harness(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    monkeypatch.setenv("COLUMNS", "80")
    return CommandLine(monkeypatch, capsys)
