"""Killed runs resume, and end with the bytes of an uninterrupted run."""

import os
import random
import signal
import time

import numpy as np
import pytest

from harness.core.errors import HarnessError
from harness.runs.folder import RunFolder
from harness.runs.launch import resume_run
from harness.runs.reader import RunReader
from harness.runs.summary import run_status, run_summary
from harness.supervisor.ledger import CRASH_CHARGE_SECONDS
from tests.functional.machine import (
    Machine,
    guess_count,
    is_valid,
    kill_supervisor,
    kill_worker,
    last_event,
    processes_that_name,
    spent_time,
    wait_until,
)


def _kill(folder: RunFolder, victim: str) -> None:
    """Kill the worker, the supervisor or both, and wait until the run is over."""
    is_killed = victim != "supervisor" and kill_worker(folder)
    if victim != "worker" or not is_killed:
        kill_supervisor(folder)
    wait_until(lambda: run_status(folder).is_over)


@pytest.mark.slow
def test_a_randomly_killed_run_ends_with_the_same_bytes(machine: Machine) -> None:
    reference = machine.executed("draws", "--set", "pause=0")
    rng = random.Random(3)
    folder = machine.detached("draws", "--set", "pause=0.25")
    kills, spent = 0, 0.0
    while kills < 6:
        if rng.random() < 0.8:
            wait_until(lambda: str(run_status(folder)) != "starting")
        time.sleep(rng.uniform(0.0, 0.8))
        if run_status(folder).is_over:
            break
        _kill(folder, rng.choice(["worker", "supervisor", "both"]))
        kills += 1
        assert spent_time(folder) >= spent, "a kill reduced the time spent"
        spent = spent_time(folder)
        if str(run_status(folder)) == "finished":
            break
        resume_run(folder, weights_sha256=())
    wait_until(lambda: run_status(folder).is_over)
    assert kills >= 3
    assert machine.summary(folder)["status"] == "finished"
    assert folder.submission.read_bytes() == reference.submission.read_bytes()
    curve = run_summary(folder)
    assert curve.recall_at_cap == machine.summary(reference)["recall_at_cap"] and curve.progress == 1.0


@pytest.mark.slow
def test_a_run_whose_supervisor_was_killed_at_start_can_be_resumed(machine: Machine) -> None:
    reference = machine.executed("draws", "--set", "pause=0")
    rng = random.Random(5)
    for _ in range(2):
        starting = machine.start("run", "draws", *machine.plugin(), "--set", "pause=0", "--detach")
        (folder,) = wait_until(lambda: [f for f in machine.folders() if f.id != reference.id])
        time.sleep(rng.uniform(0.0, 0.25))
        for process in processes_that_name("harness.supervisor"):
            if str(folder.path) in process.cmdline():
                process.kill()
        starting.communicate(timeout=60)
        listed = machine.json_list("list", "runs")
        assert {row["id"] for row in listed} == {folder.id, reference.id}
        wait_until(lambda folder=folder: run_status(folder).is_over)
        if str(run_status(folder)) != "finished":
            resume_run(folder, weights_sha256=())
        wait_until(lambda folder=folder: run_status(folder).is_over)
        assert folder.submission.read_bytes() == reference.submission.read_bytes()
        machine.run("runs", "rm", folder.id)


@pytest.mark.slow
def test_kills_do_not_extend_the_budget(machine: Machine) -> None:
    folder = machine.detached("draws", "--set", "pause=3", "--budget", "6s")
    rng, alive = random.Random(1), 0.0
    for _ in range(12):
        if last_event(folder, "phase") is None:
            continue
        worker_at = wait_until(lambda: run_status(folder).is_over or processes_that_name("harness.worker"))
        if worker_at is True:
            break
        started = time.monotonic()
        time.sleep(rng.uniform(0.2, 1.2))
        alive += time.monotonic() - started
        kill_supervisor(folder)
        wait_until(lambda: not _workers_of(folder))
        wait_until(lambda: run_status(folder).is_over)
        if str(run_status(folder)) != "lost":
            break
        resume_run(folder, weights_sha256=())
    wait_until(lambda: run_status(folder).is_over)
    summary = run_summary(folder)
    assert str(summary.status) == "out_of_time", summary.reason
    assert alive <= 6.0 + 1.0
    assert spent_time(folder) == pytest.approx(6.0, abs=CRASH_CHARGE_SECONDS)
    with RunReader(folder.store) as reader:
        spent = [entry.spent for entry in reader.ledger()]
    assert spent == sorted(spent)


def _workers_of(folder: RunFolder) -> list[object]:
    return list(processes_that_name(str(folder.scratch_of(0) / "inputs")))


def test_resume_names_the_input_that_changed(machine: Machine) -> None:
    extra = machine.folder / "extra.txt"
    extra.write_text("one")
    folder = machine.detached("draws", "--set", f"file={extra}", "--set", "pause=5")
    machine.run("stop", folder.id)

    code, rules, data = (
        folder.code / "draws.py",
        *(machine.folder / name for name in ("round.toml", "train_prefix-64.npy")),
    )
    for file, change, named in (
        (extra, lambda content: b"two", f"{extra} of the parameter file"),
        (code, lambda content: content + b"\n", "the attack's source"),
        (rules, lambda content: content + b"error_cap = 3\n", f"the round in {rules}"),
        (data, lambda content: content[:-1] + bytes([content[-1] ^ 1]), f"the round's file {data}"),
        (data, lambda content: None, f"the round's file {data}"),
    ):
        before = file.read_bytes()
        file.unlink() if (after := change(before)) is None else file.write_bytes(after)
        refused = machine.run("resume", folder.id, code=1)
        assert named in refused.stderr and "changed" in refused.stderr
        file.write_bytes(before)

    spec = folder.attack_spec()
    assert str(run_status(folder)) == "stopped"
    with pytest.raises(HarnessError, match="inputs have changed: the weights of some/model"):
        _resume_with_target(folder, spec.model_dump_json())


def _resume_with_target(folder: RunFolder, spec: str) -> None:
    """Resume as if the weights of the run's target had changed."""
    record = (
        '"target":{"id":"some/model","revision":"main","commit":null,"path":"/nowhere","weights_sha256":"aa",'
        '"bytes":1,"device":"cpu","dtype":"auto","threads":1}'
    )
    # The last one is the resolved target, and not what was asked for.
    before, _, after = spec.rpartition('"target":null')
    folder.spec_file.write_text(before + record + after)
    try:
        resume_run(folder, weights_sha256=("bb",))
    finally:
        folder.spec_file.write_text(spec)


@pytest.mark.slow
def test_finished_and_running_runs_are_not_resumed(machine: Machine) -> None:
    finished = machine.attack("draws", "--set", "pause=0")
    assert (
        "is finished, so it cannot be resumed. Start a new run." in machine.run("resume", finished["id"], code=1).stderr
    )
    late = machine.attack("draws", "--set", "pause=1", "--budget", "2s", code=3)
    assert late["status"] == "out_of_time"
    assert "has spent its budget of 0:02" in machine.run("resume", late["id"], code=1).stderr
    running = machine.detached("patient")
    assert "harness watch" in machine.run("resume", running.id, code=1).stderr


@pytest.mark.slow
def test_resuming_a_lost_run_without_budget_writes_its_results(machine: Machine) -> None:
    folder = machine.detached("draws", "--set", "pause=0.5", "--budget", "3s")
    wait_until(lambda: guess_count(folder) > 0)
    wait_until(lambda: spent_time(folder) > 3.0 - CRASH_CHARGE_SECONDS)
    kill_supervisor(folder)
    assert str(run_status(folder)) == "lost" and not folder.submission.exists()
    resumed = machine.json("resume", folder.id, code=3)
    assert resumed["status"] == "out_of_time" and resumed["elapsed_s"] == pytest.approx(3.0)
    assert resumed["rows"] > 0 and resumed["recall_at_cap"] is not None
    assert is_valid(folder.submission, machine.folder / "round.toml")


@pytest.mark.slow
def test_a_stopped_run_resumes_to_the_same_bytes(machine: Machine) -> None:
    reference = machine.executed("draws", "--set", "pause=0")
    folder = machine.detached("draws", "--set", "pause=0.2")
    wait_until(lambda: guess_count(folder) > 0)
    assert machine.json("stop", folder.id)["status"] == "stopped"
    assert np.loadtxt(folder.submission, dtype=str, skiprows=1).size > 0
    resumed = machine.json("resume", folder.id)
    assert resumed["status"] == "finished"
    assert folder.submission.read_bytes() == reference.submission.read_bytes()


def test_sigterm_stops_a_run(machine: Machine) -> None:
    folder = machine.detached("patient")
    wait_until(lambda: guess_count(folder) > 0)
    record = last_event(folder, "supervisor")
    assert record is not None
    for name in (signal.SIGHUP, signal.SIGINT):
        os.kill(record["pid"], name)
    time.sleep(0.3)
    assert not run_status(folder).is_over
    os.kill(record["pid"], signal.SIGTERM)
    wait_until(lambda: run_status(folder).is_over)
    assert str(run_status(folder)) == "stopped"
