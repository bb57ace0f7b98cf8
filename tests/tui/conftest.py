"""A machine for each file of screens, with homes, settings and a small round of its own."""

from collections.abc import Iterator

import pytest

from tests.functional.machine import ROOT, Machine, homes, processes_that_name, write_round


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """The machine; what runs there still is ended with it."""
    folder = tmp_path_factory.mktemp("machine")
    write_round(folder)
    yield Machine(folder)
    for process in processes_that_name(str(folder)):
        process.kill()


@pytest.fixture(autouse=True)
def places(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process's own homes be the machine's."""
    for name, value in homes(machine.folder).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HARNESS_CONFIG", str(machine.folder / "config"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
