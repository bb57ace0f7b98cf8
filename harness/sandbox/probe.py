"""Attempt one operation that a sandbox should refuse. A script on the standard library alone, run in the sandbox.

    python -I -S probe.py OPERATION ARGUMENT...

The exit code is 0 if the operation succeeded and 1 if it was refused.
"""

import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_PTRACE_SEIZE = 0x4206
_ADJ_TICK, _TICK_AT, _TIMEX_BYTES = 0x4000, 88, 208


def read(*paths: str) -> bool:
    """Read the first byte of a file, or list a directory; one success is enough."""
    return any(_succeeds(_read, path) for path in paths)


def write(*paths: str) -> bool:
    """Create a file in a directory, or open an existing file for writing; one success is enough."""
    return any(_succeeds(_write, path) for path in paths)


def connect(port: str, path: str) -> bool:
    """Connect to a listener on this machine over TCP, UDP, or a Unix socket with or without a path."""
    sockets: list[tuple[int, int, object]] = [
        (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", int(port))),
        (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", int(port))),
        (socket.AF_UNIX, socket.SOCK_STREAM, path),
        (socket.AF_UNIX, socket.SOCK_STREAM, f"\0{path}"),
    ]
    return any(_succeeds(_connect, *parts) for parts in sockets)


def read_variable(*names: str) -> bool:
    """Find one of the variables in the environment."""
    return any(name in os.environ for name in names)


def inspect_process(pid: str) -> bool:
    """Trace another process, or read its memory or environment from /proc."""
    is_traced = _LIBC.ptrace(ctypes.c_long(_PTRACE_SEIZE), int(pid), None, None) == 0
    return is_traced or read(f"/proc/{pid}/environ", f"/proc/{pid}/maps", f"/proc/{pid}/mem")


def kill_process(pid: str) -> bool:
    """Kill another process. The caller checks if it died."""
    return _succeeds(os.kill, int(pid), signal.SIGKILL)


def set_clock() -> bool:
    """Set the length of a clock tick to its current value, which changes nothing."""
    timex = (ctypes.c_char * _TIMEX_BYTES)()
    if _LIBC.adjtimex(timex) < 0:
        return False
    ctypes.c_uint.from_buffer(timex).value = _ADJ_TICK
    return bool(_LIBC.adjtimex(timex) >= 0)


def have_privileges() -> bool:
    """Have a capability, or a way to gain one through a set-user-ID program."""
    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file.read().splitlines())
    return int(status["CapEff"], 16) != 0 or status["NoNewPrivs"].strip() != "1"


def allocate_memory(size: str) -> bool:
    """Allocate and write `size` bytes."""
    return len(b"\1" * int(size)) == int(size)


def fork_processes(count: str) -> bool:
    """Start `count` processes that run at the same time."""
    for _ in range(int(count)):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    return True


def write_large_file(size: str) -> bool:
    """Write a sparse file of more than `size` bytes into the current directory."""
    with open("grown", "wb") as file:
        os.pwrite(file.fileno(), b"x", int(size))
    return True


def open_files(count: str) -> bool:
    """Open `count` files at the same time."""
    return all(os.open(os.devnull, os.O_RDONLY) >= 0 for _ in range(int(count)))


def leave_process(_mark: str) -> bool:
    """Leave an orphan in its own session that ignores SIGTERM; `_mark` is in its arguments."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(60)
        os._exit(0)
    return True


def _succeeds(operation: Callable[..., Any], *arguments: Any) -> bool:
    try:
        operation(*arguments)
    except OSError:
        return False
    return True


def _read(path: str) -> None:
    if os.path.isdir(path):  # noqa: PTH112
        os.listdir(path)
    else:
        with open(path, "rb") as file:
            file.read(1)


def _write(path: str) -> None:
    if not os.path.isdir(path):  # noqa: PTH112
        os.close(os.open(path, os.O_WRONLY))
        return
    file = f"{path}/.probe-{os.getpid()}"
    os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.unlink(file)  # noqa: PTH108


def _connect(family: int, kind: int, address: Any) -> None:
    with socket.socket(family, kind) as client:
        client.settimeout(2)
        client.connect(address)
        client.send(b"x")


if __name__ == "__main__":
    try:
        has_succeeded = globals()[sys.argv[1]](*sys.argv[2:])
    except OSError:
        has_succeeded = False
    sys.exit(0 if has_succeeded else 1)
