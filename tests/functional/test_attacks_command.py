"""`harness list attacks`: output and exit codes."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from harness.analysis.replay import past_guesses
from harness.runs.guess_reader import GuessReader
from tests.functional.command import run_command
from tests.functional.machine import ROOT, Machine, homes

HOSTILE = '''"""A \x1b[31mred\x1b[0m \u202eline."""
from harness import Attack, Field, Params
class P(Params):
    trials: int = Field(2, ge=1, description="Draws \x1b]0;title\x07.")
class A(Attack[P]):
    name = "hostile"
    reference = "[bold]nobody[/bold]"
    control = True
    guesses_per_example = 0
    def run(self, context): yield from ()
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "hostile.py").write_text(HOSTILE)
    (tmp_path / "theirs" / "broken.py").write_text("class A(:\n")
    return tmp_path


def _harness(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    (folder / "state").mkdir(exist_ok=True)
    return run_command(arguments, folder=folder, environment={**os.environ, **homes(folder), "COLUMNS": "100"})


def test_attacks_lists_all_attacks_and_their_errors(folder: Path) -> None:
    done = _harness(folder, "list", "attacks", "--attacks", "theirs")
    assert done.returncode == 0 and done.stderr == ""
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    built_in = {path.stem for path in (ROOT / "attacks").glob("[!_]*.py")}
    assert set(lines) == {"broken", "hostile"} | built_in
    assert lines["lookup"].split()[:3] == ["lookup", "(control)", "built-in"]
    assert "built-in" in lines["baseline"] and "the challenge's own baseline." in lines["baseline"]
    assert f"broken: {folder}/theirs/broken.py: line 1: invalid Python (invalid syntax)." in lines["broken"]
    assert lines["hostile"].endswith("A �[31mred�[0m �line.")


def test_attacks_show_prints_parameters_and_reference(folder: Path) -> None:
    done = _harness(folder, "show", "baseline")
    assert done.returncode == 0, done.stderr
    assert "Top-k sampling ranked by mean token loss" in done.stdout
    assert "simple_baseline.py" in done.stdout
    assert "whole number, at least 1, default 100. Suffixes sampled per prefix." in done.stdout
    assert "official or corrected, default official." in done.stdout
    replay = _harness(folder, "show", "replay").stdout
    assert "does not use a target" in replay and "path, required." in replay


def test_attacks_show_prints_json(folder: Path) -> None:
    shown = json.loads(_harness(folder, "show", "baseline", "--json").stdout)
    assert shown["parameters"][0] == {
        "name": "trials",
        "type": "whole number",
        "default": "100",
        "bounds": ["at least 1"],
        "description": "Suffixes sampled per prefix.",
    }
    assert shown["schema"]["properties"]["trials"]["minimum"] == 1


def test_a_hostile_plugin_prints_no_control_characters(folder: Path) -> None:
    shown = _harness(folder, "show", "hostile", "--attacks", "theirs")
    assert shown.returncode == 0, shown.stderr
    assert "[bold]nobody[/bold]" in shown.stdout
    assert "control, may not be submitted, any number of guesses per example" in shown.stdout
    assert all(character.isprintable() or character == "\n" for character in shown.stdout)


def test_a_broken_or_unknown_attack_is_refused(folder: Path) -> None:
    broken = _harness(folder, "show", "broken", "--attacks", "theirs")
    assert (broken.returncode, broken.stdout) == (1, "")
    assert broken.stderr == f"harness: {folder}/theirs/broken.py: line 1: invalid Python (invalid syntax).\n"
    unknown = _harness(folder, "show", "basline")
    assert unknown.returncode == 2
    assert unknown.stderr == "harness: unknown name 'basline': did you mean baseline or sampling?\n"


def test_a_new_attack_is_not_overwritten(folder: Path) -> None:
    done = _harness(folder, "new", "attack", "my_idea_2")
    assert (done.returncode, done.stdout) == (0, "attacks/my_idea_2.py\n")
    assert done.stderr == "next: harness run my_idea_2 --round demo\n"
    shown = _harness(folder, "show", "my_idea_2")
    assert shown.returncode == 0 and "number, more than 0, default 0.5" in shown.stdout
    (folder / "attacks" / "my_idea_2.py").write_text("mine")
    again = _harness(folder, "new", "attack", "my_idea_2")
    assert again.returncode == 1 and "already exists" in again.stderr
    assert (folder / "attacks" / "my_idea_2.py").read_text() == "mine"


@pytest.mark.slow
def test_a_new_attack_reports_its_trials(machine: Machine) -> None:
    machine.run("new", "attack", "mine", "--dir", "mine")
    machine.run("run", "mine", "--attacks", "mine", "--round", "demo", "--limit", "8", "--set", "trials=2")
    (folder,) = machine.folders()
    spec = folder.attack_spec()
    with GuessReader.of_run(folder, spec) as reader:
        assert past_guesses(spec, reader).trials == (1, 2)


def test_a_new_attack_can_be_in_another_directory(folder: Path) -> None:
    done = _harness(folder, "new", "attack", "none", "--dir", "deep/er")
    assert done.stdout == "deep/er/none.py\n"
    assert done.stderr == "next: harness run none --round demo --attacks deep/er\n"
    assert _harness(folder, "show", "none", "--attacks", "deep/er").returncode == 0


@pytest.mark.parametrize("name", ["Upper", "with-dash", "../escape", "", "1st", "a" * 65])
def test_an_invalid_attack_name_is_refused(folder: Path, name: str) -> None:
    done = _harness(folder, "new", "attack", name)
    assert done.returncode == 2 and "is not a valid name" in done.stderr
    assert not (folder / "attacks").exists()


def test_an_option_of_a_command_before_its_name_is_a_usage_error(folder: Path) -> None:
    done = _harness(folder, "list", "--json", "attacks")
    assert done.returncode == 2 and "unknown option '--json'" in done.stderr
