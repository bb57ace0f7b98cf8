"""Frames become rows of the store. Every frame is checked, because a plugin may have forged it.

This module takes what all jobs send. `attack_job.py` and `audit_job.py` add the rest.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError

from harness.core.errors import HarnessError
from harness.core.faults import first_fault
from harness.core.frames import Frame
from harness.core.text import shorten
from harness.runs.store import RunStore

_MAX_MESSAGE_BYTES = 128 << 20
MAX_NAME = 200
"""Characters of the key of a batch, and of other names that a worker sends."""
_MAX_STAGES = 500
"""Every list of runs reads the stages of each run."""
_MAX_EVENTS = 10_000
_MAX_WARNINGS = 1_000
_Count = Annotated[int, Field(ge=0, lt=1 << 62)]
_COUNT: TypeAdapter[int] = TypeAdapter(_Count)
_AMOUNT: TypeAdapter[float] = TypeAdapter(Annotated[float, Field(ge=0, allow_inf_nan=False)])
_Name = Annotated[str, AfterValidator(lambda text: shorten(text, MAX_NAME))]
_NAME: TypeAdapter[str] = TypeAdapter(_Name)
_EVENT_FIELDS: dict[str, dict[str, TypeAdapter[Any]]] = {
    "loaded": {"key": _NAME, "seconds": _AMOUNT},
    "passes": {"stage": _NAME, "examples": _COUNT},
    "batch_size": {"loop": _NAME, "size": TypeAdapter(Annotated[int, Field(ge=1, lt=1 << 62)])},
}
EVENTS = frozenset({"started", "loading", "loaded", "target", "batch_size", "passes", "warning"})


class _LoadedModel(BaseModel, strict=True):
    """The report of a worker about a model that it has loaded."""

    architecture: _Name
    parameters: _Count
    vocabulary: _Count
    bos_token: _Count | None
    context_length: _Count | None
    device: _Name
    device_name: _Name | None
    blocks: _Name | None
    dtype: _Name
    stored_dtype: _Name | None
    has_chat_template: bool
    decoding: _Name
    number: _Count
    rows_at_once: _Count
    threads: _Count
    torch: _Name
    transformers: _Name


class IntakeError(Exception):
    """A frame that the run cannot take. The text is a clause that says what is wrong."""


@dataclass(frozen=True)
class WorkerEnd:
    """The last message of the worker: a sentence if the job failed, else whether it was asked to finish early."""

    failure: str | None
    was_cut_short: bool = False
    is_interruption: bool = False
    """The reason of the failure is outside the job, and a resume continues it."""

    @classmethod
    def of_frame(cls, frame: Frame) -> "WorkerEnd | None":
        """Return the last message that the frame holds; None if it is another frame."""
        fields = frame.fields
        if frame.table == "end":
            return cls(None, was_cut_short=fields.get("cut_short") is True)
        if frame.table == "failed":
            sentence = shorten(str(fields.get("sentence")), 500)
            return cls(sentence, is_interruption=fields.get("is_interruption") is True)
        return None


class Intake:
    """Takes the frames of one execution, in order, inside the caller's transactions.

    A subclass adds its own tables to `handlers`, and the limits on their bytes to `byte_limits`.
    """

    events = EVENTS
    rows = 0
    """Rows of results in all executions."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._attempts: dict[str, tuple[int, int]] = {}
        self._stages = store.stages()
        self._events = self._warnings = 0
        self._bytes = Counter[str]()
        self.has_started = False
        self.byte_limits = {"messages": _MAX_MESSAGE_BYTES}
        self.handlers: dict[str, Callable[[Frame], None]] = {
            "plan": self._plan,
            "begin": self._begin,
            "done": self._done,
            "step": self._step,
            "event": self._event,
        }

    def take(self, frame: Frame, size: int) -> None:
        """Store the content of a frame of `size` bytes. Raises IntakeError for one that no honest worker sends."""
        handler = self.handlers.get(frame.table)
        if handler is None:
            raise IntakeError(f"a frame for the unknown table {shorten(frame.table)!r}")
        self.limit(frame, size)
        try:
            handler(frame)
        except HarnessError as error:
            raise IntakeError(str(error).rstrip(".")) from None
        except ValidationError as error:
            raise IntakeError(f"an invalid frame for {frame.table} ({first_fault(error)})") from None
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise IntakeError(f"an invalid frame for {frame.table} ({error!r})") from None

    def limit(self, frame: Frame, size: int) -> None:
        """Count the bytes of a frame. Raises IntakeError if they are too many."""
        self.count(frame, size)
        for name, limit in self.byte_limits.items():
            if self._bytes[name] > limit:
                raise IntakeError(f"more than {limit >> 20} MiB of {name}")

    def count(self, frame: Frame, size: int) -> None:
        """Count the bytes of the frame towards its limit."""
        self._bytes[frame.table if frame.table in self.byte_limits else "messages"] += size

    def attempt_of(self, frame: Frame) -> tuple[int, int]:
        """Return the batch and the attempt that the frame's rows belong to."""
        return self._attempts[name_in(frame, "key")]

    def void_attempts(self) -> None:
        """React to a batch that is begun again, which voids the rows of its earlier attempts."""

    def _plan(self, frame: Frame) -> None:
        stage = name_in(frame, "stage")
        self._stages.add(stage)
        if len(self._stages) > _MAX_STAGES:
            raise IntakeError(f"more than {_MAX_STAGES:,} stages")
        self._store.add_plan(
            stage,
            _AMOUNT.validate_python(frame.fields["weight"]),
            draw_weight=_AMOUNT.validate_python(frame.fields["draw_weight"]),
            is_announced=frame.fields["is_announced"] is True,
        )

    def _begin(self, frame: Frame) -> None:
        key = name_in(frame, "key")
        _, attempt = self._attempts[key] = self._store.begin_batch(key, _AMOUNT.validate_python(frame.fields["weight"]))
        if attempt > 1:
            self.void_attempts()

    def _done(self, frame: Frame) -> None:
        self._store.end_batch(*self.attempt_of(frame))

    def _step(self, frame: Frame) -> None:
        share = min(1.0, _AMOUNT.validate_python(frame.fields["share"]))
        self._store.set_step(*self.attempt_of(frame), share, shorten(str(frame.fields["step"]), MAX_NAME))

    def _event(self, frame: Frame) -> None:
        name = frame.fields["name"]
        if name not in self.events:
            raise IntakeError("an unknown event")
        self._events += 1
        if self._events > _MAX_EVENTS:
            raise IntakeError(f"more than {_MAX_EVENTS:,} events")
        self.has_started = True
        self._store.add_event(f"worker_{name}", **self.event_detail(str(name), dict(frame.fields)))

    def event_detail(self, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the checked fields of an event that are stored."""
        if name in ("target", "reference"):
            return _LoadedModel.model_validate(fields).model_dump()
        if name == "warning":
            self._warnings += 1
            if self._warnings > _MAX_WARNINGS:
                raise IntakeError(f"more than {_MAX_WARNINGS:,} warnings")
            return {"sentence": shorten(str(fields["sentence"]), 500)}
        adapters = _EVENT_FIELDS.get(name, {})
        return {field: adapter.validate_python(fields[field]) for field, adapter in adapters.items()}


def name_in(frame: Frame, field: str) -> str:
    """Return the name in a field of a frame. Raises IntakeError if it is no text or too long."""
    name = frame.fields.get(field)
    if not isinstance(name, str) or len(name) > MAX_NAME:
        raise IntakeError(
            f"a frame for {shorten(frame.table)} whose {field} is not a text of at most {MAX_NAME} characters"
        )
    return name
