"""The batches of an audit, and the findings that it reports while it runs."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from harness.core.audit import Audit, Inputs, RowsOf
from harness.core.errors import HarnessError
from harness.core.findings import Conclusion, Findings
from harness.core.measures import Estimate, Measure, MeasureRow, MeasureTable
from harness.core.rows import Kind, table
from harness.worker.audit_job import WorkerAuditContext

MEAN = Measure("mean", "mean", "the mean of the rows")
Sent = list[tuple[str, dict[str, Any], dict[str, Any]]]


class Counting(Audit[Any]):
    """Reports the mean of its rows, and their number without a row of the live measure."""

    live = (MEAN,)

    def run(self, context: Any) -> None:
        raise NotImplementedError

    def findings(self, inputs: Inputs, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        values = np.asarray(rows("t")["x"])
        mean = float(values.mean()) if len(values) else np.nan
        measures = MeasureTable([MeasureRow(MEAN, Estimate(mean, of=len(values)), models[0])])
        return Findings({}, conclusion=Conclusion("How many?", str(len(values)), "rows"), measures=measures)


def context(folder: Path, sent: Sent) -> WorkerAuditContext:
    Inputs().write(folder)
    tables = (table("t", x=Kind.INTEGER),)
    request = SimpleNamespace(
        seed=0, inputs=folder, models=(), model_ids=("org/model",), tables=tables, done=[], batch_sizes={}
    )

    def send(name: str, columns: Any = None, /, **fields: Any) -> None:
        sent.append((name, columns or {}, fields))

    channel = SimpleNamespace(send=send, finish_is_asked=False)
    return WorkerAuditContext(Counting(None), cast(Any, request), folder, cast(Any, channel))


def reports(sent: Sent) -> list[str]:
    """Return the answer of each of the findings that were sent."""
    return [
        json.loads(columns["json"].tobytes())["conclusion"]["answer"] for name, columns, _ in sent if name == "findings"
    ]


def test_rows_after_a_loop_that_was_left_belong_to_no_batch(tmp_path: Path) -> None:
    sent: Sent = []
    audit = context(tmp_path, sent)
    for _ in audit.batches("stage", 4, size=2):
        audit.emit("t", x=[1])
        break
    with pytest.raises(HarnessError, match="while no batch was open"):
        audit.emit("t", x=[2])
    assert "end" not in [name for name, *_ in sent]


def test_findings_are_reported_with_rows_of_open_batches_and_at_the_end(tmp_path: Path) -> None:
    sent: Sent = []
    audit = context(tmp_path, sent)
    for batch in audit.batches("stage", 2, size=1):
        audit.emit("t", x=batch.items)
    audit.report()
    assert reports(sent)[0] == "1" and reports(sent)[-1] == "2"
    figures = [(columns, fields) for name, columns, fields in sent if fields.get("table") == "figure"]
    assert figures[0][0]["value"].tolist() == [0.0] and figures[-1][0]["value"].tolist() == [0.5]
    # The first figure belongs to its batch, and a resume keeps it.
    assert figures[0][1]["key"] == "stage/0/0"


def test_findings_take_a_small_part_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the audit: a batch takes a second, and the findings take a tenth of one."""
    sent: Sent = []
    now = [0.0]
    monkeypatch.setattr("harness.worker.audit_job.time.monotonic", lambda: now[0])
    audit = context(tmp_path, sent)
    findings = Counting.findings

    def slow(self: Counting, inputs: Inputs, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        now[0] += 0.1
        return findings(self, inputs, rows, models)

    monkeypatch.setattr(Counting, "findings", slow)
    for batch in audit.batches("stage", 200, size=1):
        now[0] += 1.0
        audit.emit("t", x=batch.items)
    assert len(reports(sent)) > 50 and len(reports(sent)) * 0.1 <= 0.05 * now[0] + 0.1


def test_findings_that_fail_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: Sent = []
    audit = context(tmp_path, sent)

    def fail(*_: Any) -> Findings:
        raise ValueError("too few rows")

    monkeypatch.setattr(Counting, "findings", fail)
    for batch in audit.batches("stage", 3, size=1):
        audit.emit("t", x=batch.items)
    (warning,) = [fields["sentence"] for name, _, fields in sent if name == "event"]
    assert warning == "The findings so far cannot be computed (ValueError: too few rows). The rows are kept."
