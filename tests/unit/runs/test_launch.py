"""`stop` signals the supervisor that holds the lock, and a command in a process of its own answers."""

import os
import signal
import sys
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.runs import launch, subcommand
from harness.runs.status import Process, Status
from tests.records import Recorded, recorded_run


@pytest.fixture(params=[Status.STARTING, Status.RUNNING], ids=["started", "resumed"])
def starting(home: Path, request: pytest.FixtureRequest) -> Recorded:
    """Return a run whose supervisor is not recorded yet. This process holds its lock; the recorded one is gone."""
    run = recorded_run(home)
    run.supervised_by(os.getpid())
    own = Process.of(os.getpid())
    run.event("supervisor", **Process(own.pid, own.created + 1000, own.boot).as_record())
    run.event("phase", phase=request.param)
    return run


def test_a_starting_run_in_another_container_is_refused_within_seconds(
    starting: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr("harness.runs.launch.time.monotonic", lambda: float(next(clock)))
    with pytest.raises(HarnessError) as end:
        launch.stop_run(starting.folder)
    sentence = "is running in another container or on another host. Stop it there."
    assert str(end.value) == f"{starting.folder.id} {sentence}"
    assert next(clock) < 10


def test_stop_waits_until_the_supervisor_is_recorded(starting: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_long_answer_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import json; print(json.dumps({'text': 'x' * (3 << 20)}))"
    monkeypatch.setattr(subcommand, "PROGRAM", (sys.executable, "-c", program))
    answer = subcommand.run_subcommand(["show"], on_progress=lambda line: None)
    assert answer is not None and len(answer["text"]) == 3 << 20


INTERRUPTED = """
import signal, sys, time
print("ready", file=sys.stderr, flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:
"""


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("raise", None),
        ("sys.exit(130)", None),
        ("print('KeyboardInterrupt', file=sys.stderr); sys.exit(1)", None),
        ("print('{}')", {}),
        ("print('harness: a run goes on.', file=sys.stderr); sys.exit(1)", HarnessError),
    ],
)
def test_a_cancelled_command_answers_or_says_what_goes_on(
    monkeypatch: pytest.MonkeyPatch, end: str, expected: object
) -> None:
    monkeypatch.setattr(subcommand, "PROGRAM", (sys.executable, "-c", f"{INTERRUPTED}    {end}"))
    lines: list[str] = []

    def run() -> object:
        return subcommand.run_subcommand(["show"], on_progress=lines.append, is_cancelled=lambda: "ready" in lines)

    if expected is HarnessError:
        with pytest.raises(HarnessError, match="a run goes on"):
            run()
    else:
        assert run() == expected
