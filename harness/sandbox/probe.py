"""Attempt one operation that a sandbox should refuse. A script on the standard library alone, run in the sandbox.

    python -I -S probe.py OPERATION ARGUMENT...

The exit code is 0 if the operation succeeded and 1 if it was refused.
"""

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import sys
import time
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_PTRACE_SEIZE = 0x4206
_FS_IOC_SETFLAGS, _FS_NODUMP_FL = 0x40086602, 0x40
_ADJ_TICK, _TICK_AT, _TIMEX_BYTES = 0x4000, 88, 208


def read(*paths: str) -> bool:
    """Read the first byte of a file, or list a directory; one success is enough."""
    for path in paths:
        with contextlib.suppress(OSError):
            if os.path.isdir(path):  # noqa: PTH112
                os.listdir(path)
            else:
                os.read(os.open(path, os.O_RDONLY), 1)
            return True
    return False


def write(*paths: str) -> bool:
    """Create a file in a directory, or open an existing file for writing; one success is enough."""
    for path in paths:
        with contextlib.suppress(OSError):
            if os.path.isdir(path):  # noqa: PTH112
                file = f"{path}/.probe-{os.getpid()}"
                os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                os.unlink(file)  # noqa: PTH108
            else:
                os.close(os.open(path, os.O_WRONLY))
            return True
    return False


def change_metadata(path: str) -> bool:
    """Change permissions, times, owner, attributes and length of a file. The caller checks if one of them changed."""
    attempts = (
        lambda: os.chmod(path, 0o777),  # noqa: PTH101, S103
        lambda: os.utime(path, (0, 0)),
        lambda: os.chown(path, os.getuid(), os.getgid()),
        lambda: os.setxattr(path, "user.probe", b"x"),
        lambda: os.truncate(path, 0),
        lambda: os.close(os.open(path, os.O_RDONLY | os.O_TRUNC)),
        lambda: fcntl.ioctl(os.open(path, os.O_RDONLY), _FS_IOC_SETFLAGS, _FS_NODUMP_FL.to_bytes(8, sys.byteorder)),
    )
    for attempt in attempts:
        with contextlib.suppress(OSError):
            attempt()
    return True


def connect(port: str, path: str) -> bool:
    """Connect to a listener on this machine over TCP, UDP, or a Unix socket with or without a path."""
    addresses: list[tuple[int, int, Any]] = [
        (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", int(port))),
        (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", int(port))),
        (socket.AF_UNIX, socket.SOCK_STREAM, path),
        (socket.AF_UNIX, socket.SOCK_STREAM, f"\0{path}"),
    ]
    for family, kind, address in addresses:
        with contextlib.suppress(OSError), socket.socket(family, kind) as client:
            client.settimeout(2)
            client.connect(address)
            client.send(b"x")
            return True
    return False


def read_variable(*names: str) -> bool:
    """Find one of the variables in the environment."""
    return any(name in os.environ for name in names)


def inspect_process(pid: str) -> bool:
    """Trace another process, or read its memory or environment from /proc."""
    is_traced = _LIBC.ptrace(ctypes.c_long(_PTRACE_SEIZE), int(pid), None, None) == 0
    return is_traced or read(f"/proc/{pid}/environ", f"/proc/{pid}/maps", f"/proc/{pid}/mem")


def kill_process(pid: str) -> bool:
    """Kill another process. The caller checks if it died."""
    os.kill(int(pid), signal.SIGKILL)
    return True


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


if __name__ == "__main__":
    try:
        has_succeeded = globals()[sys.argv[1]](*sys.argv[2:])
    except OSError:
        has_succeeded = False
    sys.exit(0 if has_succeeded else 1)
