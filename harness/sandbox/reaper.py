"""Run a command, and kill all its descendants when it ends or when the parent process ends.

A script on the standard library alone, for machines without PID namespaces. The parent holds the other end of the
pipe LIFELINE_FD.

    python -I -S reaper.py LIFELINE_FD COMMAND...
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_REAP_MILLISECONDS = 1000
_KILL_ROUNDS = 500
_MAX_DESCRIPTORS = 1 << 16


def adopt_orphans() -> None:
    """Make this process a subreaper: the parent of every descendant whose own parent dies."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants_of(pid: int) -> list[int]:
    """Return the process ids below `pid` without zombies, parents before children, from one pass over /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The command name is in parentheses and may contain any character.
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                if fields[0] != b"Z":
                    children.setdefault(int(fields[1]), []).append(int(entry.name))
    below = list(children.get(pid, ()))
    for child in below:
        below += children.get(child, ())
    return below


def kill_until_gone(kill: Callable[[], int], *, seconds: float = 5.0) -> bool:
    """Call `kill`, which returns the number of processes that it found, until it finds none.

    Return False if for `seconds` no more processes end: the kernel needs time for thousands of them.
    """
    deadline, fewest = time.monotonic() + seconds, sys.maxsize
    while (number := kill()) > 0:
        if number < fewest:
            deadline, fewest = time.monotonic() + seconds, number
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def kill_descendants(pid: int) -> bool:
    """Kill everything below `pid` until nothing is left. Return False if for 5 s no more processes end.

    All processes are stopped before one is killed, so that the next round finds what forks meanwhile. Orphans become
    children of the subreaper. For the own descendants, the work ends when the kernel reports no more children: a chain
    of processes that fork and exit can escape any reading of /proc.
    """

    def kill() -> int:
        below = descendants_of(pid)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for child in below:
                _send(child, number)
        if pid != os.getpid():
            return len(below)
        return 0 if _kill_own_children() else max(1, len(below))

    return kill_until_gone(kill)


def _kill_own_children() -> bool:
    """Kill this process's children as fast as the kernel lists them. Return True if none is left, alive or dead.

    Every process of a chain that forks and exits is a child of the subreaper for a moment, and reading one small file
    takes less time than a fork.
    """
    for _ in range(_KILL_ROUNDS):
        if reap_children():
            return True
        for child in _own_children():
            _send(child, signal.SIGKILL)
    return False


def _own_children() -> Iterator[int]:
    """Yield the ids of this process's children (proc(5), "children"); none on kernels without this file."""
    for file in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            yield from map(int, file.read_bytes().split())


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def kill_tree(pid: int) -> bool:
    """Kill everything below `pid`, which may be any process, and then `pid` itself. Return False if one is left."""
    # The root may be the subreaper of the others, so it is killed last.
    is_clean = kill_descendants(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return is_clean


def kill_adopted(started: Collection[int]) -> None:
    """Kill the orphans that this process has adopted, and all below them, but not the children that it `started`."""
    for child in [pid for pid in _own_children() if pid not in started]:
        kill_tree(child)


def reap_children() -> bool:
    """Reap all children that have ended. Return True if no child is left, alive or dead."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def main() -> int:
    """Start the command, wait until it ends or the parent closes the lifeline, and kill all descendants."""
    lifeline = int(sys.argv[1])
    os.set_inheritable(lifeline, False)
    adopt_orphans()
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # Unlike SIG_IGN, a handler is not inherited by the worker.
        signal.signal(name, lambda *_: None)
    worker = subprocess.Popen(sys.argv[2:], close_fds=False)
    # The supervisor sees the end of the worker's pipes only if no copy of them is open here.
    os.closerange(3, lifeline)
    os.closerange(lifeline + 1, _MAX_DESCRIPTORS)
    ended = os.pidfd_open(worker.pid)
    poll = select.poll()
    poll.register(lifeline, select.POLLHUP)
    poll.register(ended, select.POLLIN)
    while not poll.poll(_REAP_MILLISECONDS):
        _reap_orphans(worker.pid)
    status = worker.poll()
    kill_descendants(os.getpid())
    # A shell reports signals in the same way.
    return 0 if status is None else status if status >= 0 else 128 - status


def _reap_orphans(worker: int) -> None:
    """Reap adopted processes, so that short-lived ones do not use up the machine's process ids."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid == worker:
                return
            os.waitpid(ended.si_pid, 0)


if __name__ == "__main__":
    sys.exit(main())
