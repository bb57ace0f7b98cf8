"""What the supervisor takes from a worker, and how much of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.frames import Frame
from harness.runs.reader import RunReader
from harness.runs.store import RunStore
from harness.supervisor.guess_intake import GuessIntake
from harness.supervisor.intake import Intake, IntakeFault

MEBIBYTE = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "run.db")


@pytest.fixture
def intake(store: RunStore) -> Intake:
    nothing: Any = None
    return GuessIntake(store, nothing, nothing, guesses=0)


def _kept(name: str, value: float) -> Frame:
    return Frame("kept", 1, {"data": np.array([value])}, {"name": name, "shape": "1"})


def test_a_result_that_is_kept_at_every_step_counts_once(store: RunStore, intake: Intake, tmp_path: Path) -> None:
    for step in range(300):
        with store.transaction():
            intake.take(_kept("tuning", step), size=5 * MEBIBYTE)
    with RunReader(tmp_path / "run.db") as reader:
        assert {name: array.tolist() for name, array in reader.kept().items()} == {"tuning": [299.0]}


def test_more_than_a_run_may_keep_at_a_time_is_refused(store: RunStore, intake: Intake) -> None:
    with store.transaction():
        for number in range(4):
            intake.take(_kept(f"part {number}", number), size=256 * MEBIBYTE)
        with pytest.raises(IntakeFault, match="more than 1024 MiB of kept"):
            intake.take(_kept("part 4", 4), size=MEBIBYTE)
