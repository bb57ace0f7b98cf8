"""A parent that leaves nothing behind: it starts one command and kills every descendant when that ends, or when its
own parent goes. Run as a script on the standard library alone, where no process namespace can be had.

    python -I -S reaper.py LIFELINE_FD COMMAND…
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_REAP_MILLISECONDS = 1000
_CHASES = 500


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent dies (Linux; elsewhere nothing)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants_of(pid: int) -> list[int]:
    """Process ids below `pid`, nearest first, zombies left out; read from /proc in one pass."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The command name stands in parentheses and may hold anything; the fields after it do not.
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                if fields[0] != b"Z":
                    children.setdefault(int(fields[1]), []).append(int(entry.name))
    below = list(children.get(pid, ()))
    for child in below:
        below += children.get(child, ())
    return below


def kill_descendants(pid: int, *, seconds: float = 5.0) -> bool:
    """Kill everything below `pid` and go on until nothing is left; false when for `seconds` nothing more would die.

    Everything is stopped before anything is killed, so that what forks meanwhile is found in the next round; orphans
    come back as children of a process that called `adopt_orphans`. For this process itself the kernel's word that it
    has no child ends the work: a chain of processes that fork and end can slip through any reading of /proc.
    """
    until, fewest = time.monotonic() + seconds, None
    while time.monotonic() < until:
        below = descendants_of(pid)
        if fewest is None or len(below) < fewest:
            # Thousands take a kernel longer than a few.
            until, fewest = time.monotonic() + seconds, len(below)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for child in below:
                _send(child, number)
        if pid != os.getpid():
            if not below:
                return True
            time.sleep(0.005)
        elif _outrun_children(until):
            return True
    return False


def _outrun_children(until: float) -> bool:
    """Kill this process's own children as fast as the kernel names them; true once it has none, alive or dead.

    A chain that forks and ends is for a moment always a child of the process that adopts orphans, and reading one
    small file takes less than a fork.
    """
    for _ in range(_CHASES):
        if reap_children():
            return True
        children = _own_children()
        if children is None or time.monotonic() > until:
            break
        for child in children:
            _send(child, signal.SIGKILL)
    time.sleep(0.001)
    return reap_children()


def _own_children() -> list[int] | None:
    """Ids of this process's children (proc(5), "children"); None where the kernel keeps no such file."""
    children: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        try:
            children += [int(child) for child in (task / "children").read_bytes().split()]
        except OSError:
            return None
    return children


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def kill_tree(pid: int) -> bool:
    """Kill everything below `pid`, which need not be a child of this process, and then `pid` itself."""
    # A tree's root may be the one that adopts its orphans, so it goes last.
    is_clean = kill_descendants(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return is_clean


def reap_children() -> bool:
    """Take the exit of every child that has ended; true when no child is left, alive or dead."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def main() -> int:
    """Start the command, wait for it or for the lifeline's end, and leave nothing alive."""
    lifeline = int(sys.argv[1])
    os.set_inheritable(lifeline, False)
    adopt_orphans()
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    inherited = [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2 and int(name) != lifeline]
    worker = subprocess.Popen(
        sys.argv[2:],
        pass_fds=[fd for fd in inherited if _is_open(fd) and os.get_inheritable(fd)],
        preexec_fn=_restore_signals,
    )
    for fd in inherited:
        # The worker's end of file must be the supervisor's to see, so no copy of its pipes may stay here.
        if _is_open(fd):
            os.close(fd)
    ended = os.pidfd_open(worker.pid)
    poll = select.poll()
    poll.register(lifeline, select.POLLHUP)
    poll.register(ended, select.POLLIN)
    while not poll.poll(_REAP_MILLISECONDS):
        _reap_orphans(worker.pid)
    status = worker.poll()
    kill_descendants(os.getpid())
    # As a shell reports a signal.
    return 0 if status is None else status if status >= 0 else 128 - status


def _reap_orphans(worker: int) -> None:
    """Take the exits of what was adopted, so that short-lived children do not use up the machine's process ids."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid == worker:
                return
            os.waitpid(ended.si_pid, 0)


def _restore_signals() -> None:
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_DFL)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
