"""The worker's end of the pipes: frames go out; acknowledgements, answers and the request to finish
come in."""

import os
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from harness.core.errors import HarnessError
from harness.core.files import write_all
from harness.core.frames import MAX_UNACKNOWLEDGED_BYTES, Frame, Scalar, encode_frame

_LOST_SUPERVISOR = 70


class Channel:
    """Sends frames to the supervisor, at most 8 MiB ahead of what it has made durable."""

    def __init__(self, frames: int, commands: int) -> None:
        """Take two open descriptors, which no child of this process inherits."""
        os.set_inheritable(frames, False)
        os.set_inheritable(commands, False)
        self._frames = frames
        self._commands = commands
        self._process = os.getpid()
        self._sending = threading.Lock()
        self._sequence = 0
        self._in_flight: deque[tuple[int, int]] = deque()
        self._bytes_in_flight = 0
        self._changed = threading.Condition()
        self.finish_is_asked = False
        """True if the supervisor wants the job to finish."""
        self._asking = threading.Lock()
        self._answer: int | None = None
        threading.Thread(target=self._listen, name="commands", daemon=True).start()

    def send(self, table: str, columns: Mapping[str, NDArray[Any]] | None = None, /, **fields: Scalar) -> None:
        """Send rows (columns of shape [rows, …]); wait while too much is not acknowledged. Any thread may call it.

        Raises HarnessError in a process that the attack forked.
        """
        if os.getpid() != self._process:
            raise HarnessError("the context works in the attack's first process only. Let its children return values.")
        columns = columns or {}
        rows = len(next(iter(columns.values()))) if columns else 0
        with self._sending:
            frame = encode_frame(Frame(table, rows, columns, fields), self._sequence)
            with self._changed:
                while self._in_flight and self._bytes_in_flight + len(frame) > MAX_UNACKNOWLEDGED_BYTES:
                    self._changed.wait()
                self._in_flight.append((self._sequence, len(frame)))
                self._bytes_in_flight += len(frame)
            self._sequence += 1
            try:
                write_all(self._frames, frame)
            except BrokenPipeError:
                os._exit(_LOST_SUPERVISOR)

    def ask(self, question: str, **fields: Scalar) -> int:
        """Send a question and wait for the supervisor's answer. Everything that was sent before is committed then."""
        with self._asking:
            self._answer = None
            self.send("ask", question=question, **fields)
            with self._changed:
                while self._answer is None:
                    self._changed.wait()
                return self._answer

    def drain(self) -> None:
        """Wait until everything that was sent is acknowledged."""
        with self._changed:
            self._changed.wait_for(lambda: not self._in_flight)

    def _listen(self) -> None:
        pending = b""
        while chunk := os.read(self._commands, 1 << 16):
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                word, _, number = line.partition(b" ")
                if word == b"finish":
                    self.finish_is_asked = True
                elif word == b"ack":
                    self._acknowledge(int(number))
                elif word == b"answer":
                    with self._changed:
                        self._answer = int(number)
                        self._changed.notify_all()
        # A worker must not outlive its supervisor.
        os._exit(_LOST_SUPERVISOR)

    def _acknowledge(self, sequence: int) -> None:
        with self._changed:
            while self._in_flight and self._in_flight[0][0] <= sequence:
                self._bytes_in_flight -= self._in_flight.popleft()[1]
            self._changed.notify_all()
