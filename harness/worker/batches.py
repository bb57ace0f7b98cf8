"""Batches as the wire tells of them: announced, begun, done; and the rows at once of the engine's calls in each."""

from collections.abc import Mapping

from harness.core.errors import HarnessError
from harness.core.text import shorten
from harness.worker.channel import Channel

LONGEST_NAME = 100
OUTSIDE_ANY_BATCH = ""


class BatchLog:
    """What has become of each batch (`harness.engine.target.CallRecord` for the engine's calls in it)."""

    def __init__(self, channel: Channel, *, done: list[str], engine_rows: Mapping[str, list[int]]) -> None:
        self._channel = channel
        self._done = frozenset(done)
        self._engine_rows = engine_rows
        self._stages: set[str] = set()
        self._open: list[str] = []
        self._calls: dict[str, int] = {}

    @property
    def key(self) -> str:
        """The batch that is open, the empty key outside of any."""
        return self._open[-1] if self._open else OUTSIDE_ANY_BATCH

    def announce(self, stage: str, weight: float) -> None:
        """A stage is to come, with about so much work."""
        self._channel.send("plan", stage=stage, weight=weight)

    def enter(self, stage: str, weight: float, *, noun: str) -> None:
        """A stage begins, with all its work. Raises HarnessError when its name is taken or too long."""
        if stage in self._stages:
            raise HarnessError(f"the {noun} has two loops over batches of the stage {stage!r}: give one another name.")
        if len(stage) > LONGEST_NAME:
            raise HarnessError(f"the name of the stage {shorten(stage)!r} is longer than {LONGEST_NAME} characters.")
        self._stages.add(stage)
        self.announce(stage, weight)

    def is_done(self, key: str) -> bool:
        """An earlier execution has done it: it is not run again."""
        return key in self._done

    def begin(self, key: str, weight: float) -> None:
        """What is sent from here on belongs to this batch."""
        self._open.append(key)
        self._channel.send("begin", key=key, weight=weight)

    def end(self, key: str) -> None:
        """The batch is done."""
        self._open.remove(key)
        self._channel.send("done", key=key)

    def rows_for_next_call(self) -> int | None:
        """How many rows at once the engine's next call used when this batch was run before; None if it was not."""
        rows = self._engine_rows.get(self.key, [])
        call = self._calls.get(self.key, 0)
        return rows[call] if call < len(rows) else None

    def record_call(self, rows_at_once: int) -> None:
        """One more engine call of the open batch has ended, with this many rows at once."""
        call = self._calls[self.key] = self._calls.get(self.key, 0) + 1
        if self._open:
            self._channel.send("engine", key=self.key, call=call - 1, rows=rows_at_once)
