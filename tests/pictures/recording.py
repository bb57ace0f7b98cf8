"""The recording of a first run: a shell in a real terminal, its screens over time, and the animated SVG of them."""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

from tests.pictures import PICTURES
from tests.pictures.film import Frame, edit, read_rows, to_svg

RECORDING = "first-run-recording"
_COLUMNS, _ROWS = 100, 30
_SPEED = 2.0
_LONGEST_PAUSE = 2.0
_LAST_PAUSE = 5.0
_TITLE = "harness demo (twice as fast as recorded)"
_KEPT = ("HARNESS", "PYTHON", "HOME", "LANG")


def record_first_run(folder: Path) -> None:
    """Type `harness demo` in a shell, look at its guesses, and write the recording."""
    os.environ["HARNESS_HOME"] = f"{folder}/recording"
    commands = folder / "commands"
    commands.mkdir(exist_ok=True)
    program = commands / "harness"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m harness "$@"\n')
    program.chmod(0o755)
    terminal = _Terminal(folder, commands)
    try:
        terminal.look_until("$")
        terminal.type("harness demo")
        terminal.press("Enter")
        terminal.look_until("finished", "Recall@100 ±", step=1.5)
        terminal.look(3.0, step=0.5)
        # The panel of guesses, only the right ones, one of them, and back.
        for keys in (("BTab",), ("m",), ("Enter",), ("Escape",), ("Tab",)):
            terminal.press(*keys)
            terminal.look(4.0, step=0.5)
    finally:
        terminal.close()
    frames = edit(terminal.frames, longest_pause=_LONGEST_PAUSE, speed=_SPEED)
    file = PICTURES / f"{RECORDING}.svg"
    file.write_text(to_svg(frames, columns=_COLUMNS, title=_TITLE, last_pause=_LAST_PAUSE), encoding="utf-8")
    print(file)


class _Terminal:
    """A shell in a tmux server of its own, and the frames that were seen so far."""

    def __init__(self, folder: Path, commands: Path) -> None:
        self.frames: list[Frame] = []
        self._socket = str(folder / "tmux")
        self._start = time.monotonic()
        variables = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(_KEPT)]
        variables += [f"PATH={commands}:{os.environ['PATH']}", "PS1=$ ", "TERM=tmux-256color", "COLORTERM=truecolor"]
        shell = shlex.join(["env", "-i", *variables, "bash", "--norc", "--noprofile"])
        size = ["-x", str(_COLUMNS), "-y", str(_ROWS)]
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, "-c", str(folder), shell)
        self._tmux("set", "-g", "status", "off")

    def type(self, text: str) -> None:
        """Type a text, one character after another."""
        for character in text:
            self._tmux("send-keys", "-l", character)
            self.look(0.15)

    def press(self, *keys: str) -> None:
        """Press keys by their tmux names."""
        self._tmux("send-keys", *keys)

    def look(self, seconds: float, step: float = 0.15) -> None:
        """Take a frame every `step` seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(step)
            self._look()

    def look_until(self, *wanted: str, step: float = 0.2, seconds: float = 600.0) -> None:
        """Take frames until all of `wanted` are on the screen."""
        end = time.monotonic() + seconds
        while not all(text in self._tmux("capture-pane", "-p") for text in wanted):
            assert time.monotonic() < end, f"{wanted} did not appear"
            self.look(step, step)
        self._look()

    def close(self) -> None:
        """End the shell and the server."""
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], check=False, capture_output=True)

    def _look(self) -> None:
        captured = self._tmux("capture-pane", "-p", "-e", "-N")
        self.frames.append(Frame(time.monotonic() - self._start, read_rows(captured)))

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", self._socket, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
