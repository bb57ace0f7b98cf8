"""What a running audit sees of its job: inputs, models, and what is done; rows and figures go out over the channel."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from harness.core.audit import FIGURES, AuditBatch, AuditContext, AuditInputs
from harness.core.rows import Rows, Table
from harness.core.errors import HarnessError
from harness.core.request import ENDPOINT_KEYS
from harness.jobs.audit.request import AuditRequest
from harness.core.spec import TargetConfig
from harness.core.requests import read_audit_rows
from harness.core.rows import validate_columns, split_into_frames, concatenate_rows
from harness.worker.batches import OUTSIDE_ANY_BATCH, BatchLog
from harness.worker.channel import Channel
from harness.worker.context import derived_seed

if TYPE_CHECKING:
    from harness.engine.target import Target


class CutShort(Exception):
    """The supervisor asked the audit to come to its end; what is done is kept."""


class WorkerAuditContext(AuditContext):
    """The context of one execution of an audit."""

    def __init__(self, job: AuditRequest, folder: Path, channel: Channel) -> None:
        self.seed = job.seed
        self.inputs = AuditInputs.read(job.inputs)
        self._job = job
        self._channel = channel
        self._tables = {table.name: table for table in job.tables}
        self._log = BatchLog(channel, done=job.done, engine_rows=job.engine_rows)
        self._rows: dict[str, list[Mapping[str, Any]]] = {
            name: [columns] for name, columns in read_audit_rows(folder).items()
        }
        # Not left where a library might print its environment.
        self._secret = os.environ.pop(ENDPOINT_KEYS[0], None)
        self._loaded: tuple[int, Target] | None = None
        self._begun_outside = False

    @property
    def orders(self) -> tuple[TargetConfig, ...]:
        return self._job.models

    @property
    def secret(self) -> str | None:
        return self._secret

    def target(self, number: int = 0) -> "Target":
        if self._loaded is None or self._loaded[0] != number:
            from harness.engine.loading import load_target

            order = self._job.models[number]
            # The one before makes room first.
            self._loaded = None
            target = load_target(order.path, device=order.device, dtype=order.dtype, threads=order.threads)
            target.calls = self._log
            self._channel.send("event", name="target", **target.record)
            self._loaded = (number, target)
        return self._loaded[1]

    def announce(self, stage: str, items: int, *, weight: float = 1.0) -> None:
        self._log.announce(stage, items * weight)

    def batches(self, stage: str, items: int, *, size: int, weight: float = 1.0) -> Iterator[AuditBatch]:
        self._log.enter(stage, items * weight, noun="audit")
        for first in range(0, items, size):
            key = f"{stage}/0/{first}"
            if self._log.is_done(key):
                continue
            if self._channel.finish_is_asked:
                raise CutShort
            numbers = np.arange(first, min(first + size, items))
            self._log.begin(key, len(numbers) * weight)
            yield AuditBatch(numbers, derived_seed(self.seed, stage, 0), stage)
            self._log.end(key)

    def emit(self, table: str, **columns: ArrayLike | list[str]) -> None:
        if self._log.key == OUTSIDE_ANY_BATCH:
            raise HarnessError(f"the audit emitted rows of {table} outside of any batch.")
        self._rows.setdefault(table, []).append(self._send(self._tables[table], **columns))

    def rows(self, table: str) -> Rows:
        parts = self._rows.get(table, [])
        joined = concatenate_rows(self._tables[table], parts)
        self._rows[table] = [joined]
        return joined

    def figure(self, name: str, value: float, *, low: float = np.nan, high: float = np.nan, of: int = 0) -> None:
        if self._log.key == OUTSIDE_ANY_BATCH and not self._begun_outside:
            # Between two stages, and after the last: as if a batch of no work were open.
            self._begun_outside = True
            self._channel.send("begin", key=OUTSIDE_ANY_BATCH, weight=0.0)
        self._send(FIGURES, name=[name], value=[value], low=[low], high=[high], of=[of])

    def _send(self, table: Table, **columns: ArrayLike | list[str]) -> dict[str, Any]:
        checked = validate_columns(table, columns)
        for arrays in split_into_frames(table, checked):
            self._channel.send("rows", arrays, table=table.name, key=self._log.key)
        return checked

    def warn(self, sentence: str) -> None:
        self._channel.send("event", name="warning", sentence=sentence)
