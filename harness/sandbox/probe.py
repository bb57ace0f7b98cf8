"""Tries one deed that a sandbox should refuse. Run as a script on the standard library alone, inside the sandbox.

    python -I -S probe.py DEED ARGUMENT…

It ends with 0 when the deed was done, with 1 when it was refused.
"""

import ctypes
import os
import signal
import socket
import sys
import time

_LIBC = ctypes.CDLL(None, use_errno=True)
_PTRACE_SEIZE = 0x4206
_ADJ_TICK, _TICK_AT, _TIMEX_BYTES = 0x4000, 88, 208


def reads(*places: str) -> bool:
    """A file's first byte, or a folder's names."""
    return any(_can(_read, place) for place in places)


def writes(*places: str) -> bool:
    """A new file in a folder, or a file that is there: opened for it, and left as it is."""
    return any(_can(_write, place) for place in places)


def reaches(port: str, path: str) -> bool:
    """A listener on this machine: by TCP, by UDP, by a Unix socket with a path or without."""
    kinds: list[tuple[int, int, object]] = [
        (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", int(port))),
        (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", int(port))),
        (socket.AF_UNIX, socket.SOCK_STREAM, path),
        (socket.AF_UNIX, socket.SOCK_STREAM, f"\0{path}"),
    ]
    return any(_can(_connect, *kind) for kind in kinds)


def knows(*names: str) -> bool:
    """A variable of the environment."""
    return any(name in os.environ for name in names)


def looks_into(pid: str) -> bool:
    """Another process: traced, or read through /proc."""
    seized = _LIBC.ptrace(ctypes.c_long(_PTRACE_SEIZE), int(pid), None, None) == 0
    return seized or reads(f"/proc/{pid}/environ", f"/proc/{pid}/maps", f"/proc/{pid}/mem")


def signals(pid: str) -> bool:
    """Another process; whether it died is seen outside."""
    return _can(os.kill, int(pid), signal.SIGKILL)


def sets_the_clock() -> bool:
    """The length of a tick, to what it is already: a change of the clock that changes nothing."""
    timex = (ctypes.c_char * _TIMEX_BYTES)()
    if _LIBC.adjtimex(timex) < 0:
        return False
    ctypes.c_uint.from_buffer(timex).value = _ADJ_TICK
    return bool(_LIBC.adjtimex(timex) >= 0)


def has_rights() -> bool:
    """A capability, or a way to one by a set-user-id program."""
    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file.read().splitlines())
    return int(status["CapEff"], 16) != 0 or status["NoNewPrivs"].strip() != "1"


def holds(size: str) -> bool:
    """That many bytes of memory."""
    return len(b"\1" * int(size)) == int(size)


def forks(count: str) -> bool:
    """That many processes at once."""
    for _ in range(int(count)):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    return True


def grows(size: str) -> bool:
    """A file in the current folder beyond that many bytes, most of it a hole."""
    with open("grown", "wb") as file:
        os.pwrite(file.fileno(), b"x", int(size))
    return True


def fills(size: str) -> bool:
    """The current folder with that many bytes, in two files."""
    for name in ("one", "other"):
        with open(name, "wb") as file:
            file.write(b"x" * (int(size) // 2))
    return True


def opens(count: str) -> bool:
    """That many files at once."""
    return all(os.open(os.devnull, os.O_RDONLY) >= 0 for _ in range(int(count)))


def leaves_a_process(_mark: str) -> bool:
    """An orphan in a session of its own, deaf to what can be ignored; `_mark` stands in its arguments."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(60)
        os._exit(0)
    return True


def _can(deed: object, *arguments: object) -> bool:
    assert callable(deed)
    try:
        deed(*arguments)
    except OSError:
        return False
    return True


def _read(place: str) -> None:
    if os.path.isdir(place):  # noqa: PTH112
        os.listdir(place)
    else:
        with open(place, "rb") as file:
            file.read(1)


def _write(place: str) -> None:
    if not os.path.isdir(place):  # noqa: PTH112
        os.close(os.open(place, os.O_WRONLY))
        return
    file = f"{place}/.probe-{os.getpid()}"
    os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.unlink(file)  # noqa: PTH108


def _connect(family: int, kind: int, address: object) -> None:
    with socket.socket(family, kind) as client:
        client.settimeout(2)
        client.connect(address)  # type: ignore[arg-type]
        client.send(b"x")


DEEDS = {
    deed.__name__: deed
    for deed in (
        *(reads, writes, reaches, knows, looks_into, signals, sets_the_clock, has_rights, holds, forks, grows),
        *(fills, opens, leaves_a_process),
    )
}


if __name__ == "__main__":
    try:
        is_done = DEEDS[sys.argv[1]](*sys.argv[2:])
    except OSError:
        is_done = False
    sys.exit(0 if is_done else 1)
