"""A command in a pseudo-terminal."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self


class Terminal:
    """A command that runs in a terminal of its own, until the end of the block.

    name, fd: the terminal's file, and the descriptor of its other end. modes: those before the command began.
    shown: what the command has written.
    """

    def __init__(
        self, command: Sequence[str], *, rows: int, columns: int, env: Mapping[str, str], cwd: Path | None = None
    ) -> None:
        self.fd, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.name, self.modes = os.ttyname(side), termios.tcgetattr(side)
        self.shown = b""
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**env, "TERM": "xterm-256color"},
            stdin=side,
            stdout=side,
            stderr=side,
            start_new_session=True,
        )
        os.close(side)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.fd)

    def read(self, seconds: float) -> bool:
        """Wait at most `seconds` until the command writes, and read that. Return False once the terminal is closed."""
        if select.select([self.fd], [], [], max(0.0, seconds))[0]:
            try:
                part = os.read(self.fd, 1 << 16)
            except OSError:  # Linux reports the closed side of a terminal as an error.
                return False
            self.shown += part
            return bool(part)
        return True

    def read_for(self, seconds: float) -> int:
        """Read what the command writes in `seconds`. Return the number of bytes."""
        end, before = time.monotonic() + seconds, len(self.shown)
        while time.monotonic() < end and self.read(end - time.monotonic()):
            pass
        return len(self.shown) - before

    def wait_for(self, *texts: str, seconds: float) -> None:
        """Read until the command has written all of `texts`. Raises AssertionError if it does not within `seconds`."""
        end = time.monotonic() + seconds
        while any(text.encode() not in self.shown for text in texts):
            assert self.read(end - time.monotonic()) and time.monotonic() < end, (
                f"{texts} did not appear: {self.shown[-2000:]!r}"
            )

    def press(self, keys: bytes) -> None:
        """Send keys to the command."""
        os.write(self.fd, keys)
