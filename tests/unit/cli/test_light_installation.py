"""Commands in an installation without extras: each names what it needs, and nothing of a run is created."""

import sys
from pathlib import Path

import pytest

from harness.core.extras import EXTRAS
from harness.demo import BASELINE_GUESSES
from harness.runs.folder import RunFolder, all_run_folders
from harness.tui import app as tui
from tests.functional.machine import kill_processes_that_name
from tests.unit.cli.command_line import CommandLine

INSTALL = "Install it from the clone: pip install -e '.[torch]'"


@pytest.fixture(autouse=True)
def without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    for modules in EXTRAS.values():
        for name in modules:
            monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize(
    ("arguments", "needed_by"),
    [
        (("run", "greedy", "--round", "demo"), "the attack greedy"),
        (("run", "greedy", "--round", "demo", "--dry-run"), "the attack greedy"),
        (("audit", "sequence", "--round", "demo"), "an audit of demo"),
        (("audit", "leakage", "--round", "demo", "--target", "demo-tiny"), "an audit of demo-tiny"),
        (("audit", "compare", "--round", "demo", "--target", "demo", "--target", "demo-tiny"), "an audit of demo-tiny"),
        (("doctor", "--bench"), "`harness doctor --bench`"),
    ],
)
def test_what_loads_a_model_names_the_extra(harness: CommandLine, arguments: tuple[str, ...], needed_by: str) -> None:
    done = harness(*arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err == f"harness: torch is not installed: {needed_by} needs it. {INSTALL}\n"
    assert all_run_folders() == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("tune", "baseline", "--round", "demo", "--runs", "2"),
            "optuna is not installed: `harness tune` needs it. Install it from the clone: pip install -e '.[tune]'",
        ),
        (
            ("run", "greedy", "--round", "demo", "--shards", "2", "--ray", "auto"),
            "ray is not installed: a cluster needs it. Install it from the clone: pip install -e '.[ray]', or use "
            "--ray none for one run after the other on this machine",
        ),
    ],
)
def test_other_extras_are_named_in_the_same_words(
    harness: CommandLine, arguments: tuple[str, ...], sentence: str
) -> None:
    done = harness(*arguments)
    assert (done.code, done.err) == (1, f"harness: {sentence}\n")


def test_an_import_that_no_check_foresaw_is_named_too(harness: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.cli.doctor.require_extra", lambda *_: None)
    monkeypatch.delitem(sys.modules, "harness.engine.speed", raising=False)
    done = harness("doctor", "--bench")
    assert (done.code, done.err) == (1, f"harness: torch is not installed: this command needs it. {INSTALL}\n")


def test_the_demo_replays_the_recorded_guesses(harness: CommandLine, home: Path) -> None:
    try:
        done = harness("demo", "--json")
    finally:
        kill_processes_that_name(str(home))
    summary = done.json
    assert (done.code, summary["status"]) == (0, "finished")
    assert done.err.startswith("torch is not installed, so this run replays recorded guesses of baseline.")
    spec = RunFolder(Path(summary["directory"])).attack_spec()
    assert (spec.attack.name, spec.target, spec.round.name) == ("replay", None, "demo")
    assert Path(summary["submission"]).read_bytes() == BASELINE_GUESSES.read_bytes()
    assert summary["recall_at_cap"] > 0.2


def test_the_screen_of_the_demo_shows_the_same_sentence(
    harness: CommandLine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str | None] = []
    monkeypatch.setattr("harness.cli.run.is_terminal", lambda: True)
    monkeypatch.setattr(tui, "show", lambda app: shown.append(app._notice))
    try:
        done = harness("demo")
    finally:
        kill_processes_that_name(str(home))
    assert shown == [done.err.strip()]


def test_doctor_reports_the_extras_and_succeeds(harness: CommandLine) -> None:
    done = harness("doctor", "--json")
    found = done.json["findings"]
    assert found["extras"]["value"] == "none (not installed: torch, gguf, tune, ray, mlflow)"
    assert "pip install -e '.[torch]'" in found["extras"]["advice"]
    assert not {"torch", "transformers", "safetensors"} & set(done.json["missing"])
