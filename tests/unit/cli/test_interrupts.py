"""Ctrl-C in code that loses the KeyboardInterrupt, or makes another error of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.functional.machine import ROOT

_COMMAND = """
import os, signal, sys, time
from harness.cli import app
from harness.__main__ import main

class Finalized:
    def __del__(self):
        interrupt()

class Open:
    def __enter__(self):
        pass
    def __exit__(self, *_):
        raise ValueError("still open")

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
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
    "an exit that is ignored": "Finalized.__del__ = lambda self: sys.exit(143); Finalized(); time.sleep(30)",
    "replaced by an error of the exit": "with Open(): interrupt()",
    "as text of another error": "try: interrupt()\n    except KeyboardInterrupt as error: text = repr(error)\n"
    "    raise RuntimeError(text)",
}


def ended(then: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command that does `then`, and ends with code 4 if that ends nothing."""
    return subprocess.run(
        [sys.executable, "-c", _COMMAND.format(then=f"    {then}")],
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


def test_an_error_without_an_interrupt_is_a_failure(tmp_path: Path) -> None:
    done = ended("raise RuntimeError('broken')", tmp_path)
    assert done.returncode == 1
    assert "broken" in done.stderr
