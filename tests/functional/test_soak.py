"""The soak test itself works: it kills a run, checks its invariants and resumes it."""

from dataclasses import replace

import pytest

from tests.functional.machine import Machine
from tests.soak.__main__ import steady
from tests.soak.runner import Runner


@pytest.mark.slow
def test_a_run_is_killed_and_checked(machine: Machine) -> None:
    real = replace(machine, in_process=False)
    runner = Runner(real, steady(real, max_delay=0.5), kills=2, seed="0", is_cancelled=lambda: False)
    runner.run()
    assert runner.counts.kills.total() == 2
    assert runner.counts.finished >= 1 and runner.counts.acknowledged > 0
