"""Clients of a run as real processes in their own terminals: its screen, and its status line."""

import random
import sys
import time

from harness.runs.folder import RunFolder
from tests.functional.machine import Machine
from tests.tools.terminal import Terminal

COMMANDS = {"screen": ("watch",), "plain": ("watch", "--plain")}
_PAINT_TIMEOUT_SECONDS = 20.0


def kill_client(machine: Machine, folder: RunFolder, kind: str, rng: random.Random) -> bool:
    """Start a client and kill it at a random moment. Return whether it had shown the run."""
    name, *options = COMMANDS[kind]
    command = [sys.executable, "-m", "harness", name, folder.id, *options]
    environment = machine.env() | {"HARNESS_CONFIG": str(machine.folder / "config")}
    # Half of the clients are killed while they start, the others after they show the run.
    waits_for_paint, pause = rng.random() < 0.5, rng.uniform(0.1, 1.0)
    with Terminal(command, rows=40, columns=120, env=environment, cwd=machine.folder) as client:
        until = time.monotonic() + _PAINT_TIMEOUT_SECONDS * waits_for_paint
        while folder.id.encode() not in client.shown and time.monotonic() < until and client.read(0.02):
            pass
        client.read_for(pause)
        return folder.id.encode() in client.shown
