"""An audit in the supervisor: its inputs, and the checks of its rows and warnings."""

from collections.abc import Sequence
from pathlib import Path

from harness.core.audit import FIGURES
from harness.core.frames import Frame
from harness.core.protocol import FINDINGS
from harness.core.requests import AuditRequest, write_rows
from harness.core.rows import Table, columns_from_frame
from harness.runs.audit_reader import AuditReader
from harness.runs.reader import RunReader
from harness.runs.specs import AuditSpec
from harness.runs.store import RunStore
from harness.supervisor.devices import Device
from harness.supervisor.intake import MAX_NAME, Intake, IntakeError
from harness.supervisor.job import Job, target_config

_BYTE_LIMITS = {"rows": 16 << 30, FINDINGS: 1 << 30}
_MAX_FIGURES = 1_000
"""Every list of runs reads the figures of each audit."""


class AuditJob(Job[AuditSpec]):
    """One audit of one or more models."""

    noun = "audit"
    row_noun = "row"

    @property
    def readable_paths(self) -> tuple[Path, ...]:
        return (self.folder.inputs,)

    @property
    def result_bytes(self) -> int:
        return 0

    @property
    def named_paths(self) -> tuple[Path, ...]:
        # Their content was read before the run began and is part of its inputs.
        return ()

    def intake(self, store: RunStore) -> Intake:
        with RunReader(self.folder.store) as reader:
            rows = sum(reader.row_count(name) for name in self.spec.stored_tables)
        return RowIntake(store, self.spec.tables, rows=rows)

    def write_inputs(self, folder: Path) -> None:
        with AuditReader(self.folder.store) as reader:
            rows = {
                table.name: reader.audit_rows(table, only_done=True).columns
                for table in self.spec.tables
                if table.name != FIGURES.name
            }
        write_rows(folder, rows)

    def request(self, reader: RunReader, *, finish_at: float, devices: Sequence[Device]) -> AuditRequest:
        return AuditRequest(
            audit=self.spec.audit,
            inputs=self.folder.inputs,
            tables=self.spec.tables,
            models=tuple(target_config(model, devices) for model in self.spec.models),
            model_ids=tuple(model.id for model in self.spec.models),
            finish_at=finish_at,
            **self.shared_fields(reader),
        )


JOB = AuditJob


class RowIntake(Intake):
    """Takes rows of the tables that the audit declares."""

    def __init__(self, store: RunStore, tables: tuple[Table, ...], *, rows: int) -> None:
        """`rows` is the number of rows that earlier executions stored."""
        super().__init__(store)
        self._tables = {table.name: table for table in tables}
        self._figures: set[str] = set()
        self.rows = rows
        self.byte_limits |= _BYTE_LIMITS
        self.handlers |= {"rows": self._take_rows, FINDINGS: self._take_findings}

    def _take_rows(self, frame: Frame) -> None:
        table = self._tables[str(frame.fields["table"])]
        columns = columns_from_frame(table, frame.columns, frame.rows)
        if table.name == FIGURES.name:
            self._figures |= set(columns["name"])
            if len(self._figures) > _MAX_FIGURES or any(len(name) > MAX_NAME for name in columns["name"]):
                raise IntakeError(f"more than {_MAX_FIGURES:,} figures, or a name of more than {MAX_NAME} characters")
        self._store.add_rows(*self.attempt_of(frame), f"audit_{table.name}", columns)
        self.rows += frame.rows

    def _take_findings(self, frame: Frame) -> None:
        self._store.add_kept(FINDINGS, frame.columns["json"])
