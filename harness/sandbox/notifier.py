"""What a confined process was refused, counted as it happens: each notified system call is answered with an error."""

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
_FREELY = 256
_PAUSE_SECONDS = 0.002


class SeccompNotifier:
    """A thread that takes the launcher's report and then answers what the filter asks, until nobody is left to ask."""

    def __init__(self, report: socket.socket) -> None:
        """`report` is the socket that the launcher's word arrives on; it is closed here."""
        self._report = report
        self._counts: Counter[Refusal] = Counter()
        self._applied: tuple[str, ...] = ()
        self._has_reported = threading.Event()
        self._is_over = os.eventfd(0, os.EFD_CLOEXEC)
        self._kinds = refusals_by_number()
        self._thread = threading.Thread(target=self._listen, name="refusals", daemon=True)
        self._thread.start()

    def applied(self, *, seconds: float) -> tuple[str, ...]:
        """What the launcher applied; empty when it ended before, or says nothing within `seconds`."""
        self._has_reported.wait(seconds)
        return self._applied

    def counts(self) -> dict[Refusal, int]:
        """How often each thing was refused so far."""
        return dict(self._counts)

    def close(self) -> None:
        """Stop listening; what is asked from then on fails in the kernel."""
        os.eventfd_write(self._is_over, 1)
        self._thread.join()
        os.close(self._is_over)

    def _listen(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._report)
            listener = self._taken_report()
            self._has_reported.set()
            if listener is None:
                return
            stack.callback(os.close, listener)
            poll = select.poll()
            poll.register(listener, select.POLLIN)
            poll.register(self._is_over, select.POLLIN)
            while True:
                ready = dict(poll.poll())
                if self._is_over in ready or ready.get(listener, 0) & (select.POLLHUP | select.POLLERR):
                    return
                self._answer(listener)

    def _taken_report(self) -> int | None:
        """Read the launcher's word, and the listener's descriptor if one came with it."""
        poll = select.poll()
        poll.register(self._report, select.POLLIN)
        poll.register(self._is_over, select.POLLIN)
        if self._is_over in dict(poll.poll()):
            return None
        try:
            words, descriptors, _, _ = socket.recv_fds(self._report, _REPORT_BYTES, 1)
        except OSError:
            return None
        self._applied = tuple(words.decode(errors="replace").split(",")) if words else ()
        return descriptors[0] if descriptors else None

    def _answer(self, listener: int) -> None:
        notification = array.array("B", bytes(_NOTIFICATION.size))
        # The process that asked may be gone by now, on either side of the answer.
        with contextlib.suppress(OSError):
            fcntl.ioctl(listener, _RECEIVE, notification, True)
            id_, _, _, number, *_ = _NOTIFICATION.unpack(notification)
            kind = self._kinds.get(number, Refusal.KERNEL)
            error = errno.EACCES if kind is Refusal.NETWORK else errno.EPERM
            self._counts[kind] += 1
            fcntl.ioctl(listener, _SEND, _RESPONSE.pack(id_, 0, -error, 0))
        if self._counts.total() > _FREELY:
            # One that asks without end waits for its answers, not the supervisor for it.
            time.sleep(_PAUSE_SECONDS)
