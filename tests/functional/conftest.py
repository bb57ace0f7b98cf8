"""Machines and sandbox backends for tests with real processes."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.sandbox import detect_backend
from tests.functional.bundler import DESCRIPTION, FAST, TEAM, Bundler, Packed
from tests.functional.machine import ROOT, Machine, homes, processes_that_name, write_round

SANDBOXES = [pytest.param("bwrap", marks=pytest.mark.slow), "landlock"]
"""The fast tests use the sandbox that needs no installation; other tests use the best one available."""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A machine with a small round. Its processes are killed after the test."""
    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    write_round(tmp_path)
    yield Machine(tmp_path)
    for process in processes_that_name(str(tmp_path)):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.fixture(scope="session")
def bundler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bundler]:
    """A bundler whose bundles are shared by all tests, so no test may change them in place."""
    folder = tmp_path_factory.mktemp("bundler")
    write_round(folder)
    (folder / "team.toml").write_text(TEAM)
    (folder / "description.md").write_text(DESCRIPTION)
    yield Bundler(Machine(folder))
    for process in processes_that_name(str(folder)):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.fixture
def draws(bundler: Bundler) -> Packed:
    return bundler.package("draws", *FAST)


@pytest.fixture(params=SANDBOXES)
def each_sandbox(request: pytest.FixtureRequest, bundler: Bundler) -> Bundler:
    """The bundler with each sandbox backend."""
    return Bundler(Machine(bundler.machine.folder, {"HARNESS_SANDBOX": request.param}), bundler.bundles)


@pytest.fixture(params=[*SANDBOXES, pytest.param("none", marks=pytest.mark.slow)])
def confined_machine(
    request: pytest.FixtureRequest, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machine]:
    """The machine with each sandbox backend, and without a sandbox."""
    yield _machine_with(request.param, machine, monkeypatch)
    detect_backend.cache_clear()


@pytest.fixture(params=SANDBOXES)
def sandboxed_machine(
    request: pytest.FixtureRequest, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machine]:
    """The machine with each sandbox backend."""
    yield _machine_with(request.param, machine, monkeypatch)
    detect_backend.cache_clear()


@pytest.fixture
def bare_machine(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """The machine without a sandbox."""
    yield _machine_with("none", machine, monkeypatch)
    detect_backend.cache_clear()


@pytest.fixture(params=["bwrap", "landlock"])
def sandboxed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each sandbox backend, for processes that the test itself starts."""
    monkeypatch.setenv("HARNESS_SANDBOX", request.param)
    detect_backend.cache_clear()
    yield request.param
    detect_backend.cache_clear()


def _machine_with(backend: str, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("HARNESS_SANDBOX", backend)
    detect_backend.cache_clear()
    return Machine(machine.folder, {"HARNESS_SANDBOX": backend})
