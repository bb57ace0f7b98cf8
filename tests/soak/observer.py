"""Observe a run from outside: how long its workers were alive, and which of their guesses were acknowledged."""

import os
import threading
import time
from collections import Counter
from pathlib import Path

from harness.runs.folder import RunFolder
from tests.soak import record
from tests.soak.acknowledgements import FILE

_POLL_SECONDS = 0.01
_LIST_SECONDS = 0.1


class Observer:
    """Polls one run every few milliseconds until `close`.

    The lifetime of a worker is measured on CLOCK_BOOTTIME, from the creation time that the kernel reports to the last
    poll that found the process.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._file: int | None = None
        self._inode = 0
        self._unread = b""
        self._acknowledged: Counter[str] = Counter()
        self._lifetimes: dict[tuple[int, float], float] = {}
        self._events_read = 0
        self._list_due = 0.0
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def acknowledged(self) -> Counter[str]:
        """Return how often each guess has been acknowledged."""
        with self._lock:
            self._read()
            return self._acknowledged.copy()

    def lifetime(self) -> float:
        """Return the seconds in which a worker was alive."""
        with self._lock:
            self._update_lifetimes()
            return sum(until - since for (_, since), until in self._lifetimes.items())

    def close(self) -> None:
        """Stop polling."""
        self._is_closed.set()
        self._thread.join()

    def _poll(self) -> None:
        while not self._is_closed.wait(_POLL_SECONDS):
            with self._lock:
                self._read()
                self._update_lifetimes()

    def _read(self) -> None:
        """Read the file of the current worker, after the rest of the previous worker's file, which may be deleted."""
        path = self._folder.scratch_of(0) / FILE
        try:
            inode = path.stat().st_ino
        except OSError:
            inode = self._inode
        self._read_open_file()
        if inode != self._inode:
            try:
                file = os.open(path, os.O_RDONLY)
            except OSError:
                return
            if self._file is not None:
                os.close(self._file)
            self._file, self._inode, self._unread = file, inode, b""
            self._read_open_file()

    def _read_open_file(self) -> None:
        if self._file is None:
            return
        while chunk := os.read(self._file, 1 << 20):
            *lines, self._unread = (self._unread + chunk).split(b"\n")
            self._acknowledged.update(line.decode() for line in lines)

    def _update_lifetimes(self) -> None:
        now = boot_seconds()
        if now >= self._list_due:
            self._list_due = now + _LIST_SECONDS
            for worker in record.events(self._folder.store, "worker")[self._events_read :]:
                self._events_read += 1
                self._lifetimes[worker["pid"], worker["created"]] = worker["created"]
        for pid, created in self._lifetimes:
            if _is_alive(pid, created):
                self._lifetimes[pid, created] = now


def boot_seconds() -> float:
    """Return CLOCK_BOOTTIME, which includes suspends and cannot be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _is_alive(pid: int, created: float) -> bool:
    """Return whether process `pid` was created at `created`, in seconds since boot, and is no zombie."""
    try:
        # The command name is in parentheses and may contain anything; the fields after it do not (proc(5), "stat").
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return False
    return fields[0] != b"Z" and abs(int(fields[19]) / os.sysconf("SC_CLK_TCK") - created) < 0.005
