"""Record acknowledged guesses inside a worker, independently of the supervisor and the store.

An attack calls `record_acknowledgements` in its own process. From then on, each guess that the supervisor acknowledges
is appended to a file in the scratch directory as soon as the worker receives the acknowledgement.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.worker.channel import Channel

FILE = "acknowledged"


def record_acknowledgements() -> None:
    """Start recording. Works only for attacks that emit guesses from one thread."""
    file = os.open(Path(os.environ["TMPDIR"]) / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    in_flight: dict[int, bytes] = {}
    send, acknowledge = Channel.send, Channel._acknowledge

    def recording_send(self: Channel, table: str, columns: Mapping[str, Any] | None = None, /, **fields: Any) -> None:
        # Before sending, because the acknowledgement may arrive before `send` returns.
        if table == "guess" and columns is not None:
            in_flight[self._sequence] = _lines(str(fields["key"]), columns)
        send(self, table, columns, **fields)

    def recording_acknowledge(self: Channel, sequence: int) -> None:
        acknowledged = sorted(number for number in tuple(in_flight) if number <= sequence)
        if acknowledged:
            os.write(file, b"".join(in_flight.pop(number) for number in acknowledged))
        acknowledge(self, sequence)

    Channel.send, Channel._acknowledge = recording_send, recording_acknowledge  # type: ignore[method-assign]


def _lines(key: str, columns: Mapping[str, Any]) -> bytes:
    """Return one line per guess: the key of its batch, its example, the bytes of its suffix in hex, its score."""
    suffixes = columns["suffix"].astype(columns["suffix"].dtype.newbyteorder("<"))
    rows = zip(columns["example"].tolist(), suffixes, columns["score"].tolist(), strict=True)
    return "".join(f"{key} {example} {suffix.tobytes().hex()} {score!r}\n" for example, suffix, score in rows).encode()
