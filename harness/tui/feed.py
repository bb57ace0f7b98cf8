"""A thread that reads a run or an audit and builds snapshots, and what it reads of an audit."""

import dataclasses
import math
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np

from harness.core.audit import FIGURES
from harness.core.errors import HarnessError
from harness.core.inputs import as_harness_error
from harness.runs.audit_reader import AuditFigure, AuditReader, finite_or_none
from harness.runs.facts import last_log_lines
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader, StageWork
from harness.runs.summary import RunSummary, run_summary
from harness.tui.snapshot import AuditSnapshot, FigureHistory, Snapshot

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


def thinned(points: list[PointT], most: int) -> list[PointT]:
    """Return every second point if there are more than `most`, and always the newest, which the header shows."""
    return points if len(points) <= most else [*points[:-1:2], points[-1]]


_MAX_POINTS = 1_000
_MAX_FIGURES = 200
_Point = tuple[float, float, float, float]


class AuditFeed(Feed[AuditSnapshot, AuditReader]):
    """The part of one audit that has been read."""

    def __init__(self, folder: RunFolder) -> None:
        """Raises HarnessError if the audit's record cannot be read."""
        super().__init__(folder)
        self.spec = folder.audit_spec()
        self._ledger: list[tuple[float, float]] = []
        self._stages: tuple[StageWork, ...] = ()
        self._warnings: tuple[str, ...] = ()
        self._reset()

    def _reset(self) -> None:
        self._last_figure = 0
        self._figures: dict[str, AuditFigure] = {}
        self._points: dict[str, list[_Point]] = {}

    def _open(self) -> AuditReader:
        return AuditReader(self.folder.store)

    def _read_new_rows(self, reader: AuditReader, summary: RunSummary) -> None:
        # The sequence numbers of the ledger are consecutive, so their count is also the last one.
        self._ledger += [(entry.at, entry.spent) for entry in reader.ledger(len(self._ledger))]
        self._read_figures(reader)
        self._stages, self._warnings = tuple(reader.stages()), tuple(reader.warnings())

    def _snapshot(self, **common: Any) -> AuditSnapshot:
        return AuditSnapshot(
            figures=tuple(self._figures.values()),
            histories={name: FigureHistory(*np.array(points).T) for name, points in self._points.items()},
            stages=self._stages,
            warnings=self._warnings,
            **common,
        )

    def _read_figures(self, reader: AuditReader) -> None:
        new = reader.audit_rows(FIGURES, after=self._last_figure)
        if not len(new.seq):
            return
        self._last_figure = int(new.seq[-1])
        times, spent = zip(*self._ledger, strict=True) if self._ledger else ((0.0,), (0.0,))
        rows = zip(
            new.columns["name"],
            np.interp(new.at, times, spent).tolist(),
            *(new.columns[name].tolist() for name in ("value", "low", "high", "of")),
            strict=True,
        )
        for name, at, value, low, high, of in rows:
            if name not in self._points and len(self._points) == _MAX_FIGURES:
                continue
            self._figures[name] = AuditFigure(
                name, finite_or_none(value), finite_or_none(low), finite_or_none(high), of
            )
            points = self._points.setdefault(name, [])
            points.append((at, value, low, high))
            self._points[name] = thinned(points, _MAX_POINTS)
