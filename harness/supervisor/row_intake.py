"""What an audit's worker sends: rows of the tables that the audit declares, and what it left out, in sentences."""

from typing import Any

from harness.core.rows import Table
from harness.core.frames import Frame
from harness.core.rows import columns_from_frame
from harness.core.text import shorten
from harness.runs.store import RunStore
from harness.supervisor.intake import EVENTS, Intake, IntakeFault

_MOST_ROW_BYTES = 16 << 30
_MOST_WARNINGS = 1_000


class RowIntake(Intake):
    """Takes the frames of one execution of an audit."""

    events = EVENTS | {"warning"}

    def __init__(self, store: RunStore, tables: tuple[Table, ...], *, rows: int) -> None:
        """`rows` is how many rows of results earlier executions have stored."""
        super().__init__(store)
        self._tables = {table.name: table for table in tables}
        self._warnings = 0
        self.rows = rows
        self.most_bytes |= {"rows": _MOST_ROW_BYTES}
        self.handlers |= {"rows": self._take_rows}

    def event_detail(self, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        if name != "warning":
            return super().event_detail(name, fields)
        self._warnings += 1
        if self._warnings > _MOST_WARNINGS:
            raise IntakeFault(f"more than {_MOST_WARNINGS:,} warnings")
        return {"sentence": shorten(str(fields["sentence"]), 500)}

    def _take_rows(self, frame: Frame) -> None:
        table = self._tables[str(frame.fields["table"])]
        columns = columns_from_frame(table, frame.columns, frame.rows)
        self._store.add_rows(*self.attempt_of(frame), table, columns)
        self.rows += frame.rows
