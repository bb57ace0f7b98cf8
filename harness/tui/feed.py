"""The state that a thread has read from a run or an audit, and the snapshots that it builds."""

import dataclasses
import math
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from harness.core.errors import HarnessError
from harness.core.inputs import as_harness_error
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from harness.runs.status_line import last_log_lines
from harness.runs.summary import RunSummary, run_summary
from harness.tui.snapshot import Snapshot

_LOG_BYTES = 16_384
SnapshotT = TypeVar("SnapshotT", bound=Snapshot)
ReaderT = TypeVar("ReaderT", bound=RunReader)
PointT = TypeVar("PointT")


class Feed(ABC, Generic[SnapshotT, ReaderT]):
    """The state read so far from one run. Not thread-safe: one thread calls `poll`."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._last: SnapshotT | None = None
        self._repeated: dict[int, int] = {}
        """The last attempt of each batch that was started more than once."""

    def poll(self) -> SnapshotT:
        """Read what is new and return a snapshot.

        If the run cannot be read, the snapshot's `fault` says why. Raises HarnessError if the first poll fails.
        """
        try:
            with as_harness_error(self.folder.path):
                self._last = self._read()
        except HarnessError as error:
            if self._last is None:
                raise
            self._last = dataclasses.replace(self._last, fault=str(error))
        return self._last

    def _read(self) -> SnapshotT:
        summary, telemetry = run_summary(self.folder), dict[str, float]()
        if self.folder.store.exists():
            with self._open() as reader:
                repeated = reader.repeated_batches()
                if repeated != self._repeated:
                    # The guesses of the earlier attempt are void.
                    self._repeated = repeated
                    self._reset()
                self._read_new_rows(reader, summary)
                for name, value in reader.last_telemetry().items():
                    if isinstance(value, int | float) and math.isfinite(value):
                        telemetry[name] = value
        return self._snapshot(summary=summary, telemetry=telemetry, log=tuple(last_log_lines(self.folder, _LOG_BYTES)))

    @abstractmethod
    def _open(self) -> ReaderT:
        """Return a reader of the store. Raises HarnessError if it cannot be read."""

    @abstractmethod
    def _reset(self) -> None:
        """Forget every row, so that the next poll reads from the start."""

    @abstractmethod
    def _read_new_rows(self, reader: ReaderT, summary: RunSummary) -> None:
        """Read the rows that are new. Raises HarnessError if the store cannot be read."""

    @abstractmethod
    def _snapshot(self, **common: Any) -> SnapshotT:
        """Return a snapshot of the rows read so far; `common` holds the fields of `Snapshot`."""


def thin(points: list[PointT], max_points: int) -> list[PointT]:
    """Return every second point if there are more than `max_points`, and always the newest, which the header shows."""
    return points if len(points) <= max_points else [*points[:-1:2], points[-1]]
