"""The choice of a sandbox backend, and what the launcher is told to apply."""

import marshal
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.sandbox import SandboxBackend, SandboxPolicy, backends, detect_backend
from harness.sandbox.backends import BACKENDS, Bubblewrap, backend_named, is_available, launcher_command


class Backend(SandboxBackend):
    """A backend as somebody would add it."""

    advice = "Ask for a permit."

    def __init__(self, name: str, *, program: str) -> None:
        self.name = name
        self._program = program

    def wrap(self, command: list[str], policy: SandboxPolicy, *, cwd: Path) -> list[str]:
        return [self._program, f"--chdir={cwd}", *command]


@pytest.fixture(autouse=True)
def two_backends(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[SandboxBackend, SandboxBackend]]:
    pair = (Backend("strong", program="no-such-jail"), Backend("weak", program="env"))
    monkeypatch.setattr(backends, "BACKENDS", pair)
    monkeypatch.delenv("HARNESS_SANDBOX", raising=False)
    detect_backend.cache_clear()
    yield pair
    detect_backend.cache_clear()


def test_the_first_backend_that_works_is_used() -> None:
    assert detect_backend().name == "weak"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("chroot", "HARNESS_SANDBOX=chroot is not a sandbox backend. Use one of: strong, weak."),
        ("strong", "HARNESS_SANDBOX=strong does not work on this machine. Ask for a permit."),
    ],
)
def test_a_requested_backend_that_cannot_be_used_is_an_error(
    monkeypatch: pytest.MonkeyPatch, name: str, sentence: str
) -> None:
    monkeypatch.setenv("HARNESS_SANDBOX", name)
    with pytest.raises(HarnessError) as caught:
        detect_backend()
    assert str(caught.value) == sentence


def test_the_backends_that_stored_records_name_exist() -> None:
    assert {"bwrap", "landlock", "none"} <= {backend.name for backend in BACKENDS}


def test_a_backend_of_another_version_is_named_and_counts_as_none() -> None:
    backend = backend_named("jail")
    assert (backend.name, backend.is_sandbox) == ("jail", False) and backend.description


def test_bubblewrap_may_be_anywhere_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not is_available(Bubblewrap())
    (program := tmp_path / "bwrap").write_text("#!/bin/sh\n")
    program.chmod(0o700)
    assert is_available(Bubblewrap())


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
def test_the_docs_describe_every_backend(backend: SandboxBackend) -> None:
    page = Path(__file__).parents[3] / "docs" / "explanation" / "threat-model.md"
    row = f"| `{backend.name}` | {backend.description} |"
    assert row in page.read_text(encoding="utf-8").splitlines()
    assert backend.advice or not backend.is_sandbox


def test_a_backend_wraps_the_launcher(two_backends: tuple[SandboxBackend, SandboxBackend]) -> None:
    command, config = launcher_command(["run", "me"], two_backends[1], SandboxPolicy(), cwd=Path("/x"))
    os.close(config)
    assert command[:2] == ["env", "--chdir=/x"] and command[-4:] == [str(config), "-1", "run", "me"]
    assert backend_named("weak") is two_backends[1]


@pytest.mark.parametrize("name", [backend.name for backend in BACKENDS])
def test_the_launcher_filters_system_calls_in_every_sandbox(name: str) -> None:
    (backend,) = (backend for backend in BACKENDS if backend.name == name)
    policy = SandboxPolicy(processes=7)
    _, descriptor = launcher_command(["run", "me"], backend, policy, cwd=Path("/"))
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        config = marshal.load(file)
    assert config["processes"] == 7
    assert bool(config["filter"]) is backend.is_sandbox
    assert config["file_rules"] == backend.launcher_setup(policy).file_rules
