"""Machines of their own for tests on real processes."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.sandbox import detect_backend
from harness.sandbox.backends import BACKENDS
from tests.functional.machine import ROOT, SANDBOXES, Machine, homes, processes_that_name, write_round
from tests.functional.workshop import DESCRIPTION, SETTLED, TEAM, Packed, Workshop
from tests.tiers import slow_values

_SANDBOX_PARAMETERS = [*slow_values(SANDBOXES[:-1]), SANDBOXES[-1]]
"""The fast tier takes the sandbox that needs nothing installed; what the other tests start takes the machine's best."""


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


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    """A workshop whose bundles all tests share, so none alters them in place."""
    folder = tmp_path_factory.mktemp("workshop")
    write_round(folder)
    (folder / "team.toml").write_text(TEAM)
    (folder / "description.md").write_text(DESCRIPTION)
    yield Workshop(Machine(folder))
    for process in processes_that_name(str(folder)):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.fixture
def drawn(workshop: Workshop) -> Packed:
    return workshop.packed("draws", *SETTLED)


@pytest.fixture(params=_SANDBOX_PARAMETERS)
def each_sandbox(request: pytest.FixtureRequest, workshop: Workshop) -> Workshop:
    """The workshop with each backend that is a sandbox."""
    return Workshop(Machine(workshop.machine.folder, {"HARNESS_SANDBOX": request.param}), workshop.made)


@pytest.fixture(
    params=[*_SANDBOX_PARAMETERS, *slow_values(backend.name for backend in BACKENDS if not backend.is_sandbox)]
)
def machine_per_backend(
    request: pytest.FixtureRequest, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machine]:
    """The machine with each sandbox backend, and without a sandbox."""
    yield _machine_with(request.param, machine, monkeypatch)
    detect_backend.cache_clear()


@pytest.fixture(params=_SANDBOX_PARAMETERS)
def sandboxed_machine(
    request: pytest.FixtureRequest, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machine]:
    """The machine with each backend that is a sandbox."""
    yield _machine_with(request.param, machine, monkeypatch)
    detect_backend.cache_clear()


@pytest.fixture
def bare_machine(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """The machine without a sandbox."""
    yield _machine_with("none", machine, monkeypatch)
    detect_backend.cache_clear()


@pytest.fixture(params=SANDBOXES)
def sandboxed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each backend that is a sandbox, for the processes that the test itself starts."""
    monkeypatch.setenv("HARNESS_SANDBOX", request.param)
    detect_backend.cache_clear()
    yield request.param
    detect_backend.cache_clear()


def _machine_with(backend: str, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("HARNESS_SANDBOX", backend)
    detect_backend.cache_clear()
    return Machine(machine.folder, {"HARNESS_SANDBOX": backend})
