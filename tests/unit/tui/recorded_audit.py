"""An audit's folder written row by row, as a supervisor would have left it."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from harness.core.audit import FIGURES
from harness.core.files import try_lock
from harness.core.paths import runs_home
from harness.core.rows import Kind, table
from harness.core.spec import TargetRecord
from harness.jobs.audit.spec import AuditSpec
from harness.runs.folder import RunFolder
from harness.runs.status import Process, Status
from harness.runs.store import RunStore

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
class RecordedAudit:
    """An audit and the means to go on writing it."""

    folder: RunFolder
    store: RunStore
    lock: IO[bytes] | None = None

    def batch(self, key: str, weight: float = 1.0) -> tuple[int, int]:
        """Begin the batch `key`, anew if need be."""
        with self.store.transaction():
            return self.store.begin_batch(key, weight)

    def end(self, batch: tuple[int, int]) -> None:
        """The batch is done."""
        with self.store.transaction():
            self.store.end_batch(*batch)

    def plan(self, stage: str, weight: float) -> None:
        """A stage is announced."""
        with self.store.transaction():
            self.store.add_plan(stage, weight)

    def replies(self, batch: tuple[int, int], texts: Sequence[str], *, first: int = 0) -> None:
        """Commit a row for each text."""
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
        """Commit a figure as it stands."""
        columns: Mapping[str, Any] = {
            "name": [name],
            "value": np.array([value]),
            "low": np.array([low]),
            "high": np.array([high]),
            "of": np.array([of]),
        }
        with self.store.transaction():
            self.store.add_rows(*batch, "audit_figure", columns)

    def event(self, name: str, **detail: object) -> None:
        """Commit an event."""
        with self.store.transaction():
            self.store.add_event(name, **detail)
        if name == "phase" and Status(str(detail["phase"])).is_over and self.lock is not None:
            self.lock.close()
            self.lock = None

    def spent(self, seconds: float, *, entry: str = "tick") -> None:
        """Commit a word of the ledger."""
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
    """An audit in the homes that the environment names, without a row so far; `pid` is its supervisor's."""
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
        recorded.event("supervisor", **Process.of(pid).as_record())
        if pid == os.getpid():
            recorded.lock = try_lock(folder.lock)
    return recorded
