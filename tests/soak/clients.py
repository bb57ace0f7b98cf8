"""Clients of a run as real processes in their own terminals: its screen, and its status line."""

import contextlib
import fcntl
import os
import pty
import random
import struct
import subprocess
import sys
import termios
import time

from harness.runs.folder import RunFolder
from tests.functional.machine import Machine

COMMANDS = {"screen": ("watch",), "plain": ("watch", "--plain")}
_LINES, _COLUMNS = 40, 120
_PAINT_TIMEOUT_SECONDS = 20.0


def kill_client(machine: Machine, folder: RunFolder, kind: str, rng: random.Random) -> bool:
    """Start a client and kill it at a random moment. Return whether it had shown the run."""
    terminal, client_side = pty.openpty()
    fcntl.ioctl(client_side, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, _COLUMNS, 0, 0))
    command, *options = COMMANDS[kind]
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", command, folder.id, *options],
        cwd=machine.folder,
        env=machine.env() | {"TERM": "xterm-256color", "HARNESS_CONFIG": str(machine.folder / "config")},
        stdin=client_side,
        stdout=client_side,
        stderr=client_side,
        start_new_session=True,
    )
    os.close(client_side)
    shown = b""
    os.set_blocking(terminal, False)
    # Half of the clients are killed while they start, the others after they show the run.
    wait_for_paint, pause = rng.random() < 0.5, rng.uniform(0.1, 1.0)
    until = time.monotonic() + (_PAINT_TIMEOUT_SECONDS if wait_for_paint else pause)
    while time.monotonic() < until and process.poll() is None:
        if wait_for_paint and folder.id.encode() in shown:
            wait_for_paint, until = False, time.monotonic() + pause
        with contextlib.suppress(BlockingIOError, OSError):
            # A full terminal buffer would block the client.
            shown += os.read(terminal, 1 << 16)
        time.sleep(0.02)
    process.kill()
    process.wait()
    os.close(terminal)
    return folder.id.encode() in shown
