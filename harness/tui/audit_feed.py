"""The feed of an audit: it reads each figure and each row of the tables once."""

from collections import deque
from typing import Any

import numpy as np

from harness.core.audit import FIGURES
from harness.core.rows import Kind, Table
from harness.core.text import shorten
from harness.jobs.audit.reader import AuditFigure, AuditReader, finite_or_none
from harness.runs.folder import RunFolder
from harness.runs.reader import StageWork
from harness.runs.summary import RunSummary
from harness.tui.feed import Feed, thinned
from harness.tui.snapshot import AuditRow, AuditSnapshot, FigureHistory

MAX_ROWS = 100
_MAX_POINTS = 1_000
_MAX_FIGURES = 200
_MAX_TEXT = 160
_MAX_NUMBERS, _MAX_NUMBERS_BESIDE_TEXT = 6, 2
_Point = tuple[float, float, float, float]


class AuditFeed(Feed[AuditSnapshot, AuditReader]):
    """The part of one audit that has been read."""

    def __init__(self, folder: RunFolder) -> None:
        """Raises HarnessError if the audit's record cannot be read."""
        super().__init__(folder)
        self.spec = folder.audit_spec()
        tables = [table for table in self.spec.tables if table.name != FIGURES.name]
        self._tables = [table for table in tables if _columns(table, Kind.TEXT)] or tables
        self._ledger: list[tuple[float, float]] = []
        self._stages: tuple[StageWork, ...] = ()
        self._warnings: tuple[str, ...] = ()
        self._reset()

    def _reset(self) -> None:
        self._last_figure = 0
        self._figures: dict[str, AuditFigure] = {}
        self._points: dict[str, list[_Point]] = {}
        self._last_rows = dict.fromkeys((table.name for table in self._tables), 0)
        self._rows: deque[AuditRow] = deque(maxlen=MAX_ROWS)

    def _open(self) -> AuditReader:
        return AuditReader(self.folder.store)

    def _read_new_rows(self, reader: AuditReader, summary: RunSummary) -> None:
        # The sequence numbers of the ledger are consecutive, so their count is also the last one.
        self._ledger += [(entry.at, entry.spent) for entry in reader.ledger(len(self._ledger))]
        self._read_figures(reader)
        for table in self._tables:
            self._read_rows(reader, table)
        self._stages, self._warnings = tuple(reader.stages()), tuple(reader.warnings())

    def _snapshot(self, **common: Any) -> AuditSnapshot:
        return AuditSnapshot(
            figures=tuple(self._figures.values()),
            histories={name: FigureHistory(*np.array(points).T) for name, points in self._points.items()},
            stages=self._stages,
            rows=tuple(sorted(self._rows, key=lambda row: row.at)),
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

    def _read_rows(self, reader: AuditReader, table: Table) -> None:
        after = max(self._last_rows[table.name], reader.row_count(f"audit_{table.name}") - MAX_ROWS)
        new = reader.audit_rows(table, after=after)
        for index, (seq, at) in enumerate(zip(new.seq.tolist(), new.at.tolist(), strict=True)):
            self._rows.append(AuditRow(seq, at, table.name, _row_text(table, new.columns, index)))
            self._last_rows[table.name] = seq


def _row_text(table: Table, columns: dict[str, Any], index: int) -> str:
    """Return the first numbers and all texts of the row at `index`, each with its column's name, without vectors."""
    texts = _columns(table, Kind.TEXT)
    numbers = _columns(table, Kind.INTEGER, Kind.REAL)[: _MAX_NUMBERS_BESIDE_TEXT if texts else _MAX_NUMBERS]
    parts = [f"{name} {columns[name][index]:.6g}" for name in numbers]
    return " · ".join([*parts, *(f"{name} {shorten(columns[name][index], _MAX_TEXT)}" for name in texts)])


def _columns(table: Table, *kinds: Kind) -> list[str]:
    return [column.name for column in table.columns if column.kind in kinds]
