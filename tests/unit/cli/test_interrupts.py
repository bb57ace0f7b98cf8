"""Ctrl-C in code that loses the KeyboardInterrupt, or makes another error of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.machine import ROOT

_COMMAND = """
import os, pathlib, signal, sys, time
from pydantic_core import SchemaError
from harness.cli import app
from harness.core.errors import HarnessError
from harness.cli.entry import main

class Finalized:
    signal = signal.SIGINT
    def __del__(self):
        interrupt(self.signal)

class Open:
    def __enter__(self):
        pass
    def __exit__(self, *_):
        raise ValueError("still open")

def interrupt(number=signal.SIGINT):
    os.kill(os.getpid(), number)
    time.sleep(30)

def load(name):
{then}
    sys.exit(4)

app.load_command = load
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["harness", "run"]
main()
"""
_ENDS = {
    "as it is": "interrupt()",
    "ignored in a finalizer": "Finalized(); time.sleep(30)",
    "replaced by an error of the exit": "with Open(): interrupt()",
    "replaced and hidden": "try: interrupt()\n    except KeyboardInterrupt: raise ValueError('closed') from None",
    "as text of pydantic's error": "raise SchemaError('literal: KeyboardInterrupt: ')",
}


def ended(then: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command that does `then`, and ends with code 4 if that ends nothing."""
    return run([sys.executable, "-c", _COMMAND.format(then=f"    {then}")], folder)


def run(command: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command of Python in `folder` and return what it printed."""
    return subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        cwd=folder,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("end", _ENDS)
def test_an_interrupt_ends_a_command_whatever_becomes_of_it(end: str, tmp_path: Path) -> None:
    done = ended(_ENDS[end], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_any_other_ignored_error_is_printed_and_ends_nothing(tmp_path: Path) -> None:
    done = ended("Finalized.__del__ = lambda self: 1 / 0; Finalized()", tmp_path)
    assert done.returncode == 4
    assert "ZeroDivisionError" in done.stderr


def test_an_interrupt_of_the_first_imports_is_one_too(tmp_path: Path) -> None:
    source = """
import builtins
from harness.cli.entry import main

def interrupted(*arguments):
    raise KeyboardInterrupt

builtins.__import__ = interrupted
main()
"""
    done = run([sys.executable, "-c", source], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_exit_that_is_ignored_comes_again(tmp_path: Path) -> None:
    then = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)); Finalized.signal = signal.SIGTERM; Finalized()"
    assert ended(f"{then}; time.sleep(30)", tmp_path).returncode == 143


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("RuntimeError('the node said: KeyboardInterrupt')", "the node said"),
        ("HarnessError('the run goes on.')", "the run goes on"),
    ],
)
def test_an_error_is_a_failure(error: str, words: str, tmp_path: Path) -> None:
    done = ended(f"raise {error}", tmp_path)
    assert done.returncode == 1
    assert words in done.stderr


def test_an_error_of_the_cleaning_up_is_printed(tmp_path: Path) -> None:
    then = "try: interrupt()\n    except KeyboardInterrupt: pathlib.Path('absent').read_text()"
    done = ended(then, tmp_path)
    assert done.returncode == 1
    assert "absent" in done.stderr
