"""No process of an attack outlives its run, whatever the attack does."""

import uuid
from pathlib import Path

import psutil
import pytest

from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from harness.runs.summary import run_status
from tests.functional.machine import (
    Machine,
    guess_count,
    is_valid,
    kill_supervisor,
    kill_worker,
    last_event,
    processes_that_name,
    wait_until,
)

CHILDREN = 8


def _lifetime(folder: RunFolder) -> float:
    """Return the seconds from start to end of the run, from its ledger."""
    with RunReader(folder.store) as reader:
        ledger = reader.ledger()
    (start,) = [entry.at for entry in ledger if entry.entry == "start"]
    (end,) = [entry.at for entry in ledger if entry.entry == "end"]
    return end - start


@pytest.mark.slow
def test_an_unkillable_attack_and_its_children_end_at_the_deadline(machine_per_backend: Machine) -> None:
    marker = f"marker-{uuid.uuid4()}"
    folder = machine_per_backend.detached("unkillable", "--set", f"marker={marker}", "--budget", "8s")
    wait_until(lambda: len(processes_that_name(marker)) >= CHILDREN)
    wait_until(lambda: run_status(folder).is_over)
    assert processes_that_name(marker) == []
    assert processes_that_name(str(folder.scratch_of(0) / "inputs")) == []
    assert 8.0 <= _lifetime(folder) <= 9.0
    summary = machine_per_backend.summary(folder)
    assert (summary["status"], summary["reason"]) == ("out_of_time", "its budget ended before its work did.")
    assert summary["elapsed_s"] == 8.0
    assert summary["rows"] == 64
    assert is_valid(Path(summary["submission"]), machine_per_backend.folder / "round.toml")


def test_a_killed_supervisor_leaves_no_process(machine_per_backend: Machine) -> None:
    marker = f"marker-{uuid.uuid4()}"
    folder = machine_per_backend.detached("unkillable", "--set", f"marker={marker}")
    wait_until(lambda: len(processes_that_name(marker)) >= CHILDREN)
    kill_supervisor(folder)
    wait_until(lambda: not processes_that_name(marker))
    wait_until(lambda: not processes_that_name(str(folder.scratch_of(0) / "inputs")))
    assert str(run_status(folder)) == "lost"


@pytest.mark.slow
def test_a_killed_attack_leaves_no_child(machine_per_backend: Machine) -> None:
    marker = f"marker-{uuid.uuid4()}"
    folder = machine_per_backend.detached("unkillable", "--set", f"marker={marker}")
    wait_until(lambda: len(processes_that_name(marker)) >= CHILDREN)
    assert kill_worker(folder)
    wait_until(lambda: run_status(folder).is_over)
    assert processes_that_name(marker) == []
    summary = machine_per_backend.summary(folder)
    assert summary["status"] == "crashed" and "was killed by SIGKILL" in summary["reason"]


def test_a_process_that_keeps_forking_is_killed(machine_per_backend: Machine) -> None:
    folder = machine_per_backend.detached("reforking")
    wait_until(lambda: guess_count(folder) > 0)
    summary = machine_per_backend.json("stop", folder.id)
    assert summary["status"] == "stopped" and summary["rows"] > 0
    # The supervisor exits shortly after its last event.
    wait_until(lambda: processes_that_name(summary["directory"]) == [])
    for _ in range(10):
        assert processes_that_name(summary["directory"]) == []


@pytest.mark.slow
def test_a_worker_that_outlived_its_supervisor_is_killed_on_resume(unsandboxed_machine: Machine) -> None:
    marker = f"marker-{uuid.uuid4()}"
    folder = unsandboxed_machine.detached("unkillable", "--set", f"marker={marker}", "--budget", "20s")
    wait_until(lambda: len(processes_that_name(marker)) >= CHILDREN)
    record = last_event(folder, "worker")
    assert record is not None
    reaper = psutil.Process(int(record["pid"]))
    reaper.suspend()
    kill_supervisor(folder)
    wait_until(lambda: len(processes_that_name(marker)) >= CHILDREN)
    resumed = unsandboxed_machine.start("resume", folder.id, "--detach")
    resumed.communicate(timeout=60)
    assert not reaper.is_running() or reaper.status() == psutil.STATUS_ZOMBIE
    unsandboxed_machine.run("stop", folder.id)
    assert processes_that_name(marker) == []


@pytest.mark.slow
def test_an_attack_with_batches_ends_at_the_soft_deadline(machine: Machine) -> None:
    summary = machine.attack("patient", "--budget", "6s", code=3)
    assert summary["status"] == "out_of_time"
    assert summary["reason"] == "its budget ended before its work did; it finished early as asked."
    assert 5.7 <= summary["elapsed_s"] < 6.0
    with RunReader(RunFolder(machine.runs / summary["id"]).store) as reader:
        phases = [detail["phase"] for _, _, name, detail in reader.events() if name == "phase"]
    assert phases == ["starting", "running", "finishing", "finishing", "out_of_time"]


def test_an_attack_that_never_guesses_is_out_of_time_with_an_empty_submission(machine: Machine) -> None:
    summary = machine.attack("misbehaving", "--set", "action=sleep", "--budget", "2s", code=3)
    assert summary["status"] == "out_of_time" and summary["reason"].endswith("It had emitted no guess.")
    assert summary["rows"] == 0 and summary["recall_at_cap"] == 0.0


@pytest.mark.slow
def test_an_attack_that_ignores_stop_is_killed_after_the_grace_period(machine: Machine) -> None:
    folder = machine.detached("unkillable", "--set", "marker=none")
    wait_until(lambda: guess_count(folder) > 0)
    assert machine.json("stop", folder.id)["status"] == "stopped"
    with RunReader(folder.store) as reader:
        asked_at = next(at for _, at, name, detail in reader.events() if detail.get("phase") == "finishing")
        ended_at = reader.ledger()[-1].at
    assert 4.9 < ended_at - asked_at < 10.0
    assert machine.summary(folder)["rows"] == 64
