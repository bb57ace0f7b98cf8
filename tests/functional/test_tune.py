"""`harness tune`: runs on training examples with a common parent, which can be resumed."""

import json
import shlex
import shutil
import signal
from pathlib import Path

import pytest

from harness.runs import launch
from harness.runs.specs import AttackSpec
from tests.functional.machine import PLUGINS, Machine, wait_until

COMMAND = ("tune", "draws", "--limit", "12", "--vary", "trials=1..3")
FOLDS = {"small:fold0of5", "small:fold1of5"}


@pytest.fixture
def tuned(machine: Machine) -> Machine:
    """A machine whose round can be divided into folds."""
    path = machine.folder / "round.toml"
    path.write_text(path.read_text().replace('clusters = "none"', 'clusters = "computed"'))
    return machine


def _specs(machine: Machine) -> list[AttackSpec]:
    return sorted((folder.attack_spec() for folder in machine.folders()), key=lambda spec: spec.created_at)


def test_a_tuning_consists_of_runs_on_folds(tuned: Machine) -> None:
    done = tuned.run(*COMMAND, *tuned.plugin(), "--set", "pause=0", "--runs", "4", "--json")
    result, specs = json.loads(done.stdout), _specs(tuned)
    assert [spec.parent for spec in specs] == [result["id"]] * 4
    runs = [run for setting in result["settings"] for run in setting["runs"]]
    assert [run["id"] for run in runs] == [spec.id for spec in specs]
    assert [f"small:{run['fold']}" for run in runs] == [spec.round.name for spec in specs] == sorted(FOLDS) * 2
    assert all(0 <= run["recall_at_cap"] <= 1 for run in runs)
    best = max(result["settings"], key=lambda setting: setting["recall_at_cap"])
    assert best["params"] == result["best"]
    *_, command = (line.removeprefix("best: harness ") for line in done.stderr.splitlines() if "best: " in line)
    tuned.run(*shlex.split(command), "--limit", "4")
    # The first setting consists of the defaults of the attack.
    assert specs[0].params["trials"] == 3
    assert all(spec.params["pause"] == 0 and 1 <= spec.params["trials"] <= 3 for spec in specs)


def test_a_tuning_of_a_changed_attack_is_not_continued(tuned: Machine) -> None:
    attack = Path(shutil.copy(PLUGINS / "draws.py", tuned.folder))
    options = ("--attacks", str(tuned.folder), "--set", "pause=0")
    result = tuned.json(*COMMAND, *options, "--runs", "1")
    attack.write_text(attack.read_text() + "# changed\n")
    refused = tuned.run("resume", result["id"], "--runs", "2", code=1).stderr
    assert f"{attack} has changed since {result['id']} began. Start a new tuning." in refused


def test_a_tuning_without_a_recall_fails(tuned: Machine) -> None:
    options = (*tuned.plugin(), "--limit", "12", "--vary", "action=raises,segfault", "--runs", "1")
    failed = tuned.run("tune", "misbehaving", *options, "--json", code=1)
    assert json.loads(failed.stdout)["best"] is None and "was run on its folds" in failed.stderr


@pytest.mark.slow
def test_an_interrupted_tuning_can_be_resumed(tuned: Machine) -> None:
    # Four runs of several seconds each are left at the interrupt.
    process = tuned.start(*COMMAND, *tuned.plugin(), "--set", "pause=0.5", "--runs", "6")
    wait_until(lambda: len(tuned.folders()) >= 2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "harness resume" in err
    before = len(tuned.folders())
    (record,) = (tuned.runs.parent / "tunings").glob("*.json")
    result = tuned.json("resume", record.stem, "--runs", str(before + 1))
    runs = [run for setting in result["settings"] for run in setting["runs"]]
    assert len(runs) == before + 1
    assert all(run["recall_at_cap"] is not None for run in runs)
    # Every setting but the last has runs on both folds.
    assert all(len(setting["runs"]) == 2 for setting in result["settings"][:-1])


def test_a_run_whose_supervisor_never_started_is_run_on_resume(tuned: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(launch, "start_supervisor", interrupt)
        tuned.run(*COMMAND, *tuned.plugin(), "--runs", "1", code=130)
    (record,) = (tuned.runs.parent / "tunings").glob("*.json")
    result = tuned.json("resume", record.stem, "--runs", "1")
    (setting,) = result["settings"]
    (run,) = setting["runs"]
    assert run["recall_at_cap"] is not None


@pytest.mark.long
def test_a_built_in_attack_is_tuned_on_the_demo(machine: Machine) -> None:
    command = ("tune", "sampling", "--round", "demo", "--limit", "12", "--set", "ranker=mean_loss")
    options = ("--target", "demo-tiny", "--vary", "trials=1..3", "--runs", "3", "--json")
    output = json.loads(machine.run(*command, *options).stdout)
    specs = _specs(machine)
    assert {spec.parent for spec in specs} == {output["id"]} and len(specs) == 3
    assert specs[0].params["temperature"] == 0.58 and len({spec.params["temperature"] for spec in specs}) > 1
    assert all(spec.params["ranker"] == "mean_loss" and 1 <= spec.params["trials"] <= 3 for spec in specs[2:])


def test_an_unknown_tuning_is_refused(machine: Machine) -> None:
    assert "unknown run 'no-such'" in machine.run("resume", "no-such", code=2).stderr
    assert "nothing to tune" in machine.run("tune", "greedy", code=1).stderr
