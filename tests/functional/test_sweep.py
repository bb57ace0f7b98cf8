"""`harness sweep` on one machine: one run after the other, resumed after a kill, and what is refused."""

import json
import shutil
import signal
from pathlib import Path

import pytest

from harness.core.hardware import usable_cores
from harness.runs.status import Status
from harness.runs.summary import run_status
from tests.functional.machine import PLUGINS, Machine, guess_count, wait_until

HERE = ("--ray", "none")
ATTACKS = ("--attacks", str(PLUGINS))

_40_PARAMETERS = "\n".join(f"p{place} = [1, 2, 3, 4, 5, 6, 7, 8, 9]" for place in range(40))

_MANY = list(range(1, 400))


def _write(machine: Machine, text: str) -> str:
    file = machine.folder / "small.toml"
    file.write_text(text)
    return str(file)


def _draws(machine: Machine, *, pause: float, seeds: str = "[0, 1]", more: str = "") -> str:
    rounds = 'attacks = ["draws"]\nrounds = ["./round.toml"]\nbaseline = "draws trials=1"\n'
    return _write(machine, f"{rounds}seeds = {seeds}\n{more}[params.draws]\npause = {pause}\ntrials = [1, 3]\n")


def test_every_combination_becomes_a_run_of_the_sweep(machine: Machine) -> None:
    file = _draws(machine, pause=0)
    planned = machine.json("sweep", file, *ATTACKS, *HERE, "--dry-run")
    assert len(planned["runs"]) == 4 and planned["estimated_s"] == 0 and planned["unestimated_budget_s"] == 240
    assert planned["slots"] == 1
    assert not machine.folders()
    result = machine.json("sweep", file, *ATTACKS, *HERE)
    assert len(result["finished"]) == 4 and not result["failed"] and not result["unfinished"]
    specs = sorted((folder.attack_spec() for folder in machine.folders()), key=lambda spec: spec.id)
    assert [(spec.seed, spec.params["trials"]) for spec in specs] == [(0, 1), (0, 3), (1, 1), (1, 3)]
    assert {spec.parent for spec in specs} == {result["id"]} and [spec.id for spec in specs] == result["finished"]
    shown = machine.json("show", "latest")
    assert shown["finished"] == 4 and len(shown["differences"]) == 1
    again = machine.json("sweep", file, *ATTACKS, *HERE, "--dry-run")
    assert again["estimated_s"] > 0 and again["unestimated_budget_s"] == 0
    assert all(run["estimate_s"] > 0 for run in again["runs"])


def test_a_dry_run_counts_runs_of_which_nothing_is_known_with_their_budget(machine: Machine) -> None:
    text = 'attacks = ["greedy", "sampling"]\nrounds = ["demo"]\nlimit = 100\n[params.sampling]\ntrials = 4\n'
    plan = ("sweep", _write(machine, text), "--dry-run", "--device", "cpu", "--threads", "1")
    for place, slots in ((("--ray", "none"), 1), (("--ray", "local"), usable_cores())):
        planned = machine.json(*plan, *place)
        assert planned["slots"] == slots and planned["estimated_s"] == 0
        assert {run["estimate_s"] for run in planned["runs"]} == {None}
    printed = machine.run(*plan, "--ray", "local").stdout
    assert f"2 runs, {min(2, usable_cores())} at a time: at most" in printed


@pytest.mark.slow
def test_a_killed_sweep_is_resumed_and_no_finished_run_is_run_again(machine: Machine) -> None:
    driver = machine.start("sweep", _draws(machine, pause=0.2, seeds="[0]"), *ATTACKS, *HERE)
    wait_until(lambda: any(run_status(folder) is Status.FINISHED for folder in machine.folders()))
    wait_until(lambda: any(run_status(folder) is Status.RUNNING for folder in machine.folders()))
    driver.kill()
    driver.communicate()
    before = {
        folder.id: folder.store.read_bytes() for folder in machine.folders() if run_status(folder) is Status.FINISHED
    }
    assert len(before) == 1
    result = machine.json("resume", "latest")
    assert len(result["finished"]) == 2
    after = {folder.id: folder.store.read_bytes() for folder in machine.folders() if folder.id in before}
    assert after == before


@pytest.mark.slow
def test_ctrl_c_leaves_the_run_running_and_says_how_to_continue(machine: Machine) -> None:
    driver = machine.start("sweep", _draws(machine, pause=0.5, seeds="[0]"), *ATTACKS, *HERE)
    wait_until(lambda: any(guess_count(folder) for folder in machine.folders() if folder.store.exists()))
    driver.send_signal(signal.SIGINT)
    _, err = driver.communicate(timeout=60)
    assert driver.returncode == 130 and "harness resume" in err
    (folder,) = machine.folders()
    assert run_status(folder) is Status.RUNNING
    machine.run("stop", folder.id)
    assert machine.json("resume", "latest")["unfinished"] == []


@pytest.mark.slow
def test_a_run_that_crashes_does_not_stop_the_others(machine: Machine) -> None:
    file = _write(
        machine,
        'attacks = ["misbehaving", "draws"]\nrounds = ["./round.toml"]\n'
        '[params.misbehaving]\naction = "raises"\n[params.draws]\npause = 0\n',
    )
    done = machine.run("sweep", file, *ATTACKS, *HERE, "--json", code=3)
    result = json.loads(done.stdout)
    assert len(result["finished"]) == len(result["unfinished"]) == 1
    assert "1 run did not finish" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('attacks = ["absent"]', "unknown attack 'absent'"),
        ('attacks = ["draws"]\nrounds = ["absent"]', "unknown round 'absent'"),
        ('attacks = ["draws"]\nrounds = ["./round.toml"]\n[params.draws]\nnone = 1', "unknown parameter 'none'"),
        ('attacks = ["draws"]\nrounds = ["./round.toml"]\nbaseline = "greedy"', "is not a setting of the sweep"),
        ('attacks = ["draws"]\n[params.draws]\n' + _40_PARAMETERS, "params.draws: unknown parameter 'p0'"),
        (f'attacks = ["draws"]\n[params.draws]\npause = {_MANY}\ntrials = {_MANY}', "more than 100,000 runs"),
    ],
)
def test_a_sweep_with_a_mistake_starts_nothing(machine: Machine, text: str, message: str) -> None:
    done = machine.run("sweep", _write(machine, text), *ATTACKS, *HERE, code=2)
    assert message in done.stderr and len(done.stderr.splitlines()) == 1
    assert not machine.folders() and not (machine.folder / "state" / "sweeps").exists()


@pytest.mark.slow
def test_runs_of_a_sweep_are_removed_with_it(machine: Machine) -> None:
    result = machine.json("sweep", _draws(machine, pause=0, seeds="[0]"), *ATTACKS, *HERE)
    machine.run("runs", "rm", result["id"])
    assert not machine.folders() and not list(Path(machine.folder / "state" / "sweeps").glob("*.json"))


@pytest.mark.slow
def test_a_sweep_is_not_continued_with_another_source(machine: Machine) -> None:
    attack = Path(shutil.copy(PLUGINS / "draws.py", machine.folder))
    file = _draws(machine, pause=0, seeds="[0]")
    result = machine.json("sweep", file, "--attacks", str(machine.folder), *HERE)
    machine.run("runs", "rm", result["finished"][0])
    attack.write_text(attack.read_text() + "# changed\n")
    refused = machine.run("resume", result["id"], code=1).stderr
    assert "is not the source with which" in refused and not refused.count("Traceback")


def test_two_commands_do_not_work_on_one_sweep(machine: Machine) -> None:
    driver = machine.start("sweep", _draws(machine, pause=0.5, seeds="[0]"), *ATTACKS, *HERE)
    wait_until(machine.folders)
    assert "another command works on" in machine.run("resume", "latest", code=1).stderr
    driver.kill()
    driver.communicate()
