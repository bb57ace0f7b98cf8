"""Frames made into rows of the store: every one checked, since whoever sent it may have forged it.

What all jobs send stands here; what an attack and an audit send, in `guess_intake` and `row_intake`.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType
from typing import Any

from harness.core.errors import HarnessError
from harness.core.frames import Frame
from harness.core.text import shorten
from harness.runs.store import RunStore

_MOST_MESSAGES_BYTES = 128 << 20
MAX_KEY = 200
_TARGET_FIELDS: dict[str, type | UnionType] = {
    "architecture": str,
    "parameters": int,
    "vocabulary": int,
    "context_length": int | None,
    "device": str,
    "device_name": str | None,
    "dtype": str,
    "rows_at_once": int,
    "threads": int,
    "torch": str,
    "transformers": str,
}
EVENTS = frozenset({"started", "target"})


class IntakeFault(Exception):
    """A frame that the run cannot take; its text is a clause that names what was wrong."""


@dataclass(frozen=True)
class WorkerEnd:
    """The worker's last word: a sentence when the job failed, else whether it was asked to finish early."""

    failure: str | None
    was_cut_short: bool = False


class Intake:
    """Takes the frames of one execution, in order, inside the caller's transactions.

    What a job sends beyond plans, batches, engine calls, events and its last word, a class of its own adds: to
    `handlers`, by table, and to `most_bytes`, how much of it may come.
    """

    events = EVENTS
    rows = 0
    """Of results, in all executions."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._attempts: dict[str, tuple[int, int]] = {}
        self._bytes = Counter[str]()
        self.end: WorkerEnd | None = None
        self.has_started = False
        self.most_bytes = {"messages": _MOST_MESSAGES_BYTES}
        self.handlers: dict[str, Callable[[Frame], None]] = {
            "plan": self._plan,
            "begin": self._begin,
            "done": self._done,
            "engine": self._engine,
            "event": self._event,
            "end": self._end,
            "failed": self._failed,
        }

    def take(self, frame: Frame, size: int) -> None:
        """Store what the frame, `size` bytes long, holds. Raises IntakeFault for one that no honest worker sends."""
        handler = self.handlers.get(frame.table)
        if handler is None:
            raise IntakeFault(f"a frame for the table {shorten(frame.table)!r}, which there is none of")
        if self.end is not None:
            raise IntakeFault("a frame after the worker's last word")
        self.count(frame, size)
        for what, most in self.most_bytes.items():
            if self._bytes[what] > most:
                raise IntakeFault(f"more than {most >> 20} MiB of {what}")
        try:
            handler(frame)
        except HarnessError as error:
            raise IntakeFault(str(error).rstrip(".")) from None
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise IntakeFault(f"a frame for {frame.table} that lacks what it needs ({error!r})") from None

    def count(self, frame: Frame, size: int) -> None:
        """Note how much of what has come, for the limits on it."""
        self._bytes[frame.table if frame.table in self.most_bytes else "messages"] += size

    def attempt_of(self, frame: Frame) -> tuple[int, int]:
        """The batch, and its attempt, that the frame's rows belong to."""
        return self._attempts[str(frame.fields["key"])]

    def has_begun_again(self, batch: int) -> None:
        """What an earlier attempt at the batch gave is void."""

    def _plan(self, frame: Frame) -> None:
        self._store.add_plan(str(frame.fields["stage"])[:MAX_KEY], _positive(frame.fields["weight"]))

    def _begin(self, frame: Frame) -> None:
        key = str(frame.fields["key"])
        if len(key) > MAX_KEY:
            raise IntakeFault("a batch whose key is longer than any batch's")
        batch, attempt = self._attempts[key] = self._store.begin_batch(key, _positive(frame.fields["weight"]))
        if attempt > 1:
            self.has_begun_again(batch)

    def _done(self, frame: Frame) -> None:
        self._store.end_batch(*self.attempt_of(frame))

    def _engine(self, frame: Frame) -> None:
        batch, attempt = self.attempt_of(frame)
        self._store.add_engine_call(batch, attempt, _count(frame.fields["call"]), _count(frame.fields["rows"]))

    def _event(self, frame: Frame) -> None:
        name = frame.fields["name"]
        if name not in self.events:
            raise IntakeFault("an event that no worker reports")
        self.has_started = True
        self._store.add_event(f"worker_{name}", **self.event_detail(str(name), dict(frame.fields)))

    def event_detail(self, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        """What is kept of an event's fields, checked."""
        if name == "target":
            return {field: _checked(fields[field], kind) for field, kind in _TARGET_FIELDS.items()}
        return {}

    def _end(self, frame: Frame) -> None:
        self.end = WorkerEnd(None, was_cut_short=frame.fields["cut_short"] is True)

    def _failed(self, frame: Frame) -> None:
        self.end = WorkerEnd(shorten(str(frame.fields["sentence"]), 500))


def _checked(value: Any, kind: type | UnionType) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError("a field of another type than the target's record has")
    if isinstance(value, int):
        return _count(value)
    return shorten(value, MAX_KEY) if isinstance(value, str) else value


def _positive(value: Any) -> float:
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError("not a finite, positive number")
    return number


def _count(value: Any) -> int:
    number = int(value)
    if not 0 <= number < 1 << 62:
        raise ValueError("not a count")
    return number
