"""A command in a process of its own that is cancelled: what its end means."""

import sys
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.runs import subcommand
from harness.runs.subcommand import run_subcommand

_SOURCE = """
import pathlib, sys, time
try:
    pathlib.Path(sys.argv[1]).touch()
    time.sleep(60)
except KeyboardInterrupt:
    {then}
"""


def cancelled(then: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object] | None:
    """Run a command that does `then` when it is interrupted."""
    script, started = folder / "script.py", folder / "started"
    script.write_text(_SOURCE.format(then=then))
    monkeypatch.setattr(subcommand, "PROGRAM", (sys.executable, str(script), str(started)))
    return run_subcommand(["run"], on_progress=lambda _: None, is_cancelled=started.exists, answer_codes=(0, 1))


@pytest.mark.parametrize(
    "then", ["raise", "sys.exit(130)", "raise RuntimeError('Error calling __set_name__') from None"]
)
def test_an_interrupt_that_becomes_any_exception_is_no_failure(
    then: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cancelled(then, tmp_path, monkeypatch) is None


def test_a_cancelled_command_that_is_killed_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A run that it has started may go on.
    with pytest.raises(HarnessError, match="exit code -11"):
        cancelled("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", tmp_path, monkeypatch)


def test_an_error_of_a_cancelled_command_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HarnessError, match="the disk is full"):
        cancelled("sys.exit('harness: the disk is full')", tmp_path, monkeypatch)


@pytest.mark.parametrize("code", [0, 1])
def test_a_command_that_had_done_its_work_has_an_answer(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cancelled(f'print(\'{{"id": "a"}}\'); sys.exit({code})', tmp_path, monkeypatch) == {"id": "a"}
