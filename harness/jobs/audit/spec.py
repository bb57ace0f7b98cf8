"""spec.json of an audit."""

from collections.abc import Mapping
from typing import Literal

from harness.core.rows import Table
from harness.core.spec import JobSpec, TargetRecord


class AuditSpec(JobSpec):
    """One audit of one or more models.

    `subject` names what was audited; `inputs_sha256` is the hash of the run's inputs/ directory.
    """

    kind: Literal["audit"] = "audit"
    audit: str
    subject: str
    tables: tuple[Table, ...]
    inputs_sha256: str
    models: tuple[TargetRecord, ...]

    @property
    def targets(self) -> tuple[TargetRecord, ...]:
        return self.models

    @property
    def stored_tables(self) -> Mapping[str, Table]:
        return {f"audit_{table.name}": table for table in self.tables}


Spec = AuditSpec
