"""run.db of an audit, read: its rows, its figures so far, and what it left out."""

import math
from typing import Any, NamedTuple

import numpy as np

from harness.core.arrays import Floats, Ints
from harness.core.audit import Table
from harness.runs.audit_tables import columns_of, quoted, stored_name
from harness.runs.errors import as_harness_error
from harness.runs.reader import RunReader


class AuditFigure(NamedTuple):
    """A figure of an audit as it stands, its 95 % interval, and of how many; None for what is not a number."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    of: int

    @property
    def words(self) -> str:
        """`memorized 0.31 [0.28, 0.34], of 1,000`."""
        value = "no number" if self.value is None else f"{self.value:.4g}"
        interval = "" if self.low is None or self.high is None else f" [{self.low:.4g}, {self.high:.4g}]"
        return f"{self.name} {value}{interval}{f', of {self.of:,}' if self.of else ''}"


class AuditRows(NamedTuple):
    """Rows of one table that count, in arrival order: seq, at (seconds since the epoch) [rows], and its columns.

    int64 and float64 [rows], float64 [rows, width], or texts in a list.
    """

    seq: Ints
    at: Floats
    columns: dict[str, Any]


class AuditReader(RunReader):
    """A read-only view of an audit's run.db."""

    def audit_rows(self, table: Table, *, after: int = 0, only_done: bool = False) -> AuditRows:
        """The rows of an audit's table that count, in arrival order, since `after`; `only_done`: of batches done."""
        done = "AND batch IN (SELECT batch FROM done) " if only_done else ""
        query = (
            f"SELECT seq, at, {quoted(table.columns)} FROM {stored_name(table)} JOIN (SELECT batch AS last_batch, "  # noqa: S608
            "MAX(attempt) AS last_attempt FROM attempt GROUP BY batch) "
            f"ON batch = last_batch AND attempt = last_attempt WHERE seq > ? {done}ORDER BY seq"
        )
        rows = self._all(query, after)
        with as_harness_error(self.path):
            return AuditRows(
                np.array([row[0] for row in rows], np.int64),
                np.array([row[1] for row in rows], np.float64),
                columns_of(table, [row[2:] for row in rows]),
            )

    def newest_figures(self) -> list[AuditFigure]:
        """What an audit has found so far: the newest of each figure, in the order in which they first came."""
        # By the batches that were begun again, which are few: a join with all takes as long as rows times batches.
        query = (
            "WITH again AS (SELECT batch AS begun, MAX(attempt) AS last FROM attempt WHERE attempt > 1 GROUP BY batch),"
            " ends AS (SELECT MAX(seq) AS newest, MIN(seq) AS oldest FROM audit_figure"
            " LEFT JOIN again ON begun = batch WHERE last IS NULL OR last = attempt GROUP BY name) "
            'SELECT name, value, low, high, "of" FROM ends JOIN audit_figure ON seq = newest ORDER BY oldest'
        )
        with as_harness_error(self.path):
            return [
                AuditFigure(str(name), finite(value), finite(low), finite(high), int(of))
                for name, value, low, high, of in self._all(query)
            ]

    def row_count(self, table: Table) -> int:
        """How many rows of an audit's table were ever committed, void ones included."""
        return int(self._all(f"SELECT COALESCE(MAX(seq), 0) FROM {stored_name(table)}")[0][0])  # noqa: S608

    def warnings(self) -> list[str]:
        """What the worker said was left out or went wrong, each sentence once."""
        rows = self._all("SELECT detail FROM event WHERE name = 'worker_warning' ORDER BY seq")
        return list(dict.fromkeys(str(self._detail(row[0]).get("sentence", "")) for row in rows))


def finite(value: Any) -> float | None:
    """The number, None for one that is not finite. Raises ValueError for what is no number."""
    number = float(value)
    return number if math.isfinite(number) else None
