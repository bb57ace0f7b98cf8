"""An audit in the worker process, and its context: inputs come from a file, rows go to the supervisor."""

import contextlib
import json
import math
import os
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from harness.audits.registry import audit_named
from harness.core.audit import FIGURES, Audit, AuditBatch, AuditContext, Work
from harness.core.errors import HarnessError
from harness.core.protocol import ENDPOINT_KEYS, FINDINGS, read_request
from harness.core.requests import AuditRequest, read_rows
from harness.core.rows import Rows, Table, concatenate_rows, split_into_frames, validate_columns
from harness.core.text import sanitize
from harness.worker.batches import OUTSIDE_ANY_BATCH, BatchLog, derive_seed, is_slow
from harness.worker.channel import Channel
from harness.worker.plugin import error_message

if TYPE_CHECKING:
    from harness.engine.target import Target


_REPORT_SHARE = 0.05
"""The largest share of the time that the findings so far take."""
_LONGEST_FINDINGS = 1 << 20  # bytes
_REPORTS = 500
"""The findings are computed again after this part of the time so far, so that a long audit stores few figures."""


class CutShort(Exception):
    """The supervisor asked the audit to finish. The batches that are done are kept."""


class WorkerAuditContext(AuditContext):
    """The context of one execution of an audit."""

    def __init__(self, audit: Audit[Any], request: AuditRequest, folder: Path, channel: Channel) -> None:
        self.seed = request.seed
        self.inputs = audit.inputs_type.read(request.inputs)
        self.models = request.models
        self._audit = audit
        self._model_ids = request.model_ids
        self._began_at = time.monotonic()
        self._reporting = self._next_report = 0.0
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
            config = self.models[number]
            # Free the memory of the model before.
            self._loaded = None
            self._log.models.clear()
            with self._log.loading():
                from harness.engine.loading import load_target

                target = load_target(config.path, **config.loading, warn=self.warn)
            self._log.add_model("target", target, number)
            self._loaded = (number, target)
        return self._loaded[1]

    def loading(self) -> contextlib.AbstractContextManager[None]:
        return self._log.loading()

    def announce(self, stage: str, items: int, *, weight: float = 1.0) -> None:
        self._log.announce(stage, float(items), draw_weight=weight)

    def batches(
        self, stage: str, items: int, *, size: int, weight: Work = 1.0, ends: Sequence[int] = (), calls: Work = 1.0
    ) -> Iterator[AuditBatch]:
        # Stages of equal weight have equal paces, such as one stage under two models.
        weights = np.broadcast_to(weight, items)
        mean = float(weights.mean()) if items else 1.0
        self._log.enter(stage, float(items), noun="audit", draw_weight=mean)
        is_measured = any(map(is_slow, self.models))
        for part in self._log.parts(f"{stage}/0", items, max_size=size, ends=ends, is_measured=is_measured):
            key = f"{stage}/0/{part.start}"
            if self._log.is_done(key):
                continue
            if self._channel.finish_is_asked:
                raise CutShort
            numbers = np.arange(part.start, part.stop)
            with self._log.batch(key, float(weights[numbers].sum()) / mean, calls=calls):
                yield AuditBatch(numbers, derive_seed(self.seed, stage, 0))
                if time.monotonic() >= self._next_report:
                    self.report()

    def emit(self, table: str, **columns: ArrayLike | list[str]) -> None:
        if self._log.key == OUTSIDE_ANY_BATCH:
            raise HarnessError(f"the audit emitted rows of {table} while no batch was open.")
        self._rows.setdefault(table, []).append(self._send(self._tables[table], **columns))

    def rows(self, table: str) -> Rows:
        parts = self._rows.get(table, [])
        joined = concatenate_rows(self._tables[table], parts)
        self._rows[table] = [joined]
        return joined

    def report(self) -> None:
        """Send the live measures and the findings of the rows so far, and decide when to do it again."""
        began_at = time.monotonic()
        try:
            findings = self._audit.findings(self.inputs, self.rows, self._model_ids)
        except Exception as error:  # the rows of a day are worth more than a view of them
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error_message(error)}"
            self.warn(f"The findings so far cannot be computed ({reason}). The rows are kept.")
            self._next_report = math.inf
            return
        live = [row for row in findings.measures.select(*self._audit.live) if not math.isnan(row.estimate.value)]
        if live:
            self._log.begin_outside()
            value, low, high, of = np.array([row.estimate for row in live]).T
            self._send(FIGURES, name=[row.name for row in live], value=value, low=low, high=high, of=of.astype(int))
        sketch = findings.as_sketch()
        at = time.time()
        text = json.dumps({**sketch, "at": at}).encode()
        if len(text) > _LONGEST_FINDINGS:
            text = json.dumps({"conclusion": sketch["conclusion"], "at": at}).encode()
        self._channel.send(FINDINGS, {"json": np.frombuffer(text, np.uint8)})
        now = time.monotonic()
        self._reporting += now - began_at
        spent = now - self._began_at
        # The next report is expected to take as long as this one.
        allowed_at = (self._reporting + now - began_at) / _REPORT_SHARE
        self._next_report = self._began_at + max(allowed_at, spent + spent / _REPORTS)

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
    audit = audit_type(audit_type.params_type().model_validate(request.params))
    context = WorkerAuditContext(audit, request, folder, channel)
    channel.send("event", name="started")
    if request.models and not audit.needs_network:
        with context.loading():
            import harness.engine.loading  # noqa: F401  torch takes seconds
    is_cut_short = False
    try:
        audit.run(context)
    except CutShort:
        is_cut_short = True
    context.report()
    return is_cut_short


def failure_sentence(error: BaseException, folder: Path) -> str:
    """Return a sentence about an error."""
    return f"the audit raised {type(error).__name__}: {error_message(error)}; its log has the traceback."
