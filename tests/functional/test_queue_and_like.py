"""Real runs in the queue for a device, and runs that repeat another one."""

import json
import os
import signal
from typing import Any

import pytest

from harness.runs.folder import RunFolder
from harness.runs.queue import queued_runs
from harness.runs.reader import RunReader
from harness.runs.status import Status
from harness.runs.summary import run_status, run_summary
from harness.supervisor.devices import DeviceLock, matching_devices
from tests.functional.machine import PLUGINS, Machine, wait_until

TINY = ("--round", "demo", "--target", "demo-tiny", "--limit", "16", "--budget", "5m", "--device", "cpu")


def queue_run(machine: Machine, *options: str) -> RunFolder:
    """Start a run and wait until it is queued. Its attack does not wait any longer."""
    gate = machine.folder / "gate"
    gate.mkdir(exist_ok=True)
    (gate / "open").touch()
    holding = ("holding", "--attacks", str(PLUGINS), "--set", f"gate={gate}")
    folder = RunFolder.of(machine.json("run", *holding, *TINY, "--detach", *options)["id"])
    wait_until(lambda: run_summary(folder).queue_position is not None)
    return folder


def supervisor_of(folder: RunFolder) -> int:
    with RunReader(folder.store) as reader:
        return int((reader.last_event("supervisor") or {})["pid"])


def started_at(folder: RunFolder) -> float:
    with RunReader(folder.store) as reader:
        return reader.ledger()[0].at


@pytest.mark.slow
def test_queued_runs_are_served_in_order_without_killed_and_stopped_ones(machine: Machine) -> None:
    lock = DeviceLock("hold-other")
    assert lock.try_acquire(matching_devices("cpu")) is not None
    first, killed, stopped, last = (queue_run(machine, "--group", "seeds", "--seed", str(seed)) for seed in range(4))
    summary = run_summary(last)
    assert (summary.queue_position, summary.queue_length, summary.waits_for) == (4, 4, "hold-other")
    assert (summary.parent, summary.elapsed_s) == ("seeds", 0)
    os.kill(supervisor_of(killed), signal.SIGKILL)
    wait_until(lambda: run_status(killed) is Status.LOST)
    ended = machine.json("stop", stopped.id)
    assert (ended["status"], ended["reason"]) == ("stopped", "it was stopped before it started.")
    moved = machine.json_list("runs", "queue", last.id, "--first")
    assert [run["id"] for run in moved] == [last.id, first.id]
    assert moved[1]["wait_at_most_s"] is None
    # A run that is resumed waits at the end.
    machine.run("resume", killed.id, "--detach")
    wait_until(lambda: [run.run for run in queued_runs()] == [last.id, first.id, killed.id])
    lock.release()
    for folder in (last, first, killed):
        assert machine.json("watch", folder.id)["status"] == "finished"
    assert started_at(last) < started_at(first) < started_at(killed)
    assert {run["id"] for run in machine.json_list("list", "runs", "--group", "seeds")} == {
        folder.id for folder in (first, killed, stopped, last)
    }
    again = machine.json("run", "--like", last.id, "--dry-run")["spec"]
    assert differing_fields(again, last) == {"id", "created_at"}
    other = machine.json("run", "--like", last.id, "--seed", "0", "--target", "demo", "--dry-run")["spec"]
    assert (other["seed"], other["target"]["id"], other["target"]["device"]) == (0, "demo", "cpu")


def differing_fields(spec: dict[str, Any], folder: RunFolder) -> set[str]:
    recorded = folder.spec().model_dump(mode="json")
    return {name for name in recorded if spec[name] != recorded[name]}


@pytest.fixture
def draws(machine: Machine) -> RunFolder:
    """A finished run with changed parameters."""
    options = ("--set", "pause=0", "--set", "trials=2", "--seed", "5", "--limit", "20", "--budget", "1m30s")
    return machine.executed("draws", *options, "--guesses-per-example", "1")


def test_a_run_like_another_writes_the_same_submission(machine: Machine, draws: RunFolder) -> None:
    again = RunFolder.of(machine.json("run", "--like", draws.id)["id"])
    assert differing_fields(again.spec().model_dump(mode="json"), draws) == {"id", "created_at"}
    assert again.submission.read_bytes() == draws.submission.read_bytes()
    assert run_summary(again).changed == {"pause": 0.0, "trials": 2, "seed": 5, "guesses_per_example": 1}
    # The attack declares two suffixes per example.
    assert len(again.submission.read_text().splitlines()) == 1 + 20


def test_a_default_that_has_changed_since_the_run_is_named(machine: Machine, draws: RunFolder) -> None:
    spec = json.loads(draws.spec_file.read_text())
    spec["request"]["settings"].remove("trials=2")
    draws.spec_file.write_text(json.dumps(spec))
    again = machine.run("run", "--like", draws.id, "--dry-run")
    assert f"Defaults have changed since {draws.id} ran: trials is 3, and was 2. --set sets them." in again.stderr
    assert "Defaults" not in machine.run("run", "--like", draws.id, "--set", "trials=2", "--dry-run").stderr


def test_the_command_line_replaces_options_of_the_run(machine: Machine, draws: RunFolder) -> None:
    file = machine.folder / "answer-64.npy"
    spec = machine.json("run", "--like", draws.id, "--set", "trials=3", "--seed", "0", "--budget", "9s", "--dry-run")[
        "spec"
    ]
    # The default is given, so it counts.
    assert (spec["params"]["trials"], spec["seed"], spec["budget"]) == (3, 0, 9.0)
    assert (spec["params"]["pause"], spec["examples"], spec["changed"]) == (0.0, 20, ["pause"])
    assert spec["request"]["guesses_per_example"] == spec["attack"]["guesses_per_example"] == 1
    other = machine.json("run", "greedy", "--like", draws.id, "--round", "demo", "--dry-run")["spec"]
    assert (other["attack"]["name"], other["round"]["name"], other["params"], other["seed"]) == (
        "greedy",
        "demo",
        {},
        5,
    )
    refused = machine.run("run", "--like", draws.id, "--set", f"file={file}", "--dry-run", code=1)
    assert "contains the round's answers" in refused.stderr
    assert "name an attack, or use --like RUN" in machine.run("run", code=2).stderr


@pytest.mark.slow
def test_a_changed_or_missing_source_is_named(machine: Machine) -> None:
    attacks = machine.folder / "mine"
    attacks.mkdir()
    source = attacks / "draws.py"
    source.write_text((PLUGINS / "draws.py").read_text())
    options = ("--attacks", "mine", "--round", "round.toml", "--set", "pause=0")
    run = RunFolder.of(machine.json("run", "draws", *options)["id"])
    assert "differs" not in machine.run("run", "--like", run.id, "--dry-run").stderr
    source.write_text(source.read_text() + "# changed\n")
    (line,) = machine.run("run", "--like", run.id, "--dry-run").stderr.splitlines()
    assert line == f"{source} differs from the source that {run.id} ran, which --attacks {run.code} uses."
    assert machine.run("run", "--like", run.id, "--attacks", str(run.code), "--dry-run").stderr == ""
    source.unlink()
    (line,) = machine.run("run", "--like", run.id, "--dry-run").stderr.splitlines()
    assert line == f"attack draws was not found, so the source that {run.id} ran is used."


def test_a_group_with_an_invalid_name_or_that_of_a_tuning_is_refused(machine: Machine) -> None:
    refused = machine.run("run", "draws", *machine.plugin(), "--group", "a b", "--dry-run", code=2)
    assert "not a name of a group" in " ".join(refused.stderr.split())
    tunings = machine.runs.parent / "tunings"
    tunings.mkdir(parents=True)
    (tunings / "abcd-tune-draws.json").write_text("{}")
    refused = machine.run("run", "draws", *machine.plugin(), "--group", "abcd-tune-draws", "--dry-run", code=2)
    assert "abcd-tune-draws is a tuning" in " ".join(refused.stderr.split())
