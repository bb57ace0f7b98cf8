"""Start supervisors by forking a process that has loaded their modules, which takes 0.4 s of CPU time.

A forked supervisor has a session, environment, log and arguments of its own. Only /proc/PID/environ is the server's.
"""

import contextlib
import ctypes
import functools
import gc
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO

_SPACE_FOR_ARGUMENTS = "." * 4096


class ForkedSupervisor:
    """A forked supervisor with the part of Popen's interface that `harness.runs.launch` uses."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], stdout: IO[bytes], **_: Any) -> None:
        self.pid = _ask([command, {**env}, str(stdout.name)])

    def poll(self) -> int | None:
        """Return the exit code, None while the supervisor is alive."""
        code: int | None = _ask(self.pid)
        return code


def _ask(request: Any) -> Any:
    _, stream = _server()
    stream.write(json.dumps(request).encode() + b"\n")
    stream.flush()
    return json.loads(stream.readline())


@functools.cache
def _server() -> "tuple[subprocess.Popen[bytes], BinaryIO]":
    ours, theirs = socket.socketpair()
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(theirs.fileno()), _SPACE_FOR_ARGUMENTS],
            stdin=subprocess.DEVNULL,
            cwd="/",
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
            pass_fds=[theirs.fileno()],
        )
    return server, ours.makefile("rwb")


def main() -> None:
    """Answer each list with the id of a new supervisor, and each id with the exit code of that supervisor."""
    from harness.supervisor import __main__, attack_job, audit_job  # noqa: F401  (loaded before the first fork)

    gc.freeze()
    codes: dict[int, int] = {}
    with socket.socket(fileno=int(sys.argv[1])) as channel, channel.makefile("rwb") as stream:
        channel.set_inheritable(False)
        for request in map(json.loads, stream):
            with contextlib.suppress(ChildProcessError):
                while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                    codes[ended[0]] = os.waitstatus_to_exitcode(ended[1])
            if isinstance(request, int):
                answer = codes.get(request)
            elif (answer := os.fork()) == 0:
                break
            else:
                codes.pop(answer, None)
            stream.write(json.dumps(answer).encode() + b"\n")
            stream.flush()
        else:
            return
    _become(*request)
    __main__.main()


def _become(command: Sequence[str], environment: Mapping[str, str], log: str) -> None:
    """Give this forked process what Popen gives a new one."""
    os.setsid()
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    # As of `python -P -m MODULE ARGUMENTS...`.
    sys.argv = list(command[3:])
    # Tests find processes by their arguments, which are in this memory.
    start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
    ctypes.memmove(start, "\0".join(command).encode().ljust(end - start, b"\0"), end - start)


if __name__ == "__main__":
    main()
