"""Every shipped attack, killed in the middle without a word, goes on to the submission of an uninterrupted run."""

import time
from pathlib import Path

import pytest

from harness.plugins.discovery import AttackFile
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from harness.runs.summary import run_status
from tests.contract.attacks import SHIPPED, least_settings
from tests.functional.machine import Machine, kill_supervisor, wait_until

ROWS = 192
"""Examples of a run: several batches of every attack."""


def _batches_done(folder: RunFolder) -> int:
    with RunReader(folder.store) as reader:
        return len(reader.done_keys())


@pytest.mark.parametrize("attack", SHIPPED, ids=lambda attack: attack.name)
def test_a_killed_run_ends_with_the_bytes_of_an_uninterrupted_one(attack: AttackFile, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    command = ["run", attack.name, "--round", "demo", "--limit", str(ROWS)]
    command += least_settings(attack.name, tmp_path, ROWS)
    machine.run(*command)
    (whole,) = machine.folders()
    machine.run(*command, "--detach")
    (folder,) = [folder for folder in machine.folders() if folder.id != whole.id]
    kills = 0
    for batches in (1, 3):
        wait_until(lambda n=batches: run_status(folder).is_over or _batches_done(folder) >= n)
        time.sleep(0.05)
        if run_status(folder).is_over:
            break
        kill_supervisor(folder)
        kills += 1
        wait_until(lambda: run_status(folder).is_over)
        machine.run("resume", folder.id)
    assert str(run_status(folder)) == "finished"
    assert folder.submission.read_bytes() == whole.submission.read_bytes()
    # What is over before anybody can kill it has nothing to resume.
    assert kills or not attack.uses_target
