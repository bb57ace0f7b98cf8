"""Presets of a round: values of parameters that are used only if `--preset` asks for them."""

import pytest

from harness.core.rounds import load_round
from tests.functional.machine import Machine


def add_preset(machine: Machine, lines: str) -> None:
    """Add lines to the machine's round."""
    path = machine.folder / "round.toml"
    path.write_text(f"{path.read_text()}\n{lines}\n")


def test_a_preset_is_used_only_if_it_is_asked_for(machine: Machine) -> None:
    add_preset(machine, "[presets.draws]\ntrials = 2\npause = 0.001")

    def planned(*options: str) -> tuple[dict[str, object], str]:
        done = machine.run("run", "draws", *machine.plugin(), "--dry-run", *options)
        line = done.stdout.split("parameters ")[1].splitlines()[0]
        params = dict(value.split("=") for value in line.strip().split(", "))
        return {name: params[name] for name in ("trials", "pause")}, done.stderr

    params, said = planned()
    assert params == {"trials": "3", "pause": "0.05"}
    assert "The round's preset for draws takes less time: trials=2, pause=0.001. --preset uses it." in said
    assert planned("--preset") == ({"trials": "2", "pause": "0.001"}, "")
    assert planned("--preset", "--set", "trials=7") == ({"trials": "7", "pause": "0.001"}, "")
    params, said = planned("--set", "trials=7")
    assert params == {"trials": "7", "pause": "0.05"} and "takes less time: pause=0.001." in said
    assert planned("--set", "trials=7", "--set", "pause=0.001")[1] == ""


@pytest.mark.slow
def test_a_run_records_the_values_and_not_the_preset(machine: Machine) -> None:
    add_preset(machine, "[presets.draws]\ntrials = 2\npause = 0")
    summary = machine.attack("draws", "--preset")
    spec = machine.json("show", summary["id"])["spec"]
    assert (spec["params"]["trials"], spec["params"]["pause"]) == (2, 0.0)
    assert "presets" not in spec["round"]


@pytest.mark.slow
def test_a_changed_preset_does_not_prevent_a_resume(machine: Machine) -> None:
    folder = machine.detached("draws", "--set", "pause=0.5")
    machine.run("stop", folder.id)
    add_preset(machine, "[presets.draws]\ntrials = 2\npause = 0")
    assert machine.json("resume", folder.id)["status"] == "finished"


def test_an_attack_without_a_preset_is_refused(machine: Machine) -> None:
    done = machine.run("run", "draws", *machine.plugin(), "--preset", code=2)
    assert "round small has no preset for draws. Remove --preset." in done.stderr.replace("\n", " ")


def test_an_unknown_parameter_in_a_preset_is_named(machine: Machine) -> None:
    add_preset(machine, "[presets.draws]\ntrails = 2")
    done = machine.run("run", "draws", *machine.plugin(), "--preset", code=1)
    assert "round.toml: presets: draws: unknown parameter 'trails': did you mean trials?" in done.stderr
    assert machine.run("run", "draws", *machine.plugin(), "--dry-run").returncode == 0


def test_the_presets_of_the_demo_are_valid(machine: Machine) -> None:
    for attack, preset in load_round("demo").presets.items():
        params = machine.json("run", attack, "--round", "demo", "--preset", "--dry-run")["params"]
        assert {name: params[name] for name in preset} == preset
