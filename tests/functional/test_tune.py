"""`harness tune`: runs under one parent, on training examples alone, which go on where they were."""

import json
import signal
import time
from pathlib import Path

import pytest

from harness.jobs.attack.spec import AttackSpec
from tests.functional.machine import Machine, wait_until

COMMAND = ["tune", "sampling", "--round", "demo", "--limit", "12", "--set", "ranker=mean_loss", "--vary", "trials=1..3"]
FOLDS = {"demo:fold0of5", "demo:fold1of5"}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def _specs(machine: Machine) -> list[AttackSpec]:
    return sorted((folder.spec() for folder in machine.folders()), key=lambda spec: spec.created_at)


def test_a_tuning_is_runs_of_folds_under_one_parent(machine: Machine) -> None:
    done = machine.run(*COMMAND, "--runs", "4", "--json")
    told = json.loads(done.stdout)
    specs = _specs(machine)
    assert [spec.parent for spec in specs] == [told["id"]] * 4
    runs = [run for setting in told["settings"] for run in setting["runs"]]
    assert [run["run"] for run in runs] == [spec.id for spec in specs]
    assert [f"demo:{run['fold']}" for run in runs] == [spec.round.name for spec in specs] == sorted(FOLDS) * 2
    assert all(0 <= run["recall_at_cap"] <= 1 for run in runs)
    best = max(told["settings"], key=lambda setting: setting["recall_at_cap"])
    assert best["params"] == told["best"]
    assert specs[0].params["temperature"] == 0.58 and len({spec.params["temperature"] for spec in specs}) > 1
    assert all(spec.params["ranker"] == "mean_loss" and 1 <= spec.params["trials"] <= 3 for spec in specs[2:])


def test_an_interrupted_tuning_goes_on_to_the_number_of_runs_that_is_wanted(machine: Machine) -> None:
    process = machine.start(*COMMAND, "--runs", "6")
    wait_until(lambda: len(machine.folders()) >= 2, seconds=60)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume" in err
    before = len(machine.folders())
    (record,) = (machine.runs.parent / "tunings").glob("*.json")
    done = machine.run("tune", "--resume", record.stem, "--runs", str(before + 1), "--json")
    told = json.loads(done.stdout)
    runs = [run for setting in told["settings"] for run in setting["runs"]]
    assert len(runs) == before + 1
    assert all(run["recall_at_cap"] is not None for run in runs)
    # Each setting but the newest has gone through both folds.
    assert all(len(setting["runs"]) == 2 for setting in told["settings"][:-1])


def test_a_tuning_that_is_not_there_is_one_sentence(machine: Machine) -> None:
    assert "no-such" in machine.run("tune", "--resume", "no-such", code=1).stderr
    assert "name an attack" in machine.run("tune", code=2).stderr
    assert "nothing to tune" in machine.run("tune", "greedy", code=1).stderr
