"""The batches of a running job: what is announced, begun and done, and the rows at once of the engine's calls."""

import hashlib
from collections.abc import Mapping

from harness.core.errors import HarnessError
from harness.core.text import is_storable, shorten
from harness.worker.channel import Channel

LONGEST_NAME = 100
OUTSIDE_ANY_BATCH = ""


class BatchLog:
    """Reports the progress of batches, and records the engine's calls (`harness.engine.target.CallRecord`)."""

    def __init__(self, channel: Channel, *, done: list[str], engine_rows: Mapping[str, list[int]]) -> None:
        self._channel = channel
        self._done = frozenset(done)
        self._engine_rows = engine_rows
        self._stages: set[str] = set()
        self._announced: dict[str, float] = {}
        self._open: list[str] = []
        self._calls: dict[str, int] = {}
        self._has_begun_outside = False

    @property
    def key(self) -> str:
        """The key of the open batch, or "" if none is open."""
        return self._open[-1] if self._open else OUTSIDE_ANY_BATCH

    def announce(self, stage: str, weight: float, *, draw_weight: float = 1.0) -> None:
        """Announce the work of a stage before it begins. Raises HarnessError if its name is too long."""
        _check_name(stage)
        self._announced[stage] = draw_weight
        self._send_plan(stage, weight)

    def enter(self, stage: str, weight: float, *, noun: str) -> None:
        """Begin a stage and record its work. Raises HarnessError if its name is used already or too long."""
        if stage in self._stages:
            raise HarnessError(f"the {noun} has two loops over batches of the stage {stage!r}. Rename one of them.")
        _check_name(stage)
        self._stages.add(stage)
        self._send_plan(stage, weight)

    def _send_plan(self, stage: str, weight: float) -> None:
        draw_weight, is_announced = self._announced.get(stage, 1.0), stage in self._announced
        self._channel.send("plan", stage=stage, weight=weight, draw_weight=draw_weight, is_announced=is_announced)

    def is_done(self, key: str) -> bool:
        """Return True if an earlier execution has done the batch."""
        return key in self._done

    def begin(self, key: str, weight: float) -> None:
        """Begin a batch. What is sent from here on belongs to it."""
        self._open.append(key)
        self._channel.send("begin", key=key, weight=weight)

    def abandon(self, key: str) -> None:
        """Close a batch whose loop the job has left. The batch is not done."""
        self._open.remove(key)

    def begin_outside(self) -> None:
        """Begin a batch without work for rows that are sent while no batch is open."""
        if self.key == OUTSIDE_ANY_BATCH and not self._has_begun_outside:
            self._has_begun_outside = True
            self._channel.send("begin", key=OUTSIDE_ANY_BATCH, weight=0.0)

    def end(self, key: str) -> None:
        """Mark the batch as done."""
        self._open.remove(key)
        self._channel.send("done", key=key)

    def rows_for_next_call(self) -> int | None:
        """Return the rows at once of the engine's next call in an earlier attempt at the batch, or None."""
        rows = self._engine_rows.get(self.key, [])
        call = self._calls.get(self.key, 0)
        return rows[call] if call < len(rows) else None

    def record_call(self, rows_at_once: int, *, is_reference: bool = False) -> None:
        """Record that an engine call of the open batch has ended."""
        call = self._calls[self.key] = self._calls.get(self.key, 0) + 1
        if self._open:
            self._channel.send("engine", key=self.key, call=call - 1, rows=rows_at_once, is_reference=is_reference)


class ReferenceCalls:
    """Records the engine's calls of the reference model, in one sequence with those of the target."""

    def __init__(self, log: BatchLog) -> None:
        self._log = log

    def rows_for_next_call(self) -> int | None:
        """Return the rows at once of the next call, as `BatchLog` does."""
        return self._log.rows_for_next_call()

    def record_call(self, rows_at_once: int) -> None:
        """Record that a call of the reference model has ended."""
        self._log.record_call(rows_at_once, is_reference=True)


def is_valid_name(name: str) -> bool:
    """Return True if a stage or a kept array may have this name."""
    return len(name) <= LONGEST_NAME and is_storable(name)


def _check_name(stage: str) -> None:
    if not is_valid_name(stage):
        raise HarnessError(
            f"the stage name {shorten(stage)!r} is longer than {LONGEST_NAME} characters or contains invalid ones."
        )


def derive_seed(seed: int, stage: str, number: int) -> int:
    """Return a 63-bit seed for pass `number` of a stage, a pure function of its arguments."""
    digest = hashlib.sha256(f"{seed}/{stage}/{number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
