"""Machines of their own for tests on real processes."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.functional.machine import ROOT, Machine, homes, processes_that_name, write_round


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A machine with a small round; what runs there still is ended with the test."""
    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    write_round(tmp_path)
    yield Machine(tmp_path)
    for process in processes_that_name(str(tmp_path)):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.fixture(params=["bwrap", "none"])
def confined_machine(request: pytest.FixtureRequest, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine with each means of confining a worker."""
    if request.param == "bwrap":
        request.getfixturevalue("bubblewrap")
    monkeypatch.setenv("HARNESS_SANDBOX", request.param)
    return Machine(machine.folder, {"HARNESS_SANDBOX": request.param})


@pytest.fixture
def bare_machine(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine without a sandbox."""
    monkeypatch.setenv("HARNESS_SANDBOX", "none")
    return Machine(machine.folder, {"HARNESS_SANDBOX": "none"})
