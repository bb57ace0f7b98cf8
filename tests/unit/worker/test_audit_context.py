"""The batches of an audit."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.core.audit import AuditInputs
from harness.core.errors import HarnessError
from harness.core.rows import Kind, table
from harness.worker.audit_job import WorkerAuditContext


def test_rows_after_a_loop_that_was_left_belong_to_no_batch(tmp_path: Path) -> None:
    sent: list[str] = []
    AuditInputs().write(tmp_path)
    request = SimpleNamespace(
        seed=0,
        inputs=tmp_path,
        models=(),
        model_names=(),
        tables=(table("t", x=Kind.INTEGER),),
        done=[],
        batch_sizes={},
    )
    channel = SimpleNamespace(send=lambda name, *_, **__: sent.append(name), finish_is_asked=False)
    context = WorkerAuditContext(cast(Any, request), tmp_path, cast(Any, channel))
    for _ in context.batches("stage", 4, size=2):
        context.emit("t", x=[1])
        break
    with pytest.raises(HarnessError, match="while no batch was open"):
        context.emit("t", x=[2])
    assert "end" not in sent
