"""Machines and sandbox backends for tests with real processes."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.sandbox import detect_backend
from harness.sandbox.backends import BACKENDS
from tests.functional.bundler import DESCRIPTION, FAST, TEAM, Bundler, Packed
from tests.functional.machine import ROOT, SANDBOXES, Machine, kill_processes_that_name, write_round
from tests.tools.tiers import slow_values

_SANDBOX_PARAMETERS = [*slow_values(SANDBOXES[:-1]), SANDBOXES[-1]]
"""The fast tests use the sandbox that needs no installation; other tests use the best one available."""


@pytest.fixture
def machine(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A machine with a small round. Its processes are killed after the test."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    write_round(home)
    yield Machine(home)
    kill_processes_that_name(str(home))


@pytest.fixture(scope="session")
def bundler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bundler]:
    """A bundler whose bundles are shared by all tests, so no test may change them in place."""
    folder = tmp_path_factory.mktemp("bundler")
    write_round(folder)
    (folder / "team.toml").write_text(TEAM)
    (folder / "description.md").write_text(DESCRIPTION)
    yield Bundler(Machine(folder))
    kill_processes_that_name(str(folder))


@pytest.fixture
def draws(bundler: Bundler) -> Packed:
    return bundler.package("draws", *FAST)


@pytest.fixture(params=_SANDBOX_PARAMETERS)
def each_sandbox(request: pytest.FixtureRequest, bundler: Bundler) -> Bundler:
    """The bundler with each sandbox backend."""
    return Bundler(Machine(bundler.machine.folder, {"HARNESS_SANDBOX": request.param}), bundler.bundles)


@pytest.fixture
def real_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start every process of a command as users do, for tests of what an attack sees of them."""
    monkeypatch.setattr("tests.functional.command.without_imports", contextlib.nullcontext)


UseBackend = Callable[[str], dict[str, str]]


@pytest.fixture
def use_backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[UseBackend]:
    """A function that selects the sandbox backend of this process, and returns the environment that does so."""

    def use(backend: str) -> dict[str, str]:
        monkeypatch.setenv("HARNESS_SANDBOX", backend)
        detect_backend.cache_clear()
        return {"HARNESS_SANDBOX": backend}

    yield use
    detect_backend.cache_clear()


@pytest.fixture(
    params=[*_SANDBOX_PARAMETERS, *slow_values(backend.name for backend in BACKENDS if not backend.is_sandbox)]
)
def machine_per_backend(request: pytest.FixtureRequest, machine: Machine, use_backend: UseBackend) -> Machine:
    """The machine with each sandbox backend, and without a sandbox."""
    return Machine(machine.folder, use_backend(request.param))


@pytest.fixture(params=_SANDBOX_PARAMETERS)
def sandboxed_machine(request: pytest.FixtureRequest, machine: Machine, use_backend: UseBackend) -> Machine:
    """The machine with each sandbox backend."""
    return Machine(machine.folder, use_backend(request.param))


@pytest.fixture
def unsandboxed_machine(machine: Machine, use_backend: UseBackend) -> Machine:
    """The machine without a sandbox."""
    return Machine(machine.folder, use_backend("none"))


@pytest.fixture(params=SANDBOXES)
def sandboxed(request: pytest.FixtureRequest, use_backend: UseBackend) -> str:
    """Each sandbox backend, for processes that the test itself starts."""
    use_backend(request.param)
    return str(request.param)
