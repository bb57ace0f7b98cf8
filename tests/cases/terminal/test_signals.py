"""A signal that ends a command leaves the terminal as it was, and has its usual exit status."""

import contextlib
import os
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.core.terminal import handled_end
from harness.runs.summary import run_summary
from tests.functional.machine import Machine, guess_count, kill_processes_that_name, wait_until, write_round
from tests.tools.terminal import Terminal

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
RESTORED = {
    "alternate screen": (b"\x1b[?1049h", b"\x1b[?1049l"),
    "mouse reports": (b"\x1b[?1000h", b"\x1b[?1000l"),
    "all mouse reports": (b"\x1b[?1003h", b"\x1b[?1003l"),
    "mouse reports in SGR": (b"\x1b[?1006h", b"\x1b[?1006l"),
    "hidden cursor": (b"\x1b[?25l", b"\x1b[?25h"),
    "keyboard mode": (b"\x1b[>", b"\x1b[<u"),
    "title": (b"\x1b[22;2t", b"\x1b[23;2t"),
    "bracketed paste": (b"\x1b[?2004h", b"\x1b[?2004l"),
}


_processes: list[subprocess.Popen[bytes]] = []


class HarnessTerminal(Terminal):
    """The harness in a pseudo-terminal of 100 columns and 30 rows."""

    def __init__(self, machine: Machine, *command: str) -> None:
        environment = {name: value for name, value in machine.env().items() if name not in ("COLUMNS", "LINES")}
        words = [sys.executable, "-m", "harness", *command]
        super().__init__(words, rows=30, columns=100, env=environment, cwd=machine.folder)
        _processes.append(self.process)

    def read_all(self) -> bytes:
        """Read what the command has written, and return everything that it wrote so far."""
        before = -1
        while len(self.shown) > before:
            before = len(self.shown)
            self.read(0)
        return self.shown

    def until(self, text: bytes) -> None:
        """Wait until the command has written `text`."""
        wait_until(lambda: text in self.read_all())

    def end(self, number: int) -> int:
        """Send a signal to the command, and return its exit status as `subprocess` gives it."""
        self.process.send_signal(number)
        wait_until(lambda: self.read_all() is not None and self.process.poll() is not None)
        self.read_all()
        return self.process.returncode

    def is_restored(self) -> bool:
        """Return True if everything that was changed in the terminal was changed back afterwards."""
        for name, (change, restore) in RESTORED.items():
            assert self.shown.rfind(restore) > self.shown.rfind(change) >= 0, name
        return termios.tcgetattr(self.fd) == self.modes


@pytest.fixture
def machine(home: Path) -> Iterator[Machine]:
    write_round(home)
    # A shell without job control ignores them for what it runs in the background, and so would the command.
    before = [signal.signal(number, signal.SIG_DFL) for number in ENDING]
    yield Machine(home)
    for number, handler in zip(ENDING, before, strict=True):
        signal.signal(number, handler)
    while _processes:
        _processes.pop().kill()
    kill_processes_that_name(str(home))


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_the_screen_is_left_before_a_signal_ends_it(machine: Machine, number: signal.Signals) -> None:
    terminal = HarnessTerminal(machine)
    terminal.until(b"How much of its training data")
    assert terminal.end(number) == -number and terminal.is_restored()


@pytest.mark.parametrize("key", [b"?", b"b"], ids=["keys", "dialog"])
def test_a_screen_below_a_dialog_is_left_too(machine: Machine, key: bytes) -> None:
    terminal = HarnessTerminal(machine)
    terminal.until(b"How much of its training data")
    before = len(terminal.read_all())
    terminal.press(key)
    wait_until(lambda: len(terminal.read_all()) > before + 200)
    assert terminal.end(signal.SIGTERM) == -signal.SIGTERM and terminal.is_restored()


@pytest.mark.parametrize("number", ENDING[:2], ids=lambda number: number.name)
def test_a_run_goes_on_when_a_signal_ends_the_screen(machine: Machine, number: signal.Signals) -> None:
    folder = machine.detached("patient")
    terminal = HarnessTerminal(machine, "watch", folder.id)
    terminal.until(b"running")
    assert terminal.end(number) == -number and terminal.is_restored()
    count = guess_count(folder)
    wait_until(lambda: guess_count(folder) > count)
    assert run_summary(folder).status == "running"


@pytest.mark.parametrize("number", ENDING[:2], ids=lambda number: number.name)
def test_the_cursor_is_shown_again_when_a_signal_ends_a_status_line(machine: Machine, number: signal.Signals) -> None:
    terminal = HarnessTerminal(machine, "run", "patient", *machine.plugin())
    terminal.until(b"\x1b[?25l")
    wait_until(lambda: machine.folders() and guess_count(machine.folders()[0]) > 0)
    assert terminal.end(number) == -number
    assert terminal.shown.rfind(b"\x1b[?25h") > terminal.shown.rfind(b"\x1b[?25l") >= 0
    assert termios.tcgetattr(terminal.fd) == terminal.modes
    (folder,) = machine.folders()
    count = guess_count(folder)
    wait_until(lambda: guess_count(folder) > count)


@pytest.mark.slow
def test_a_terminal_that_takes_no_output_does_not_keep_the_process(machine: Machine) -> None:
    terminal = HarnessTerminal(machine)
    terminal.until(b"How much of its training data")
    # Nobody reads, so that the application waits for the terminal before the last key.
    child = os.open(terminal.name, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while os.write(child, b" " * 4096):
            pass
    os.close(child)
    for key in b"23456121" * 10:
        terminal.press(bytes([key]))
        time.sleep(0.05)
    terminal.process.send_signal(signal.SIGTERM)
    assert wait_until(lambda: terminal.process.poll() is not None)
    assert terminal.process.returncode == -signal.SIGTERM


@pytest.mark.parametrize("is_signalled", [True, False])
def test_a_closed_terminal_ends_the_process(machine: Machine, is_signalled: bool) -> None:
    """A process that nohup started, or whose terminal does not control it, gets no signal."""
    terminal = HarnessTerminal(machine)
    terminal.until(b"How much of its training data")
    os.close(terminal.fd)
    if is_signalled:
        terminal.process.send_signal(signal.SIGHUP)
    assert wait_until(lambda: terminal.process.poll() is not None)


def test_an_ignored_signal_stays_ignored() -> None:
    """nohup starts a command with SIGHUP ignored, and the command must not change that."""
    handled: list[int] = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with handled_end(handled.append):
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)
    assert handled == [signal.SIGTERM]


def test_another_thread_handles_no_signal() -> None:
    def body() -> None:
        with handled_end(lambda _: None):
            seen.append(signal.getsignal(signal.SIGTERM))

    seen: list[object] = []
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL]
