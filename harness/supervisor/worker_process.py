"""A worker as its supervisor holds it: a confined process with three pipes, and an end that leaves nothing behind."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

from harness.core import paths
from harness.core.request import ENDPOINT_KEYS
from harness.sandbox import SandboxedProcess, SandboxPolicy, reaper
from harness.sandbox.environment import plain_environment
from harness.sandbox.in_force import InForce
from harness.sandbox.refusals import Refusal

_PIPE_BYTES = 1 << 20
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})


class WorkerProcess:
    """One started worker. `frames` and `log` are descriptors to read from, `ended` is readable once it has ended."""

    def __init__(self, scratch: Path, confinement: SandboxPolicy, *, asks_an_endpoint: bool = False) -> None:
        """Start `python -m harness.worker` on the inputs in `scratch`/inputs, where it works and has its home.

        asks_an_endpoint: it is handed the key that this process's environment holds, if any, and the proxy's address.
        """
        frames_in, frames_out = os.pipe()
        commands_in, commands_out = os.pipe()
        log_in, log_out = os.pipe()
        for descriptor in (frames_in, log_in):
            with contextlib.suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        # -P: neither the scratch folder nor the user's own decides what `import harness` finds.
        argv = [
            sys.executable,
            "-P",
            "-m",
            "harness.worker",
            str(frames_out),
            str(commands_in),
            str(scratch / "inputs"),
        ]
        self._confined = SandboxedProcess(
            argv,
            confinement,
            cwd=scratch,
            environment=_environment(scratch) | (_for_an_endpoint() if asks_an_endpoint else {}),
            stdin=subprocess.DEVNULL,
            stdout=log_out,
            stderr=log_out,
            inherited=(frames_out, commands_in),
        )
        for descriptor in (frames_out, commands_in, log_out):
            os.close(descriptor)
        self.frames, self.log, self._commands = frames_in, log_in, commands_out
        for descriptor in (frames_in, log_in, commands_out):
            os.set_blocking(descriptor, False)
        self._unsaid: dict[str, str] = {}
        self.pid = self._confined.pid
        self.ended = os.pidfd_open(self.pid)

    def in_force(self) -> InForce:
        """What holds the worker, as it was really applied."""
        return self._confined.in_force()

    def refusals(self) -> dict[Refusal, int]:
        """How often each thing was refused so far."""
        return self._confined.refusals()

    def struck_memory_limit(self) -> int | None:
        """The limit of memory, in bytes, that one of its processes was killed for; None when none was."""
        return self._confined.struck_memory_limit()

    def acknowledge(self, sequence: int) -> None:
        """Tell the worker that the frames up to this one are durable."""
        # One acknowledgement stands for all before it.
        self._unsaid["ack"] = f"ack {sequence}"
        self.say_what_is_unsaid()

    def ask_to_finish(self) -> None:
        """Tell the worker that its attack should come to its end."""
        self._unsaid["finish"] = "finish"
        self.say_what_is_unsaid()

    def say_what_is_unsaid(self) -> None:
        """Send what found no room in the pipe so far; a worker that is gone hears nothing."""
        for kind, command in list(self._unsaid.items()):
            with contextlib.suppress(BlockingIOError, BrokenPipeError):
                os.write(self._commands, command.encode() + b"\n")
                del self._unsaid[kind]

    def exit_signal_or_code(self) -> tuple[signal.Signals | None, int]:
        """How the process, which has ended, did so: the signal that killed it, and its exit code."""
        return self._confined.exit_signal_or_code()

    def kill(self) -> bool:
        """Kill the worker and all that it started; false if something is left (a process stuck in the kernel)."""
        self._confined.strike()
        # A supervisor adopts orphans and has no other children.
        is_clean = reaper.kill_descendants(os.getpid())
        return self._confined.kill() and is_clean

    def close(self) -> None:
        """Let go of the pipes, and of what held the worker."""
        self._confined.close()
        for descriptor in (self.frames, self.log, self._commands, self.ended):
            os.close(descriptor)


def _for_an_endpoint() -> dict[str, str]:
    """What leads to an endpoint: its key, under the name that a worker looks for, and the proxy on the way."""
    passed = {name: value for name, value in os.environ.items() if name.upper() in _PROXIES}
    key = next((os.environ[name] for name in ENDPOINT_KEYS if os.environ.get(name)), None)
    return passed if key is None else passed | {ENDPOINT_KEYS[0]: key}


def _environment(scratch: Path) -> dict[str, str]:
    """What a plugin's process is told: what finds programs and devices, and nothing that finds data or secrets."""
    # Threads that spin for long while they wait make a step seven times slower on a busy machine, and threads that do
    # not spin at all make it half as fast on a quiet one.
    waiting = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}
    settled = {
        "PYTHONPATH": str(paths.PACKAGE.parent),
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }
    return waiting | plain_environment(scratch) | settled
