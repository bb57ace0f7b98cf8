"""`harness tune`: runs on training examples with a common parent, which can be resumed."""

import json
import shlex
import shutil
import signal
from pathlib import Path

import pytest

from harness.core.examples import load_prefixes
from harness.core.rounds import load_round
from harness.runs import launch
from harness.runs.specs import AttackSpec
from harness.runs.summary import run_summary
from tests.functional.machine import PLUGINS, Machine, wait_until
from tests.functional.test_presets import add_preset

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


def test_a_tuning_keeps_the_preset_and_searches_the_rest(tuned: Machine) -> None:
    add_preset(tuned, "[presets.draws]\ntrials = 2\npause = 0")
    done = tuned.run(*COMMAND, *tuned.plugin(), "--preset", "--runs", "3", "--json")
    specs = _specs(tuned)
    assert {spec.params["pause"] for spec in specs} == {0} and len({spec.params["trials"] for spec in specs}) > 1
    assert all(setting["params"].keys() == {"trials"} for setting in json.loads(done.stdout)["settings"])
    assert "--preset" in next(line for line in done.stderr.splitlines() if line.startswith("best: "))


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


CRASHING = """
from harness import Attack, Field, Guesses, Params


class CrashingParams(Params):
    width: int = Field(1, ge=1, le=2, description="2 crashes on the fold with the token.")
    token: int = Field(0, description="Token at the beginning of the first prefix of a fold.")


class Crashing(Attack[CrashingParams]):
    name = "crashing"
    uses_target = False

    def run(self, context):
        if self.params.width == 2 and context.prefixes[0, 0] == self.params.token:
            raise ValueError("a crash")
        yield Guesses(context.ids, context.prefixes[:, : context.suffix_length], context.ids * 0.0)
"""


@pytest.mark.slow
def test_a_setting_with_a_crashed_fold_is_shown_as_incomplete_and_is_never_the_best(tuned: Machine) -> None:
    (tuned.folder / "crashing.py").write_text(CRASHING)
    round_ = str(tuned.folder / "round.toml")
    token = load_prefixes(load_round(f"{round_}:fold1of5"))[0, 0]
    options = ("--attacks", str(tuned.folder), "--set", f"token={token}", "--vary", "width=1,2", "--runs", "4")
    result = tuned.json("tune", "crashing", "--round", round_, *options)
    whole, crashed = sorted(result["settings"], key=lambda setting: setting["params"]["width"])
    assert result["best"] == {"width": 1} and whole["recall_at_cap"] is not None
    assert crashed["recall_at_cap"] is None
    assert [run["status"] for run in crashed["runs"]] == ["finished", "crashed"]
    rows = tuned.run("show", result["id"]).stdout.splitlines()
    (row,) = (row for row in rows if "crashed" in row)
    assert "1 of 2 folds; fold1of5 crashed (" in row and "a crash" in row and row.split()[2:4] == ["–", "–"]
    assert sum("folds" in row for row in rows) == 1


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


@pytest.mark.slow
def test_a_tuning_without_a_terminal_is_stopped_and_continued(tuned: Machine) -> None:
    assert "fold 9 of 5" in tuned.run(*COMMAND, *tuned.plugin(), "--fold", "fold9of5", "--detach", code=1).stderr
    assert not [*(tuned.runs.parent / "tunings").glob("*")]
    id_ = tuned.json(*COMMAND, *tuned.plugin(), "--set", "pause=0.3", "--runs", "4", "--detach")["id"]
    wait_until(lambda: len(tuned.folders()) >= 1)
    (listed,) = tuned.json("list", "tunings")["tunings"]
    assert (listed["id"], listed["state"]) == (id_, "running")
    assert f"another process continues {id_}" in tuned.run("resume", id_, code=1).stderr
    tuned.run("stop", id_)
    assert all(run_summary(folder).status.is_over for folder in tuned.folders())
    (listed,) = tuned.json("list", "tunings")["tunings"]
    assert listed["state"] == "not running" and listed["runs"] < 4
    tuned.run("resume", id_, "--runs", "3", "--detach")
    wait_until(lambda: tuned.json("list", "tunings")["tunings"][0]["state"] != "running")
    settings = tuned.json("show", id_)["settings"]
    assert sum(len(setting["runs"]) for setting in settings) == 3
    # One that is over stays as it is.
    tuned.run("stop", id_)


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


def test_an_unknown_tuning_is_refused(machine: Machine) -> None:
    assert "unknown run 'no-such'" in machine.run("resume", "no-such", code=2).stderr
    assert "nothing to tune" in machine.run("tune", "greedy", code=1).stderr
