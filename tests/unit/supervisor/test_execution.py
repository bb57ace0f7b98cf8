"""The start of an execution: what is charged to the budget, and what the worker is told."""

from pathlib import Path
from typing import Any

import pytest

from harness.core.request import read_request
from harness.jobs.attack.request import AttackRequest
from harness.jobs.attack.supervised import Job
from harness.runs.disk import Reserve
from harness.supervisor import execution
from harness.supervisor.execution import Execution
from harness.supervisor.ledger import Budget
from tests.functional.machine import homes
from tests.unit.tui.recorded import recorded_run


class WorkerStartedError(Exception):
    """Ends the execution where its worker would start."""


class SlowJob(Job):
    """A job whose inputs take 30 s to write."""

    clock = 1000.0

    def write_inputs(self, folder: Path) -> None:
        super().write_inputs(folder)
        SlowJob.clock += 30.0


def test_the_soft_deadline_counts_from_the_start_of_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    run = recorded_run(tmp_path)

    def start_worker(*_: Any, **__: Any) -> None:
        raise WorkerStartedError

    monkeypatch.setattr(execution, "WorkerProcess", start_worker)
    monkeypatch.setattr(execution, "seconds_since_boot", lambda: SlowJob.clock)
    monkeypatch.setattr(execution, "detect_backend", lambda: None)
    job = SlowJob(run.folder, run.folder.spec())
    started = Execution(job, run.store, Budget(60.0), Reserve(run.folder.reserve), None)
    with pytest.raises(WorkerStartedError):
        started.run(lambda: False)
    request = read_request(run.folder.scratch / "inputs", AttackRequest)
    # 60 s less the notice of 5 %, from the moment after the inputs were written.
    assert request.finish_at == 1000.0 + 30.0 + 57.0
