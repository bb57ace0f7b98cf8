"""Every built-in attack that is killed, or shared by two workers, ends with the submission of an undisturbed run."""

import json
from pathlib import Path

import numpy as np
import pytest

from harness.core.rounds import load_round
from harness.plugins.discovery import AttackFile
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from harness.runs.specs import AttackSpec
from harness.runs.summary import run_status
from tests.contract.attacks import BUILT_IN, fast_settings, write_short_demo
from tests.contract.execution import Killed, execute, new_run
from tests.functional.machine import Machine, kill_supervisor, kill_worker, wait_until

ROWS = 132
"""Examples of an execution in this process: two batches per pass."""

ROWS_OF_A_RUN = 320
"""Examples of a run with real processes: several batches of every attack."""

MECHANISMS = ("baseline", "two_step", "soft_prompt")
"""One attack for each way to resume: batches, stages over training rows, kept arrays."""


def _command(attack: AttackFile, folder: Path, rows: int, *, round_: str = "demo", threads: int = 1) -> list[str]:
    target = ["--target", "demo-tiny", "--threads", str(threads)] if attack.uses_target else []
    settings = fast_settings(attack.name, folder, rows, load_round(round_).suffix_length)
    return ["run", attack.name, "--round", round_, "--limit", str(rows), *target, *settings]


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(attack, marks=() if attack.name in MECHANISMS else pytest.mark.slow, id=attack.name)
        for attack in BUILT_IN
    ],
)
def test_an_attack_killed_between_frames_ends_with_the_same_bytes(attack: AttackFile, tmp_path: Path) -> None:
    command = _command(attack, tmp_path, ROWS, round_=str(write_short_demo(tmp_path)))
    if attack.name == "two_step":
        command += ["--set", "few_trials=1"]  # A first ranker is trained, whose examples are a stage of their own.
    planned = Machine(tmp_path).run(*command, "--dry-run", "--json")
    spec = AttackSpec.model_validate(json.loads(planned.stdout)["spec"])
    reference = new_run(tmp_path / "reference", spec, attack.path)
    frames = execute(reference)
    killed = new_run(tmp_path / "killed", spec, attack.path)
    for _ in range(2 if attack.name in MECHANISMS else 1):
        # Completed batches are not repeated, so the second kill is in a later part of the run.
        with pytest.raises(Killed):
            execute(killed, max_frames=max(1, int(frames * 0.4)))
    execute(killed)
    assert killed.submission.read_bytes() == reference.submission.read_bytes()
    assert json.loads(killed.scorecard.read_bytes()) == json.loads(reference.scorecard.read_bytes())
    ids = np.loadtxt(killed.submission, delimiter=",", skiprows=1, usecols=0, quotechar='"', dtype=int)
    assert set(ids) == set(range(ROWS))


def _batches_done(folder: RunFolder) -> int:
    with RunReader(folder.store) as reader:
        return len(reader.done_keys())


@pytest.mark.slow
@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(attack, id=attack.name, marks=() if attack.name == MECHANISMS[1] else pytest.mark.long)
        for attack in BUILT_IN
        if attack.name in MECHANISMS
    ],
)
def test_a_run_whose_supervisor_is_killed_ends_with_the_same_bytes(attack: AttackFile, tmp_path: Path) -> None:
    machine, command = Machine(tmp_path), _command(attack, tmp_path, ROWS_OF_A_RUN)
    spec = AttackSpec.model_validate(json.loads(machine.run(*command, "--dry-run", "--json").stdout)["spec"])
    folder = RunFolder(Path(machine.json(*command, "--detach")["directory"]))
    wait_until(lambda: _batches_done(folder) >= 2)
    kill_supervisor(folder)
    wait_until(lambda: run_status(folder).is_over)
    assert str(run_status(folder)) == "lost"
    assert machine.json("resume", folder.id)["status"] == "finished"
    reference = new_run(tmp_path / "reference", spec, attack.path)
    execute(reference)
    assert folder.submission.read_bytes() == reference.submission.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attack", "victim"),
    [
        pytest.param(attack, place % 2, id=attack.name, marks=() if attack.name == MECHANISMS[0] else pytest.mark.long)
        for place, attack in enumerate(BUILT_IN)
    ],
)
def test_two_workers_one_of_them_killed_give_the_same_bytes(attack: AttackFile, victim: int, tmp_path: Path) -> None:
    machine, rows = Machine(tmp_path), ROWS_OF_A_RUN
    spec = AttackSpec.model_validate(
        json.loads(machine.run(*_command(attack, tmp_path, rows), "--dry-run", "--json").stdout)["spec"]
    )
    # The two workers divide the threads, so that each has one, as the reference.
    command = [*_command(attack, tmp_path, rows, threads=2), "--devices", "cpu:2"]
    folder = RunFolder(Path(machine.json(*command, "--detach")["directory"]))
    wait_until(lambda: _batches_done(folder) >= 1 or run_status(folder).is_over)
    # A fast attack may be over before it is killed.
    kill_worker(folder, victim)
    wait_until(lambda: run_status(folder).is_over)
    assert str(run_status(folder)) == "finished"
    reference = new_run(tmp_path / "reference", spec, attack.path)
    execute(reference)
    assert folder.submission.read_bytes() == reference.submission.read_bytes()
