"""`stop` signals the supervisor that holds the run's lock, and says so if it cannot see that process."""

import os
import signal
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.runs import launch
from harness.runs.status import Process, Status
from tests.functional.machine import homes
from tests.unit.tui.recorded import Recorded, recorded_run


@pytest.fixture
def starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """A run that is starting: this process holds its lock, and the record names a process that does not exist."""
    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    run = recorded_run(tmp_path)
    run.supervised_by(os.getpid())
    here = Process.of(os.getpid())
    run.event("supervisor", **Process(here.pid, here.created + 1000, here.boot).as_record())
    run.event("phase", phase=Status.STARTING)
    return run


def test_a_starting_run_of_another_container_is_refused_soon(
    starting: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr("harness.runs.launch.time.monotonic", lambda: float(next(clock)))
    with pytest.raises(HarnessError) as end:
        launch.stop_run(starting.folder)
    sentence = "is running in another container or on another host. Stop it there."
    assert str(end.value) == f"{starting.folder.id} {sentence}"
    assert next(clock) < 10


def test_a_supervisor_that_is_not_recorded_yet_is_waited_for(
    starting: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    signalled: list[tuple[int, int]] = []

    def end_run(pid: int, number: int) -> None:
        signalled.append((pid, number))
        starting.event("phase", phase=Status.STOPPED)

    monkeypatch.setattr("harness.runs.launch.os.kill", end_run)
    monkeypatch.setattr(
        "harness.runs.launch.time.sleep",
        lambda _: starting.event("supervisor", **Process.of(os.getpid()).as_record()),
    )
    assert launch.stop_run(starting.folder) is Status.STOPPED
    assert signalled == [(os.getpid(), signal.SIGTERM)]
