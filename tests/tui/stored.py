"""Write runs directly to their directories, because most screen tests need no worker process."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from harness.runs.folder import RunFolder
from tests.functional.machine import EXAMPLES
from tests.unit.tui.recorded import Recorded, recorded_run

LENGTH = 8
DRAWS, CRASHED = "aaaa-draws-small", "bbbb-misbehaving-small"
"""Ids of the runs of the fixture `two_runs`."""


def live_run(folder: Path, id_: str, *, name: str = "draws") -> Recorded:
    """Return a running attack on 64 examples; this process is its supervisor."""
    run = recorded_run(folder, id_=id_, examples=EXAMPLES, length=LENGTH, pid=os.getpid())
    edit_spec(run.folder, name=name)
    run.event("phase", phase="running")
    return run


def stored_run(
    folder: Path,
    id_: str,
    solved: Iterable[int] = range(16),
    *,
    name: str = "draws",
    seed: int = 0,
    examples: int = EXAMPLES,
    phase: str = "finished",
    age: float = 0.0,
    round_name: str = "small",
) -> RunFolder:
    """Return a run that is over, with one guess per example. Those for `solved` are first and correct."""
    run = live_run(folder, id_, name=name)
    right = [example for example in solved if example < examples]
    order = right + [example for example in range(examples) if example not in right]
    rows = [(example, rank < len(right), 1.0 - rank / 100) for rank, example in enumerate(order)]
    batch = run.batch("0")
    run.guess(batch, rows)
    recall = len(right) / EXAMPLES
    with run.store.transaction():
        run.store.end_batch(*batch)
        run.store.add_ledger("end", 12.0)
        run.store.add_point(
            spent=3.0, guesses=examples, rows=examples, solved=len(right), wrong=examples - len(right), recall=recall
        )
    run.event("phase", phase=phase)
    run.store.close()
    edit_spec(run.folder, seed=seed, examples=examples, age=age, round_name=round_name)
    run.folder.log.write_text("loading\nattacking\n")
    return run.folder


def edit_spec(
    folder: RunFolder,
    *,
    name: str | None = None,
    seed: int = 0,
    examples: int = EXAMPLES,
    age: float = 0.0,
    round_name: str = "small",
) -> None:
    """Change the spec of a stored run; `age` is in seconds."""
    spec = json.loads(folder.spec_file.read_text())
    spec["attack"]["name"] = name or spec["attack"]["name"]
    spec["round"]["name"] = round_name
    spec |= {"seed": seed, "examples": examples, "created_at": spec["created_at"] - age}
    folder.spec_file.write_text(json.dumps(spec))


def add_guesses(run: Recorded, count: int) -> None:
    """Commit wrong guesses for random examples, in a new batch."""
    batch = run.batch(os.urandom(4).hex())
    run.guess(batch, [(int(example), False, 0.0) for example in np.random.default_rng().integers(0, EXAMPLES, count)])
