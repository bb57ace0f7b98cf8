"""Write the record of a run row by row, like its supervisor."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np

from harness.core.examples import load_answers
from harness.core.files import try_lock
from harness.core.guesses import Guesses
from harness.core.paths import runs_home
from harness.core.rounds import load_round
from harness.core.run_request import RunRequest
from harness.runs.folder import RunFolder
from harness.runs.specs import AttackRecord, AttackSpec
from harness.runs.status import Process, Status
from harness.runs.store import RunStore
from tests.functional.machine import write_round

EXAMPLES, LENGTH = 16, 4


@dataclass
class RecordedJob:
    """A run or an audit, and methods that extend its record."""

    folder: RunFolder
    store: RunStore
    lock: IO[bytes] | None = field(default=None, kw_only=True)

    def batch(self, key: str, weight: float = 1.0) -> tuple[int, int]:
        """Begin a new attempt of the batch `key`, and return its batch and attempt numbers."""
        with self.store.transaction():
            return self.store.begin_batch(key, weight)

    def event(self, name: str, **detail: object) -> None:
        """Commit an event. A final phase also releases the run's lock."""
        with self.store.transaction():
            self.store.add_event(name, **detail)
        if name == "phase" and Status(str(detail["phase"])).is_over:
            self.release()

    def supervised_by(self, pid: int) -> None:
        """Record the process `pid` as the supervisor. If it is this process, it takes the run's lock."""
        self.event("supervisor", **Process.of(pid).as_record())
        self.release()
        if pid == os.getpid():
            self.lock = try_lock(self.folder.lock)

    def release(self) -> None:
        """Release the run's lock, as if the supervisor had been killed."""
        if self.lock is not None:
            self.lock.close()
            self.lock = None


@dataclass
class Recorded(RecordedJob):
    """A run of an attack, and methods that extend its record."""

    answers: np.ndarray

    def guess(
        self, batch: tuple[int, int], rows: Sequence[tuple[int, bool, float]], trials: Sequence[int] | None = None
    ) -> None:
        """Commit guesses. Each row is the example, whether the guess is correct, and the score."""
        ids = np.array([example for example, _, _ in rows])
        suffixes = self.answers[ids].copy()
        suffixes[[not is_correct for _, is_correct, _ in rows], 0] ^= 1
        with self.store.transaction():
            scores = np.array([score for _, _, score in rows], np.float64)
            guesses = Guesses(ids, suffixes, scores, trials)
            self.store.add_rows(*batch, "guess", guesses.columns())


def recorded_run(
    folder: Path,
    *,
    per_example: int = 1,
    is_blind: bool = False,
    id_: str = "abcd-some",
    pid: int | None = None,
    examples: int = EXAMPLES,
    length: int = LENGTH,
    created_at: float | None = None,
) -> Recorded:
    """Create a run of a small round without guesses. `pid` is the process of its supervisor."""
    write_round(folder, "small.toml", examples=examples, length=length)
    if is_blind:
        text = (folder / "small.toml").read_text()
        lines = [line for line in text.splitlines() if not line.startswith("answer_file")]
        (folder / "small.toml").write_text("\n".join(lines) + "\n")
    round_ = load_round(str(folder / "small.toml"))
    answers = np.load(folder / f"answer-{examples}.npy")
    known = load_answers(round_)
    assert is_blind or (known is not None and (known == answers).all())
    run = RunFolder(runs_home() / id_)
    run.path.mkdir(parents=True)
    spec = AttackSpec(
        id=id_,
        created_at=time.time() if created_at is None else created_at,
        attack=AttackRecord(
            name="some",
            summary="",
            origin="test",
            file="some.py",
            sha256="",
            reference="",
            control=False,
            uses_target=False,
            reference_model="",
            requires=(),
            models=(),
            guesses_per_example=per_example,
        ),
        request=RunRequest(attack="some", round=str(round_.source), budget="60"),
        params={},
        changed=(),
        paths={},
        seed=0,
        examples=examples,
        round_examples=examples,
        round=round_,
        data_sha256={},
        target=None,
        reference=None,
        budget=60.0,
        versions={},
        hardware={},
    )
    run.spec_file.write_text(spec.model_dump_json())
    os.utime(run.spec_file, (time.time() - 60, time.time() - 60))
    recorded = Recorded(run, RunStore(run.store, spec.stored_tables), answers)
    if pid is not None:
        recorded.supervised_by(pid)
    return recorded


def finished_run(home: Path, id_: str, *, created_at: float = 1e9) -> RunFolder:
    """Record a finished run of a small round, half of whose guesses are correct."""
    run = recorded_run(home, id_=id_, pid=os.getpid(), created_at=created_at)
    batch = run.batch("0")
    run.guess(batch, [(example, example % 2 == 0, -float(example)) for example in range(EXAMPLES)])
    with run.store.transaction():
        run.store.end_batch(*batch)
        run.store.add_ledger("end", 12.0)
        run.store.add_point(spent=3.0, guesses=EXAMPLES, rows=EXAMPLES, solved=8, wrong=8, recall=0.5)
        run.store.add_event("phase", phase="finished")
    run.store.close()
    return run.folder
