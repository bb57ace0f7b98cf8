"""The soak test itself works: it kills a run, checks its invariants and resumes it."""

from pathlib import Path

import pytest

from tests.functional.machine import Machine
from tests.soak.__main__ import ATTACKS, RECORDER
from tests.soak.runner import Runner, Workload


@pytest.mark.slow
def test_a_run_is_killed_and_checked(machine: Machine) -> None:
    command = ("steady", "--attacks", str(ATTACKS), "--round", str(machine.folder / "round.toml"), *RECORDER)
    workload = Workload(command, ("--set", "pause=0.1"), ("--set", "pause=0"), max_delay=0.5)
    runner = Runner(
        Machine(Path(machine.folder), in_process=False), workload, kills=2, seed="0", is_cancelled=lambda: False
    )
    runner.run()
    assert runner.counts.kills.total() == 2
    assert runner.counts.finished >= 1 and runner.counts.acknowledged > 0
