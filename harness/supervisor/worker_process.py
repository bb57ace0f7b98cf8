"""The worker as the supervisor sees it: a sandboxed process with three pipes, and its place in an execution."""

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.core import paths
from harness.core.frames import FrameReader
from harness.core.protocol import ENDPOINT_KEYS
from harness.sandbox import ON_NODES, SandboxedProcess, SandboxPolicy, reaper
from harness.sandbox.policy import plain_environment
from harness.supervisor.devices import Device
from harness.supervisor.intake import WorkerEnd

PIPE_BYTES = 1 << 20
"""The capacity of a pipe from the worker, where the system allows it."""
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"})


class WorkerProcess:
    """One worker: its sandboxed process, the descriptors `frames` and `log` to read from, and `ended`.

    `ended` is a descriptor that is readable once the process has ended.
    """

    def __init__(
        self, scratch: Path, policy: SandboxPolicy, *, environment: Mapping[str, str], cluster: str | None = None
    ) -> None:
        """Start `python -m harness.worker` on the inputs in `scratch`/inputs, with `scratch` as its home.

        `environment` is added to the plain one. If `policy` allows network access, the worker gets the API key and the
        proxies of this process's environment. With the address of a `cluster`, the process passes everything on to a
        worker on a node, which has a sandbox there; this process itself needs none.
        """
        with contextlib.ExitStack() as on_failure:
            pipes = [os.pipe() for _ in range(3)]
            for descriptor in (descriptor for pipe in pipes for descriptor in pipe):
                on_failure.callback(os.close, descriptor)
            (frames_in, frames_out), (commands_in, commands_out), (log_in, log_out) = pipes
            for descriptor in (frames_in, log_in):
                with contextlib.suppress(OSError):
                    fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            # -P: `import harness` must not find anything in the scratch directory or the current one.
            if cluster is None:
                module = ["harness.worker"]
                worker_environment = _environment(scratch) | dict(environment)
                worker_environment |= _endpoint_environment() if policy.network else {}
            else:
                module = ["harness.cluster.remote_worker", cluster]
                worker_environment = {**os.environ, "PYTHONPATH": str(paths.PACKAGE.parent), "PYTHONUNBUFFERED": "1"}
            self.process = SandboxedProcess(
                [sys.executable, "-P", "-m", *module, str(frames_out), str(commands_in), str(scratch / "inputs")],
                policy,
                cwd=scratch,
                environment=worker_environment,
                backend=None if cluster is None else ON_NODES,
                stdout=log_out,
                stderr=log_out,
                inherited=(frames_out, commands_in),
            )
            on_failure.pop_all()
        for descriptor in (frames_out, commands_in, log_out):
            os.close(descriptor)
        self.frames, self.log, self._commands = frames_in, log_in, commands_out
        for descriptor in (frames_in, log_in, commands_out):
            os.set_blocking(descriptor, False)
        self._unsent: dict[str, str] = {}
        self.ended = os.pidfd_open(self.process.pid)

    @property
    def descriptors(self) -> tuple[int, int, int]:
        """The descriptors to wait for."""
        return self.frames, self.log, self.ended

    def send(self, word: str, number: int | None = None) -> None:
        """Send a command to the worker: `ack` and the number of the last durable frame, `finish`, or `answer`.

        A command replaces one with the same word that did not fit into the pipe: an acknowledgement covers all before
        it, and a worker has one question at a time.
        """
        self._unsent[word] = word if number is None else f"{word} {number}"
        self.send_pending()

    def send_pending(self) -> None:
        """Send the commands that did not fit into the pipe so far."""
        for word, command in list(self._unsent.items()):
            with contextlib.suppress(BlockingIOError, BrokenPipeError):
                os.write(self._commands, command.encode() + b"\n")
                del self._unsent[word]

    def kill(self) -> bool:
        """Kill the worker and all that it started; False if something is left (a process stuck in the kernel)."""
        self.process.kill_once()
        # A supervisor adopts orphans and has no other children.
        is_clean = reaper.kill_descendants(os.getpid())
        return self.process.kill() and is_clean

    def kill_leftovers(self, alive: Iterable["WorkerProcess"]) -> None:
        """Kill what this worker, which has ended, left behind. The workers that are `alive` stay so."""
        self.process.kill()
        reaper.kill_adopted({worker.process.pid for worker in alive})

    def close(self) -> None:
        """Close the pipes and the sandbox."""
        self.process.close()
        for descriptor in (self.frames, self.log, self._commands, self.ended):
            os.close(descriptor)


def _endpoint_environment() -> dict[str, str]:
    """Return the API key, under the name that the worker reads, and the proxies."""
    passed = {name: value for name, value in os.environ.items() if name.upper() in _PROXIES}
    key = next((os.environ[name] for name in ENDPOINT_KEYS if os.environ.get(name)), None)
    return passed if key is None else passed | {ENDPOINT_KEYS[0]: key}


def _environment(scratch: Path) -> dict[str, str]:
    """Return the environment of a plugin: programs and devices can be found in it, data and secrets cannot."""
    # Threads that spin long while they wait make a step seven times slower on a busy machine. Threads that do not spin
    # at all make it half as fast on an idle one.
    waiting = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "1000"}
    fixed = {
        "PYTHONPATH": str(paths.PACKAGE.parent),
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }
    return waiting | plain_environment(scratch) | fixed


@dataclass
class WorkerSlot:
    """One of the workers of an execution, `number` from 0."""

    number: int
    scratch: Path
    devices: tuple[Device, ...]
    """Those that it computes on, several if its target is split over them, none if it loads no model."""
    process: WorkerProcess
    frames: FrameReader = field(default_factory=FrameReader)
    end: WorkerEnd | None = None
    """Its last message."""
    silent_since: float | None = None
    """The time at which it closed the pipe of its frames, in seconds since boot."""
    is_over: bool = False
    """True if its process has ended and everything that it sent is stored."""
    deaths: int = 0
    """The number of times that it exited without a last message."""

    def replace(self, process: WorkerProcess) -> None:
        """Go on with a new process after the death of the old one, which the caller has killed."""
        self.process.close()
        self.process, self.frames, self.silent_since = process, FrameReader(), None
