"""A worker as its supervisor holds it: a confined process with three pipes, and an end that leaves nothing behind."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from harness.core import paths
from harness.runs import keeper
from harness.runs.sandbox import Means, confined_command, offered_means

_PIPE_BYTES = 1 << 20
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "HF_HOME", "HF_HUB_CACHE")
_PASSED_ON_PREFIXES = ("CUDA_", "NVIDIA_", "PYTORCH_", "TORCH_", "OMP_", "GOMP_", "MKL_")


class WorkerProcess:
    """One started worker. `frames` and `log` are descriptors to read from, `ended` is readable once it has ended."""

    def __init__(self, scratch: Path, *, hidden: Iterable[Path], readable: Iterable[Path]) -> None:
        """Start `python -m harness.worker` on the inputs in `scratch`/inputs; `scratch` is all it may write to."""
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
        inherited = [frames_out, commands_in]
        self._lifeline: int | None = None
        if offered_means() is Means.NONE:
            lifeline_in, self._lifeline = os.pipe()
            inherited.append(lifeline_in)
            argv = [sys.executable, "-I", "-S", keeper.__file__, str(lifeline_in), *argv]
        else:
            argv = confined_command(argv, hidden=hidden, readable=readable, writable=(scratch,))
        self._process = subprocess.Popen(
            argv,
            cwd=scratch,
            env=_environment(scratch),
            stdin=subprocess.DEVNULL,
            stdout=log_out,
            stderr=log_out,
            pass_fds=inherited,
            start_new_session=True,
        )
        for descriptor in (*inherited, log_out):
            os.close(descriptor)
        self.frames, self.log, self._commands = frames_in, log_in, commands_out
        for descriptor in (frames_in, log_in, commands_out):
            os.set_blocking(descriptor, False)
        self._unsaid: dict[str, str] = {}
        self.pid = self._process.pid
        self.ended = os.pidfd_open(self.pid)

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
        code = self._process.wait()
        # A sandbox reports the signal of its child as a shell does.
        number = -code if code < 0 else code - 128
        if number in {member.value for member in signal.Signals}:
            return signal.Signals(number), code
        return None, code

    def kill(self) -> bool:
        """Kill the worker and all that it started; false if something is left (a process stuck in the kernel)."""
        self._process.poll()
        return keeper.kill_descendants(os.getpid())

    def close(self) -> None:
        """Let go of the pipes."""
        self._process.poll()
        for descriptor in (self.frames, self.log, self._commands, self.ended, self._lifeline):
            if descriptor is not None:
                os.close(descriptor)


def _environment(scratch: Path) -> dict[str, str]:
    """What a plugin's process is told: what finds programs and devices, and nothing that finds data or secrets."""
    passed = {
        name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)
    }
    # Threads that spin for long while they wait make a step seven times slower on a busy machine, and threads that do
    # not spin at all make it half as fast on a quiet one.
    waiting = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}
    settled = {
        "PYTHONPATH": str(paths.PACKAGE.parent),
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(scratch),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }
    return waiting | passed | settled
