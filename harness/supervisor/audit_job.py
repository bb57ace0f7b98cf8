"""An audit as a job: what it measures with goes in, rows of its tables come out; findings are made elsewhere."""

from pathlib import Path

from harness.core.audit import FIGURES
from harness.core.files import remove_tree
from harness.jobs.audit.request import AuditRequest
from harness.core.requests import write_audit_inputs
from harness.jobs.audit.spec import AuditSpec
from harness.jobs.audit.reader import AuditReader
from harness.runs.store import RunStore
from harness.supervisor.intake import Intake
from harness.supervisor.job import Job, target_config
from harness.supervisor.row_intake import RowIntake


class AuditJob(Job[AuditSpec]):
    """One audit of one or more models."""

    noun = "audit"
    row_noun = "row"

    @property
    def readable(self) -> tuple[Path, ...]:
        return (self.folder.inputs,)

    @property
    def most_result_bytes(self) -> int:
        return 0

    @property
    def named_paths(self) -> tuple[Path, ...]:
        # What lay there was read before the run began, and is among its inputs.
        return ()

    def intake(self, store: RunStore) -> Intake:
        with AuditReader(self.folder.store) as reader:
            rows = sum(reader.row_count(table) for table in self.spec.tables)
        return RowIntake(store, self.spec.tables, rows=rows)

    def lay_inputs(self, *, finish_at: float) -> None:
        with AuditReader(self.folder.store) as reader:
            order = AuditRequest(
                audit=self.spec.audit,
                params=self.spec.params,
                seed=self.spec.seed,
                inputs=self.folder.inputs,
                tables=self.spec.tables,
                models=tuple(map(target_config, self.spec.models)),
                done=reader.done_keys(),
                engine_rows=reader.engine_calls(),
            )
            rows = {
                table.name: reader.audit_rows(table, only_done=True).columns
                for table in self.spec.tables
                if table.name != FIGURES.name
            }
        remove_tree(self.folder.scratch)
        write_audit_inputs(self.folder.scratch / "inputs", order, rows)
