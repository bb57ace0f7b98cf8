"""An audit in the worker process, and its context: inputs come from a file, rows go to the supervisor."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from harness.audits.registry import audit_named
from harness.core.audit import FIGURES, AuditBatch, AuditContext, AuditInputs
from harness.core.errors import HarnessError
from harness.core.protocol import ENDPOINT_KEYS, read_request
from harness.core.requests import AuditRequest, read_rows
from harness.core.rows import Rows, Table, concatenate_rows, split_into_frames, validate_columns
from harness.core.text import sanitize
from harness.worker.batches import OUTSIDE_ANY_BATCH, BatchLog, derive_seed, is_slow
from harness.worker.channel import Channel
from harness.worker.plugin import error_message

if TYPE_CHECKING:
    from harness.engine.target import Target


class CutShort(Exception):
    """The supervisor asked the audit to finish. The batches that are done are kept."""


class WorkerAuditContext(AuditContext):
    """The context of one execution of an audit."""

    def __init__(self, request: AuditRequest, folder: Path, channel: Channel) -> None:
        self.seed = request.seed
        self.inputs = AuditInputs.read(request.inputs)
        self.models = request.models
        self.model_names = request.model_names
        self._channel = channel
        self._tables = {table.name: table for table in request.tables}
        self._log = BatchLog(channel, request)
        self._rows: dict[str, list[Mapping[str, Any]]] = {
            name: [columns] for name, columns in read_rows(folder).items()
        }
        # A library might print its environment.
        self.api_key = os.environ.pop(ENDPOINT_KEYS[0], None)
        self._loaded: tuple[int, Target] | None = None

    def target(self, number: int = 0) -> "Target":
        if self._loaded is None or self._loaded[0] != number:
            from harness.engine.loading import load_target

            config = self.models[number]
            # Free the memory of the model before.
            self._loaded = None
            target = load_target(
                config.path, device=config.device, dtype=config.dtype, threads=config.threads, warn=self.warn
            )
            target.progress = self._log
            self._channel.send("event", name="target", **target.record)
            self._loaded = (number, target)
        return self._loaded[1]

    def announce(self, stage: str, items: int, *, weight: float = 1.0) -> None:
        self._log.announce(stage, items * weight)

    def batches(
        self, stage: str, items: int, *, size: int, weight: float = 1.0, ends: Sequence[int] = ()
    ) -> Iterator[AuditBatch]:
        self._log.enter(stage, items * weight, noun="audit")
        is_measured = any(map(is_slow, self.models))
        for part in self._log.parts(f"{stage}/0", items, max_size=size, ends=ends, is_measured=is_measured):
            key = f"{stage}/0/{part.start}"
            if self._log.is_done(key):
                continue
            if self._channel.finish_is_asked:
                raise CutShort
            numbers = np.arange(part.start, part.stop)
            with self._log.batch(key, len(numbers) * weight):
                yield AuditBatch(numbers, derive_seed(self.seed, stage, 0))

    def emit(self, table: str, **columns: ArrayLike | list[str]) -> None:
        if self._log.key == OUTSIDE_ANY_BATCH:
            raise HarnessError(f"the audit emitted rows of {table} while no batch was open.")
        self._rows.setdefault(table, []).append(self._send(self._tables[table], **columns))

    def rows(self, table: str) -> Rows:
        parts = self._rows.get(table, [])
        joined = concatenate_rows(self._tables[table], parts)
        self._rows[table] = [joined]
        return joined

    def figure(self, name: str, value: float, *, low: float = np.nan, high: float = np.nan, of: int = 0) -> None:
        self._log.begin_outside()
        self._send(FIGURES, name=[name], value=[value], low=[low], high=[high], of=[of])

    def _send(self, table: Table, **columns: ArrayLike | list[str]) -> dict[str, Any]:
        valid_columns = validate_columns(table, columns)
        for arrays in split_into_frames(table, valid_columns):
            self._channel.send("rows", arrays, table=table.name, key=self._log.key)
        return valid_columns

    def warn(self, sentence: str) -> None:
        self._channel.send("event", name="warning", sentence=sanitize(sentence))


def run(folder: Path, channel: Channel) -> bool:
    """Run the audit whose request is in `folder`; return True if it was asked to finish before its end."""
    request = read_request(folder, AuditRequest)
    audit_type = audit_named(request.audit)
    context = WorkerAuditContext(request, folder, channel)
    audit = audit_type(audit_type.params_type().model_validate(request.params))
    channel.send("event", name="started")
    try:
        audit.run(context)
    except CutShort:
        return True
    return False


def failure_sentence(error: BaseException, folder: Path) -> str:
    """Return a sentence about an error."""
    return f"the audit raised {type(error).__name__}: {error_message(error)}; its log has the traceback."
