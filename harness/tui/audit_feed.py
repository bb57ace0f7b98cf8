"""An audit's store read again and again, by sequence number, into snapshots: each figure and row is read once."""

import dataclasses
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from harness.core.audit import FIGURES
from harness.core.rows import Kind, Table
from harness.core.text import shorten
from harness.jobs.audit.reader import AuditFigure, AuditReader, finite_or_none
from harness.runs.folder import RunFolder
from harness.runs.summary import run_summary
from harness.tui.feed import finite_readings, last_log_lines
from harness.tui.polled import Polled
from harness.tui.snapshot import AuditRow, AuditSnapshot, FigureHistory

ROWS_HELD = 100
_MOST_POINTS = 1_000
_MOST_FIGURES = 200
_LONGEST_TEXT = 160
_MOST_NUMBERS, _MOST_NUMBERS_BESIDE_TEXT = 6, 2
_Point = tuple[float, float, float, float]


class AuditFeed(Polled[AuditSnapshot]):
    """What is known of one audit."""

    def __init__(self, folder: RunFolder) -> None:
        """Raises HarnessError when the audit's record cannot be read."""
        super().__init__(folder)
        self.spec = folder.audit()
        measured = [table for table in self.spec.tables if table.name != FIGURES.name]
        with_text = [table for table in measured if any(column.kind is Kind.TEXT for column in table.columns)]
        self._tables = with_text or measured
        self._ledger: list[tuple[float, float]] = []
        self._ledger_seen = 0
        self._begin_anew({})

    def _begin_anew(self, repeated: dict[int, int]) -> None:
        """Forget what was read: a batch was begun again, and what its earlier attempt gave is void."""
        self._repeated = repeated
        self._figures_seen = 0
        self._figures: dict[str, AuditFigure] = {}
        self._points: dict[str, list[_Point]] = {}
        self._rows_seen = dict.fromkeys((table.name for table in self._tables), 0)
        self._rows: deque[AuditRow] = deque(maxlen=ROWS_HELD)

    def _read(self) -> AuditSnapshot:
        summary = run_summary(self.folder)
        nothing = AuditSnapshot(summary, (), {}, (), (), (), {}, last_log_lines(self.folder))
        if not self.folder.store.exists():
            return nothing
        with AuditReader(self.folder.store) as reader:
            repeated = reader.repeated_batches()
            if repeated != self._repeated:
                self._begin_anew(repeated)
            self._take_ledger(reader)
            self._take_figures(reader)
            for table in self._tables:
                self._take_rows(reader, table)
            looked = reader.last_telemetry()
            return dataclasses.replace(
                nothing,
                figures=tuple(self._figures.values()),
                histories={name: _history(points) for name, points in self._points.items()},
                stages=tuple(reader.stages()),
                rows=tuple(sorted(self._rows, key=lambda row: row.at)),
                warnings=tuple(reader.warnings()),
                telemetry={} if looked is None else finite_readings(looked[1]),
            )

    def _take_ledger(self, reader: AuditReader) -> None:
        """What had been spent when: the ledger has a word a second, in the order of its numbers."""
        for entry in reader.ledger(self._ledger_seen):
            self._ledger.append((entry.at, entry.spent))
            self._ledger_seen += 1

    def _take_figures(self, reader: AuditReader) -> None:
        found = reader.audit_rows(FIGURES, after=self._figures_seen)
        if not len(found.seq):
            return
        self._figures_seen = int(found.seq[-1])
        times, spent = zip(*self._ledger, strict=True) if self._ledger else ((0.0,), (0.0,))
        columns = found.columns
        rows = zip(
            columns["name"],
            np.interp(found.at, times, spent).tolist(),
            *(columns[name].tolist() for name in ("value", "low", "high", "of")),
            strict=True,
        )
        for name, then, value, low, high, of in rows:
            if name not in self._points and len(self._points) == _MOST_FIGURES:
                continue
            self._figures[name] = AuditFigure(
                name, finite_or_none(value), finite_or_none(low), finite_or_none(high), of
            )
            points = self._points.setdefault(name, [])
            points.append((then, value, low, high))
            if len(points) > _MOST_POINTS:
                # The newest stays: it is the one that the table agrees with.
                self._points[name] = [*points[:-1:2], points[-1]]

    def _take_rows(self, reader: AuditReader, table: Table) -> None:
        after = max(self._rows_seen[table.name], reader.row_count(f"audit_{table.name}") - ROWS_HELD)
        found = reader.audit_rows(table, after=after)
        for place, (seq, at) in enumerate(zip(found.seq.tolist(), found.at.tolist(), strict=True)):
            self._rows.append(AuditRow(seq, at, table.name, _in_words(table, found.columns, place)))
            self._rows_seen[table.name] = seq


def _history(points: list[_Point]) -> FigureHistory:
    return FigureHistory(*np.array(points, np.float64).reshape(-1, 4).T)


def _in_words(table: Table, columns: dict[str, Any], place: int) -> str:
    """The row at `place`: its first numbers by name, then its texts; vectors are left out."""
    return " · ".join([*_numbers(table, columns, place), *_texts(table, columns, place)])


def _numbers(table: Table, columns: dict[str, Any], place: int) -> list[str]:
    has_text = any(column.kind is Kind.TEXT for column in table.columns)
    most = _MOST_NUMBERS_BESIDE_TEXT if has_text else _MOST_NUMBERS
    kinds = [column for column in table.columns if column.kind in (Kind.INTEGER, Kind.REAL)]
    return [f"{column.name} {columns[column.name][place]:.6g}" for column in kinds[:most]]


def _texts(table: Table, columns: dict[str, Any], place: int) -> Iterator[str]:
    for column in table.columns:
        if column.kind is Kind.TEXT:
            yield f"{column.name} {shorten(columns[column.name][place], _LONGEST_TEXT)}"
