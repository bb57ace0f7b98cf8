"""Runs that the screens of tests show, because most of them need no worker process."""

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from harness.runs.folder import RunFolder
from tests.functional.machine import EXAMPLES
from tests.records import Recorded, recorded_run

LENGTH = 8
AddRun = Callable[..., RunFolder]
"""The fixture `add_run`."""
DRAWS, CRASHED = "aaaa-draws-small", "bbbb-misbehaving-small"
"""Ids of the runs of the fixture `two_runs`."""


def live_run(folder: Path, id_: str, *, name: str = "draws", age: float = 0.0, **options: Any) -> Recorded:
    """Return a running attack on 64 examples, created `age` seconds ago; this process is its supervisor."""
    created_at = time.time() - age
    sizes = {"examples": EXAMPLES, "length": LENGTH}
    run = recorded_run(folder, id_=id_, name=name, created_at=created_at, pid=os.getpid(), **sizes, **options)
    run.event("phase", phase="running")
    return run


def stored_run(
    folder: Path, id_: str, solved: Iterable[int] = range(16), *, phase: str = "finished", **options: Any
) -> RunFolder:
    """Return a run that is over, with one guess per example. Those for `solved` are first and correct."""
    run = live_run(folder, id_, **options)
    run.folder.log.write_text("loading\nattacking\n")
    return run.finish(solved, phase=phase)


def add_guesses(run: Recorded, count: int) -> None:
    """Commit wrong guesses for random examples, in a new batch."""
    batch = run.batch(os.urandom(4).hex())
    run.guess(batch, [(int(example), False, 0.0) for example in np.random.default_rng().integers(0, EXAMPLES, count)])
