"""The context of an attack: stages that resume, arrays that are kept, and the order of guesses."""

from pathlib import Path

import numpy as np
import pytest

from harness.core.submission_reader import SubmissionRules, read_submission
from harness.runs.reader import RunReader
from tests.functional.machine import Machine, kill_supervisor, wait_until

RULES = SubmissionRules(64, 8, 50257)


def expected_rows(machine: Machine) -> tuple[np.ndarray, np.ndarray]:
    """Return the submission of `plugins/stages.py`: prefixes plus the sum of all training suffixes."""
    shift = int(np.load(machine.folder / "train_suffix-64.npy").astype(np.int64).sum())
    prefixes = np.load(machine.folder / "prefix-64.npy").astype(np.int64)
    return np.arange(64), (prefixes + shift) % 50257


def test_stages_pass_results_and_the_final_order_is_submitted(machine: Machine) -> None:
    summary = machine.attack("stages")
    submitted = read_submission(Path(summary["submission"]), RULES)
    ids, suffixes = expected_rows(machine)
    assert summary["status"] == "finished"
    assert (submitted.ids == ids).all()
    assert (submitted.suffixes == suffixes).all()


@pytest.mark.parametrize("announces", [True, False])
def test_the_eta_includes_announced_stages(announces: bool, machine: Machine) -> None:
    gate = machine.folder / "gate"
    gate.mkdir()
    folder = machine.detached("stages", "--set", f"gate={gate}", "--set", f"announces={announces}")
    waiting = wait_until(lambda: (summary := machine.summary(folder))["progress"] and summary)
    announced = [("train", 64.0, 16.0), ("guess", 64.0, 0.0)] if announces else [("train", 64.0, 16.0)]
    assert [(stage["stage"], stage["announced"], stage["done"]) for stage in waiting["stages"]] == announced
    assert waiting["progress"] == (16 / (64 + 3 * 64) if announces else 0.25)
    assert waiting["eta_basis"] == ("estimated" if announces else "stage")
    # A draw of the second stage counts three times. The attack waits, and its ETA counts down to a tenth.
    left = waiting["stages"][0]["seconds"] * (15 if announces else 3)
    assert 0.0999 * left < waiting["eta_s"] < 1.0001 * left
    shown = machine.run("show", folder.id).stdout
    assert ("ETA about" in shown) is announces and ("for this stage" in shown) is not announces
    assert ("0 of 2 done, next train (25%)" in shown) is announces
    (gate / "open").touch()
    ended = wait_until(lambda: (summary := machine.summary(folder))["status"] == "finished" and summary)
    assert (ended["progress"], ended["eta_s"], ended["eta_basis"]) == (1.0, None, None)
    assert [stage["stage"] for stage in ended["stages"]] == ["train", "guess"]


@pytest.mark.slow
def test_a_run_killed_in_each_stage_ends_with_the_same_rows(machine: Machine) -> None:
    folder = machine.detached("stages", "--set", "pause=0.2")

    def batches_done() -> int:
        with RunReader(folder.store) as reader:
            return len(reader.done_keys())

    for reached in (2, 5):
        wait_until(lambda reached=reached: batches_done() >= reached)
        kill_supervisor(folder)
        wait_until(lambda: machine.summary(folder)["status"] == "lost")
        machine.run("resume", folder.id, "--detach")
    wait_until(lambda: machine.summary(folder)["status"] == "finished")
    submitted = read_submission(folder.submission, RULES)
    ids, suffixes = expected_rows(machine)
    assert (submitted.ids == ids).all()
    assert (submitted.suffixes == suffixes).all()


@pytest.mark.slow
def test_the_running_score_of_a_resumed_run_includes_earlier_guesses(machine: Machine) -> None:
    folder = machine.detached("draws", "--set", "pause=0.3")

    def rows_of_last_point() -> int:
        with RunReader(folder.store) as reader:
            points = reader.points()
        return points[-1].rows if points else 0

    wait_until(lambda: rows_of_last_point() >= 16)
    before = rows_of_last_point()
    kill_supervisor(folder)
    machine.run("resume", folder.id, "--detach")
    wait_until(lambda: machine.summary(folder)["status"] == "finished")
    with RunReader(folder.store) as reader:
        rows = [point.rows for point in reader.points()]
    assert rows == sorted(rows) and rows[-1] >= before


def test_a_fold_of_the_training_rows_is_a_round(machine: Machine) -> None:
    path = machine.folder / "round.toml"
    path.write_text(path.read_text().replace('clusters = "none"', 'clusters = "computed"'))
    summary = machine.attack("draws", round_="round.toml:fold1of4")
    assert summary["status"] == "finished"
    assert summary["round"] == "small:fold1of4"
    assert summary["rows"] == 32  # two suffixes per example in a fold of 16
