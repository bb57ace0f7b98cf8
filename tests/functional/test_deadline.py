"""The end of a run's time: nothing of an attack outlives it, whatever the attack does against that."""

import time
import uuid
from pathlib import Path

import psutil

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


def _deadline(folder: RunFolder, budget: float) -> float:
    """When the run's budget ends, in seconds since the epoch."""
    with RunReader(folder.store) as reader:
        return next(entry.at for entry in reader.ledger() if entry.entry == "start") + budget


def test_an_attack_that_clings_is_gone_with_its_children_at_the_deadline(confined_machine: Machine) -> None:
    marker = f"marker-{uuid.uuid4()}"
    folder = confined_machine.detached("clinging", "--set", f"marker={marker}", "--budget", "4s")
    wait_until(lambda: len(processes_that_name(marker)) >= CHILDREN)
    deadline = _deadline(folder, 4.0)
    time.sleep(max(0.0, deadline - 0.3 - time.time()))
    assert len(processes_that_name(marker)) >= CHILDREN
    time.sleep(max(0.0, deadline + 1.0 - time.time()))
    assert processes_that_name(marker) == []
    assert processes_that_name(str(folder.scratch / "inputs")) == []
    wait_until(lambda: run_status(folder).is_over)
    summary = confined_machine.summary(folder)
    assert (summary["status"], summary["reason"]) == ("out_of_time", "its budget ended before its work did.")
    assert summary["elapsed_s"] == 4.0
    assert summary["rows"] == 64
    assert is_valid(Path(summary["submission"]), confined_machine.folder / "round.toml")


def test_a_killed_supervisor_leaves_nothing_of_the_attack_behind(confined_machine: Machine) -> None:
    marker = f"marker-{uuid.uuid4()}"
    folder = confined_machine.detached("clinging", "--set", f"marker={marker}")
    wait_until(lambda: len(processes_that_name(marker)) >= CHILDREN)
    kill_supervisor(folder)
    wait_until(lambda: not processes_that_name(marker), seconds=5)
    wait_until(lambda: not processes_that_name(str(folder.scratch / "inputs")), seconds=5)
    assert str(run_status(folder)) == "lost"


def test_children_of_an_attack_that_died_are_gone_with_it(confined_machine: Machine) -> None:
    marker = f"marker-{uuid.uuid4()}"
    folder = confined_machine.detached("clinging", "--set", f"marker={marker}")
    wait_until(lambda: len(processes_that_name(marker)) >= CHILDREN)
    assert kill_worker(folder)
    wait_until(lambda: run_status(folder).is_over)
    assert processes_that_name(marker) == []
    summary = confined_machine.summary(folder)
    assert summary["status"] == "crashed" and "was killed by SIGKILL" in summary["reason"]


def test_a_process_that_never_stays_is_caught(confined_machine: Machine) -> None:
    summary = confined_machine.attack("hopping", "--budget", "2s", code=3)
    assert summary["status"] == "out_of_time" and summary["rows"] == 1
    # The supervisor's own end follows its last word by a moment.
    wait_until(lambda: processes_that_name(summary["directory"]) == [])
    for _ in range(10):
        assert processes_that_name(summary["directory"]) == []


def test_a_worker_that_outlived_its_supervisor_is_killed_before_the_run_goes_on(bare_machine: Machine) -> None:
    marker = f"marker-{uuid.uuid4()}"
    folder = bare_machine.detached("clinging", "--set", f"marker={marker}", "--budget", "20s")
    wait_until(lambda: len(processes_that_name(marker)) >= CHILDREN)
    record = last_event(folder, "worker")
    assert record is not None
    reaper = psutil.Process(int(record["pid"]))
    reaper.suspend()
    kill_supervisor(folder)
    assert len(processes_that_name(marker)) >= CHILDREN
    resumed = bare_machine.start("resume", folder.id, "--detach")
    resumed.communicate(timeout=60)
    assert not reaper.is_running() or reaper.status() == psutil.STATUS_ZOMBIE
    bare_machine.run("stop", folder.id)
    assert processes_that_name(marker) == []


def test_an_attack_in_batches_ends_by_itself_at_the_soft_deadline(machine: Machine) -> None:
    summary = machine.attack("patient", "--budget", "6s", code=3)
    assert summary["status"] == "out_of_time"
    assert summary["reason"] == "its budget ended before its work did; it finished early as asked."
    assert 5.6 <= summary["elapsed_s"] < 6.0
    with RunReader(RunFolder(machine.runs / summary["id"]).store) as reader:
        phases = [detail["phase"] for _, _, name, detail in reader.events() if name == "phase"]
    assert phases == ["starting", "running", "finishing", "finishing", "out_of_time"]


def test_an_attack_that_never_guesses_is_out_of_time_with_an_empty_submission(machine: Machine) -> None:
    summary = machine.attack("misbehaving", "--set", "deed=sleep", "--budget", "2s", code=3)
    assert summary["status"] == "out_of_time" and summary["reason"].endswith("It had emitted no guess.")
    assert summary["rows"] == 0 and summary["recall_at_cap"] == 0.0


def test_a_stopped_attack_that_will_not_finish_is_killed_after_its_grace(machine: Machine) -> None:
    folder = machine.detached("clinging", "--set", "marker=none")
    wait_until(lambda: guess_count(folder) > 0)
    started = time.monotonic()
    assert machine.json("stop", folder.id)["status"] == "stopped"
    assert 4.5 < time.monotonic() - started < 9.0
    assert machine.summary(folder)["rows"] == 64
