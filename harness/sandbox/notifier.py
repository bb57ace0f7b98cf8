"""Count the system calls that a sandboxed process was refused: each notification is answered with an error."""

import array
import contextlib
import errno
import fcntl
import os
import select
import socket
import struct
import threading
import time
from collections import Counter

from harness.sandbox.refusals import Refusal
from harness.sandbox.seccomp import refusals_by_number

_REPORT_BYTES = 4096
# linux/seccomp.h: _IOWR('!', 0, struct seccomp_notif), _IOWR('!', 1, struct seccomp_notif_resp).
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_NOTIFICATION, _RESPONSE = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_UNTHROTTLED = 256
_PAUSE_SECONDS = 0.002


class SeccompNotifier:
    """A thread that receives the launcher's report, and then answers seccomp notifications until the process ends."""

    def __init__(self, report: socket.socket) -> None:
        """Listen on `report`, the socket on which the launcher reports. The notifier closes it."""
        self._report = report
        self._counts: Counter[Refusal] = Counter()
        self._applied: tuple[str, ...] = ()
        self._has_reported = threading.Event()
        self._closing = os.eventfd(0, os.EFD_CLOEXEC)
        self._kinds = refusals_by_number()
        self._thread = threading.Thread(target=self._listen, name="seccomp notifier", daemon=True)
        self._thread.start()

    def wait_for_report(self, *, seconds: float) -> tuple[str, ...]:
        """Return what the launcher applied; empty if it ended before, or did not report within `seconds`."""
        self._has_reported.wait(seconds)
        return self._applied

    def counts(self) -> dict[Refusal, int]:
        """Return how often each kind of operation was refused so far."""
        return dict(self._counts)

    def close(self) -> None:
        """Stop the thread. The kernel refuses later calls by itself."""
        os.eventfd_write(self._closing, 1)
        self._thread.join()
        os.close(self._closing)

    def _listen(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._report)
            listener = self._receive_report()
            self._has_reported.set()
            if listener is None:
                return
            stack.callback(os.close, listener)
            while self._wait_for(listener):
                self._answer(listener)

    def _wait_for(self, source: int) -> bool:
        """Wait until `source` is readable. Return False if it was closed or the notifier is closing."""
        poll = select.poll()
        poll.register(source, select.POLLIN)
        poll.register(self._closing, select.POLLIN)
        ready = dict(poll.poll())
        return self._closing not in ready and bool(ready[source] & select.POLLIN)

    def _receive_report(self) -> int | None:
        """Receive the launcher's report, and return the listener's descriptor if one came with it."""
        if not self._wait_for(self._report.fileno()):
            return None
        try:
            names, descriptors, _, _ = socket.recv_fds(self._report, _REPORT_BYTES, 1)
        except OSError:
            return None
        self._applied = tuple(names.decode(errors="replace").split(",")) if names else ()
        return descriptors[0] if descriptors else None

    def _answer(self, listener: int) -> None:
        notification = array.array("B", bytes(_NOTIFICATION.size))
        # The calling process may be killed before or after the answer.
        with contextlib.suppress(OSError):
            fcntl.ioctl(listener, _RECEIVE, notification, True)
            id_, _, _, number, *_ = _NOTIFICATION.unpack(notification)
            kind = self._kinds.get(number, Refusal.KERNEL)
            error = errno.EACCES if kind is Refusal.NETWORK else errno.EPERM
            self._counts[kind] += 1
            fcntl.ioctl(listener, _SEND, _RESPONSE.pack(id_, 0, -error, 0))
        if self._counts.total() > _UNTHROTTLED:
            # An endless loop of refused calls slows itself down, not the supervisor.
            time.sleep(_PAUSE_SECONDS)
