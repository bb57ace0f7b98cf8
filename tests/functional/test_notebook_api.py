"""`harness.run` and what follows it: real supervised runs, started from Python."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

import harness
from tests.functional.machine import PLUGINS, Machine, wait_until, write_round
from tests.pictures.notebooks import NOTEBOOKS, code_sha256, executed


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine whose environment is that of this process."""
    write_round(tmp_path)
    made = Machine(tmp_path)
    with mock.patch.dict(os.environ, made.env()):
        yield made


def options(machine: Machine) -> dict[str, object]:
    return {"round": machine.folder / "round.toml", "attacks": PLUGINS, "progress": False}


def test_a_run_from_python_is_a_run_of_the_command_line(machine: Machine) -> None:
    run = harness.run("draws", params={"pause": 0}, **options(machine), seed=7, limit=32, budget="50s", group="mine")
    shown = machine.json("show", run.id)
    assert (shown["status"], shown["parent"], shown["budget_s"]) == ("finished", "mine", 50.0)
    assert (run.spec.seed, run.summary.is_partial) == (7, True)
    assert run.scorecard["recall_at_cap"] == run.score().recall == shown["recall_at_cap"]
    scored = harness.score(run.directory / "submission.csv", answers=machine.folder / "answer-64.npy")
    assert scored.solved == run.score().solved
    assert json.loads(machine.run("score", run.id, "--json").stdout)["solved"] == scored.solved


@pytest.mark.slow
def test_a_run_can_be_left_stopped_and_resumed(machine: Machine) -> None:
    run = harness.run("patient", **options(machine), wait=False)
    wait_until(lambda: str(run.status) == "running")
    assert not run.status.is_over
    assert str(run.stop().status) == "stopped"
    assert str(run.resume(wait=False, progress=False).status) != "stopped"
    wait_until(lambda: str(run.status) == "running")
    run.stop()


def test_errors_are_the_sentences_of_the_command_line(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
        ({"attack": "absent"}, "unknown attack 'absent'"),
        ({"attack": "--help"}, "unknown attack '--help'"),
        ({"budget": "soon"}, "'soon' is not a duration"),
        ({"attack": "greedy", "device": "tpu"}, "unknown device 'tpu'"),
        ({"params": {"absent": 1}}, "absent"),
        ({"params": {"absent": object()}}, "params: .* is not JSON serializable"),
        ({"round": "dem"}, "did you mean demo"),
    ]
    for changed, sentence in cases:
        with pytest.raises(harness.HarnessError, match=sentence):
            harness.run(**({"attack": "draws", **options(machine)} | changed))
    with pytest.raises(harness.HarnessError, match="'soon' is not"):
        harness.run("draws", **{**options(machine), "budget": "soon", "progress": True})
    assert machine.folders() == []
    # The error is the exception alone.
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_a_run_can_be_started_from_a_thread(machine: Machine) -> None:
    """Web servers and some notebooks call from threads other than the main one."""
    found: list[harness.Run] = []
    thread = threading.Thread(
        target=lambda: found.append(harness.run("draws", params={"pause": 0}, **options(machine)))
    )
    thread.start()
    thread.join()
    assert str(found[0].status) == "finished"


@pytest.mark.parametrize("path", NOTEBOOKS.values(), ids=list(NOTEBOOKS))
def test_a_notebook_of_the_documentation_has_the_outputs_of_its_code(path: Path) -> None:
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    assert notebook.metadata.get("outputs_of_sha256") == code_sha256(notebook), f"run make pictures: {path.name}"
    text = path.read_text()
    assert len(text) < 400_000 and "image/png" in text
    assert not any(word in text for word in ("Traceback", "/tmp/", "/home/", "/root/"))


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS.values(), ids=list(NOTEBOOKS))
def test_a_notebook_of_the_documentation_runs(path: Path, tmp_path: Path) -> None:
    """The kernel has a running event loop, as in Jupyter."""
    with mock.patch.dict(os.environ, Machine(tmp_path).env()):
        notebook = executed(path, tmp_path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    kinds = {kind for cell in code for output in cell.outputs for kind in output.get("data", ())}
    assert {"text/html", "image/png"} <= kinds
