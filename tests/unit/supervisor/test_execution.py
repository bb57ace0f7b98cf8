"""The start of an execution: the worker's soft deadline, and cleanup after an error."""

import threading
from pathlib import Path
from typing import Any, cast

import pytest

from harness.core.protocol import read_request
from harness.core.requests import AttackRequest
from harness.runs.reader import RunReader
from harness.runs.reserve import Reserve
from harness.runs.status import Status
from harness.sandbox import SandboxedProcess, SandboxPolicy, backend_named
from harness.supervisor import execution
from harness.supervisor.attack_job import AttackJob
from harness.supervisor.execution import Execution
from harness.supervisor.ledger import Budget
from harness.supervisor.worker_process import WorkerProcess
from tests.functional.machine import wait_until
from tests.records import Recorded, recorded_run


class WorkerStartedError(Exception):
    """Ends the execution at the point where it starts the worker."""


class SlowJob(AttackJob):
    """A job whose inputs take 30 s to write."""

    clock = 1000.0

    def write_inputs(self, folder: Path) -> None:
        super().write_inputs(folder)
        SlowJob.clock += 30.0


class FakeWorker:
    """A worker process that records its calls."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.process = self
        self.calls: list[str] = []
        workers.append(self)

    def kill(self) -> bool:
        self.calls.append("kill")
        return True

    def close(self) -> None:
        self.calls.append("close")


workers: list[FakeWorker] = []


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setattr(execution, "detect_backend", lambda: None)
    return recorded_run(home)


def _open_files() -> list[Path]:
    return [path for path in Path("/proc/self/fd").iterdir() if path.exists()]


def test_an_error_after_the_start_of_the_worker_leaves_nothing_running(
    run: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(execution, "WorkerProcess", FakeWorker)
    monkeypatch.setattr(execution, "Deadline", fail)
    started = Execution(
        AttackJob(run.folder, run.folder.attack_spec()), run.store, Budget(60.0), Reserve(run.folder.reserve), [()]
    )
    with pytest.raises(RuntimeError, match="can't start new thread"):
        started.run(lambda: False)
    assert workers.pop().calls == ["kill", "close"]
    assert "ledger" not in {thread.name for thread in threading.enumerate()}
    assert not any(descriptor.samefile(run.folder.log) for descriptor in _open_files())
    with RunReader(run.folder.store) as reader:
        assert [entry.entry for entry in reader.ledger()] == ["start", "end"]


def test_the_soft_deadline_counts_from_the_start_of_the_worker(run: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    def start_worker(*_: Any, **__: Any) -> None:
        raise WorkerStartedError

    monkeypatch.setattr(execution, "WorkerProcess", start_worker)
    monkeypatch.setattr(execution, "seconds_since_boot", lambda: SlowJob.clock)
    job = SlowJob(run.folder, run.folder.attack_spec())
    started = Execution(job, run.store, Budget(60.0), Reserve(run.folder.reserve), [()])
    with pytest.raises(WorkerStartedError):
        started.run(lambda: False)
    request = read_request(run.folder.scratch_of(0) / "inputs", AttackRequest)
    # Start time + 30 s for the inputs + the budget of 60 s − its notice of 5 %.
    assert request.finish_at == 1000.0 + 30.0 + 57.0


class KilledWorker(FakeWorker):
    """A worker that is killed while its sandbox starts."""

    descriptors = ()

    def __init__(self, scratch: Path, *_: Any, **__: Any) -> None:
        super().__init__()
        command = ["/bin/sh", "-c", "sleep 60"]
        started = SandboxedProcess(command, SandboxPolicy(), cwd=scratch, environment={}, backend=backend_named("none"))
        self.started, self.pid = started, started.pid
        self.kill, self.close = started.kill, started.close  # type: ignore[method-assign]

    def wait_until_applied(self) -> Any:
        wait_until(lambda: not Path(f"/proc/{self.pid}").exists())
        return self.started.wait_until_applied()


def test_a_budget_that_ends_while_the_worker_starts_is_out_of_time(
    run: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "WorkerProcess", KilledWorker)
    job = AttackJob(run.folder, run.folder.attack_spec())
    started = Execution(job, run.store, Budget(0.2), Reserve(run.folder.reserve), [()])
    assert started.run(lambda: False).status is Status.OUT_OF_TIME


@pytest.mark.parametrize(
    ("kills", "reason"),
    [
        (1, "the attack used more than 4.0 GB of memory, its limit, and was killed."),
        (0, "the attack's process was killed by SIGKILL: by itself or by something outside of the run."),
        (
            None,
            "the attack's process was killed by SIGKILL: by itself or by something outside of the run, or by the "
            "kernel, which does that when memory runs out.",
        ),
    ],
)
def test_memory_is_blamed_only_if_the_kernel_counted_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int | None, reason: str
) -> None:
    process = SandboxedProcess(
        ["/bin/sh", "-c", "kill -9 $$"],
        SandboxPolicy(memory=4 * 10**9),
        cwd=tmp_path,
        environment={},
        backend=backend_named("none"),
    )
    monkeypatch.setattr(process._group, "memory_kills", lambda: kills)
    worker = FakeWorker()
    monkeypatch.setattr(worker, "process", process)
    try:
        assert execution._reason_of_exit(cast("WorkerProcess", worker), "attack") == reason
    finally:
        process.close()
