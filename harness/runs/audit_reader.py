"""The rows and the live figures of an audit in run.db."""

import math
from typing import Any, NamedTuple

import numpy as np

from harness.core.arrays import Floats, Ints
from harness.core.inputs import as_harness_error
from harness.core.protocol import FINDINGS
from harness.core.rows import Table
from harness.core.text import format_number
from harness.runs.cells import column_from, select_list
from harness.runs.reader import LAST_ATTEMPTS, RunReader


class AuditFigure(NamedTuple):
    """The current value of a figure, its 95 % interval, and the number of items; None for what is not a number."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    of: int

    @property
    def text(self) -> str:
        """The figure as text, such as "memorized 0.31 [0.28, 0.34], n = 1,000"."""
        value = "not a number" if self.value is None else format_number(self.value)
        interval = (
            "" if self.low is None or self.high is None else f" [{format_number(self.low)}, {format_number(self.high)}]"
        )
        return f"{self.name} {value}{interval}{f', n = {self.of:,}' if self.of else ''}"


class AuditRows(NamedTuple):
    """Valid rows of one table in arrival order: seq and at (seconds since the epoch), [rows], and its columns."""

    seq: Ints
    at: Floats
    columns: dict[str, Any]


class AuditReader(RunReader):
    """A read-only view of the run.db of an audit."""

    def audit_rows(self, table: Table, *, after: int = 0, only_done: bool = False) -> AuditRows:
        """Return the valid rows of `table` after sequence number `after`; with `only_done`, only of done batches."""
        name = f"audit_{table.name}"
        done = "AND batch IN (SELECT done.batch FROM done) " if only_done else ""
        rows = self.query(
            f"SELECT seq, at, {select_list(table)} FROM {name} {LAST_ATTEMPTS} "  # noqa: S608
            f"WHERE seq > ? {done}ORDER BY seq",
            after,
        )
        with as_harness_error(self.path):
            seq, at, *cells = zip(*rows, strict=True) if rows else ((),) * (2 + len(table.columns))
            return AuditRows(
                np.array(seq, np.int64),
                np.array(at, np.float64),
                {
                    column.name: column_from(column.kind, values)
                    for column, values in zip(table.columns, cells, strict=True)
                },
            )

    def findings(self) -> bytes:
        """Return the findings that the worker stored last, as JSON with the time `at` that it did; empty before."""
        kept = self.kept_arrays().get(FINDINGS)
        return b"" if kept is None else kept.tobytes()

    def newest_figures(self) -> list[AuditFigure]:
        """Return the newest value of each figure, in the order in which the figures first appeared."""
        # Joining the few batches that were begun again is fast; joining all attempts takes rows times batches.
        query = (
            "WITH again AS (SELECT batch AS begun, MAX(attempt) AS last FROM attempt WHERE attempt > 1 GROUP BY batch),"
            " ends AS (SELECT MAX(seq) AS newest, MIN(seq) AS oldest FROM audit_figure"
            " LEFT JOIN again ON begun = batch WHERE last IS NULL OR last = attempt GROUP BY name) "
            "SELECT name, value, low, high, [of] FROM ends JOIN audit_figure ON seq = newest ORDER BY oldest"
        )
        with as_harness_error(self.path):
            return [
                AuditFigure(str(name), finite_or_none(value), finite_or_none(low), finite_or_none(high), int(of))
                for name, value, low, high, of in self.query(query)
            ]


def finite_or_none(value: Any) -> float | None:
    """Return the number, or None if it is not finite. Raises ValueError if it is not a number."""
    number = float(value)
    return number if math.isfinite(number) else None
