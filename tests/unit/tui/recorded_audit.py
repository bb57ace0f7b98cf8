"""Write the record of an audit row by row, like its supervisor."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.audit import FIGURES
from harness.core.paths import runs_home
from harness.core.protocol import FINDINGS
from harness.core.rows import Kind, table
from harness.core.spec import TargetRecord
from harness.runs.folder import RunFolder
from harness.runs.specs import AuditSpec
from harness.runs.store import RunStore
from tests.unit.tui.recorded import RecordedJob

REPLIES = table("reply", item=Kind.INTEGER, share=Kind.REAL, each=Kind.REALS, reply=Kind.TEXT)
COUNTS = table("counts", item=Kind.INTEGER)
TABLES = (REPLIES, COUNTS, FIGURES)
MODEL = TargetRecord(
    id="demo",
    revision="main",
    commit=None,
    path=Path("/nowhere"),
    weights_sha256="ab" * 32,
    bytes=1,
    device="cpu",
    dtype="float32",
    threads=1,
)


@dataclass
class RecordedAudit(RecordedJob):
    """An audit, and methods that extend its record."""

    def end(self, batch: tuple[int, int]) -> None:
        """End a batch."""
        with self.store.transaction():
            self.store.end_batch(*batch)

    def plan(self, stage: str, weight: float) -> None:
        """Announce a stage and its weight."""
        with self.store.transaction():
            self.store.add_plan(stage, weight)

    def replies(self, batch: tuple[int, int], texts: Sequence[str], *, first: int = 0) -> None:
        """Commit a row per text."""
        items = np.arange(first, first + len(texts))
        columns = {"item": items, "share": items / 8, "each": np.full((len(texts), 2), np.nan), "reply": list(texts)}
        with self.store.transaction():
            self.store.add_rows(*batch, "audit_reply", columns)

    def figure(
        self,
        batch: tuple[int, int],
        name: str,
        value: float,
        *,
        low: float = np.nan,
        high: float = np.nan,
        of: int = 0,
    ) -> None:
        """Commit the current value of a figure."""
        columns: Mapping[str, Any] = {
            "name": [name],
            "value": np.array([value]),
            "low": np.array([low]),
            "high": np.array([high]),
            "of": np.array([of]),
        }
        with self.store.transaction():
            self.store.add_rows(*batch, "audit_figure", columns)

    def findings(self, findings: Mapping[str, Any]) -> None:
        """Commit the findings so far."""
        content = json.dumps({**findings, "at": time.time()}).encode()
        with self.store.transaction():
            self.store.add_kept(FINDINGS, np.frombuffer(content, np.uint8))

    def spent(self, seconds: float, *, entry: str = "tick") -> None:
        """Commit an entry of the ledger."""
        with self.store.transaction():
            self.store.add_ledger(entry, seconds)


def recorded_audit(
    *,
    id_: str = "abcd-sequence-corpus",
    subject: str = "corpus.txt",
    created_at: float | None = None,
    pid: int | None = None,
    tables: Sequence[Any] = TABLES,
) -> RecordedAudit:
    """Create an audit without rows. `pid` is the process of its supervisor."""
    folder = RunFolder(runs_home() / id_)
    folder.path.mkdir(parents=True)
    spec = AuditSpec(
        id=id_,
        created_at=time.time() if created_at is None else created_at,
        params={},
        paths={},
        seed=0,
        budget=60.0,
        versions={},
        hardware={},
        audit="sequence",
        subject=subject,
        tables=tuple(tables),
        inputs_sha256="cd" * 32,
        models=(MODEL,),
    )
    folder.spec_file.write_text(spec.model_dump_json())
    os.utime(folder.spec_file, (time.time() - 60, time.time() - 60))
    recorded = RecordedAudit(folder, RunStore(folder.store, spec.stored_tables))
    if pid is not None:
        recorded.supervised_by(pid)
    return recorded
