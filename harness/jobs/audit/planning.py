"""Resolve everything about an audit before its budget starts."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.core.audit import FIGURES, Audit, AuditInputs
from harness.core.inputs import content_sha256
from harness.core.spec import PathRecord, TargetRecord
from harness.jobs.audit.spec import AuditSpec
from harness.runs.machine import hardware, versions


def plan_audit(
    audit: Audit[Any],
    inputs: AuditInputs,
    *,
    id_: str,
    subject: str,
    sources: Mapping[str, Path],
    models: Sequence[TargetRecord],
    budget: float,
    seed: int,
    folder: Path,
    shares_device: bool = False,
) -> AuditSpec:
    """Write `inputs` into `folder` and return the spec of an audit. `budget` is in seconds.

    `sources` are the files and directories that the user named, by the name of their option.
    """
    folder.mkdir(exist_ok=True)
    inputs.write(folder)
    return AuditSpec(
        id=id_,
        created_at=time.time(),
        params=audit.params.model_dump(mode="json"),
        paths={name: PathRecord(path=path.resolve(), sha256=content_sha256(path)) for name, path in sources.items()},
        seed=seed,
        shares_device=shares_device,
        network="endpoint" if audit.needs_network else "none",
        budget=budget,
        versions=versions(),
        hardware=hardware(),
        audit=audit.name,
        subject=subject,
        tables=(*audit.tables, FIGURES),
        inputs_sha256=content_sha256(folder),
        models=tuple(models),
    )
