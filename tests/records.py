"""The record of a run or an audit, written row by row like its supervisor does, without starting a process."""

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from harness.core.audit import FIGURES
from harness.core.examples import load_answers
from harness.core.files import try_lock
from harness.core.guesses import Guesses
from harness.core.paths import runs_home
from harness.core.protocol import FINDINGS
from harness.core.rounds import load_round
from harness.core.rows import Kind, table
from harness.core.run_request import RunRequest
from harness.core.spec import TargetRecord
from harness.runs.folder import RunFolder
from harness.runs.specs import AttackRecord, AttackSpec, AuditSpec
from harness.runs.status import Process, Status
from harness.runs.store import RunStore
from harness.sweeps.tuning import Tuning
from tests.functional.machine import write_round

EXAMPLES, LENGTH = 16, 4
REPLIES = table("reply", item=Kind.INTEGER, share=Kind.REAL, each=Kind.REALS, reply=Kind.TEXT)
COUNTS = table("counts", item=Kind.INTEGER)
TABLES = (REPLIES, COUNTS, FIGURES)
MODEL = TargetRecord(
    id="demo",
    revision="main",
    commit=None,
    path=Path("/nowhere"),
    weights_sha256="ab" * 32,
    bytes=1,
    device="cpu",
    dtype="float32",
    threads=1,
)


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

    def finish(
        self, solved: Iterable[int], *, phase: str = "finished", spent: float = 3.0, elapsed: float = 12.0
    ) -> RunFolder:
        """Record a guess per example, those for `solved` first and correct, and the end of the run."""
        spec = self.folder.attack_spec()
        right = [example for example in solved if example < spec.examples]
        order = right + [example for example in range(spec.examples) if example not in right]
        batch = self.batch("guess/0/0")
        self.guess(batch, [(example, rank < len(right), 1.0 - rank / 100) for rank, example in enumerate(order)])
        score = (len(right), spec.examples - len(right), len(right) / spec.examples)
        correct, wrong, recall = (None, None, None) if spec.round.is_blind else score
        with self.store.transaction():
            self.store.end_batch(*batch)
            self.store.add_ledger("end", elapsed)
            self.store.add_point(
                spent=spent, guesses=spec.examples, rows=spec.examples, solved=correct, wrong=wrong, recall=recall
            )
        self.event("phase", phase=phase, reason="")
        self.store.close()
        return self.folder


@dataclass
class RecordedAudit(RecordedJob):
    """An audit, and methods that extend its record."""

    def end(self, batch: tuple[int, int]) -> None:
        """End a batch."""
        with self.store.transaction():
            self.store.end_batch(*batch)

    def plan(self, stage: str, weight: float) -> None:
        """Announce a stage and its weight."""
        with self.store.transaction():
            self.store.add_plan(stage, weight)

    def replies(self, batch: tuple[int, int], texts: Sequence[str], *, first: int = 0) -> None:
        """Commit a row per text."""
        items = np.arange(first, first + len(texts))
        columns = {"item": items, "share": items / 8, "each": np.full((len(texts), 2), np.nan), "reply": list(texts)}
        with self.store.transaction():
            self.store.add_rows(*batch, "audit_reply", columns)

    def figure(
        self,
        batch: tuple[int, int],
        name: str,
        value: float,
        *,
        low: float = np.nan,
        high: float = np.nan,
        of: int = 0,
    ) -> None:
        """Commit the current value of a figure."""
        columns: Mapping[str, Any] = {
            "name": [name],
            "value": np.array([value]),
            "low": np.array([low]),
            "high": np.array([high]),
            "of": np.array([of]),
        }
        with self.store.transaction():
            self.store.add_rows(*batch, "audit_figure", columns)

    def findings(self, findings: Mapping[str, Any]) -> None:
        """Commit the findings so far."""
        content = json.dumps({**findings, "at": time.time()}).encode()
        with self.store.transaction():
            self.store.add_kept(FINDINGS, np.frombuffer(content, np.uint8))

    def spent(self, seconds: float, *, entry: str = "tick") -> None:
        """Commit an entry of the ledger."""
        with self.store.transaction():
            self.store.add_ledger(entry, seconds)


def create_record(folder: RunFolder, spec: AttackSpec | AuditSpec) -> RunStore:
    """Create the directory of a run or an audit that started a minute ago, and return its empty store."""
    folder.path.mkdir(parents=True)
    folder.spec_file.write_text(spec.model_dump_json())
    os.utime(folder.spec_file, (time.time() - 60, time.time() - 60))
    return RunStore(folder.store, spec.stored_tables)


def change_spec(folder: RunFolder, **changes: Any) -> None:
    """Change values of a stored spec; those of `attack` and `round` one by one."""
    spec = json.loads(folder.spec_file.read_text())
    for part in changes.keys() & {"attack", "round"}:
        changes[part] = spec[part] | changes[part]
    folder.spec_file.write_text(json.dumps(spec | changes))


def recorded_run(
    folder: Path,
    *,
    per_example: int = 1,
    is_blind: bool = False,
    id_: str = "abcd-some",
    name: str = "some",
    pid: int | None = None,
    examples: int = EXAMPLES,
    length: int = LENGTH,
    limit: int | None = None,
    seed: int = 0,
    round_name: str = "small",
    created_at: float | None = None,
) -> Recorded:
    """Create a run of a small round, or of its first `limit` examples, without guesses.

    `pid` is the process of its supervisor.
    """
    write_round(folder, "small.toml", examples=examples, length=length)
    if is_blind:
        text = (folder / "small.toml").read_text()
        lines = [line for line in text.splitlines() if not line.startswith("answer_file")]
        (folder / "small.toml").write_text("\n".join(lines) + "\n")
    round_ = load_round(str(folder / "small.toml"))
    answers = np.load(folder / f"answer-{examples}.npy")
    known = load_answers(round_)
    assert is_blind or (known is not None and (known == answers).all())
    spec = AttackSpec(
        id=id_,
        created_at=time.time() if created_at is None else created_at,
        attack=AttackRecord(
            name=name,
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
        request=RunRequest(attack=name, round=str(round_.source), budget="60"),
        params={},
        changed=(),
        paths={},
        seed=seed,
        examples=limit or examples,
        round_examples=examples,
        round=round_.model_copy(update={"name": round_name}),
        data_sha256={},
        target=None,
        reference=None,
        budget=60.0,
        versions={},
        hardware={},
    )
    run = RunFolder(runs_home() / id_)
    recorded = Recorded(run, create_record(run, spec), answers)
    if pid is not None:
        recorded.supervised_by(pid)
    return recorded


def finished_run(home: Path, id_: str, *, created_at: float = 1e9) -> RunFolder:
    """Record a finished run of a small round, half of whose guesses are correct."""
    return recorded_run(home, id_=id_, pid=os.getpid(), created_at=created_at).finish(range(0, EXAMPLES, 2))


def audit_spec(**values: Any) -> AuditSpec:
    """Return the spec of an audit with typical values, except for `values`."""
    fields: dict[str, Any] = {
        "id": "abcd-demo",
        "created_at": 1_700_000_000.0,
        "audit": "sequence",
        "subject": "corpus",
        "seed": 0,
        "budget": 60.0,
        "params": {},
        "paths": {},
        "versions": {},
        "hardware": {},
        "tables": (),
        "inputs_sha256": "cd" * 32,
        "models": (MODEL,),
    }
    return AuditSpec(**fields | values)


def recorded_audit(
    *,
    id_: str = "abcd-sequence-corpus",
    subject: str = "corpus.txt",
    created_at: float | None = None,
    pid: int | None = None,
    tables: Sequence[Any] = TABLES,
) -> RecordedAudit:
    """Create an audit without rows. `pid` is the process of its supervisor."""
    folder = RunFolder(runs_home() / id_)
    created = time.time() if created_at is None else created_at
    spec = audit_spec(id=id_, created_at=created, subject=subject, tables=tuple(tables))
    recorded = RecordedAudit(folder, create_record(folder, spec))
    if pid is not None:
        recorded.supervised_by(pid)
    return recorded


def new_tuning(folds: Sequence[str], created_at: float = 0.0) -> Tuning:
    """Return a tuning of the attack baseline on folds of the round demo."""
    request = RunRequest(attack="baseline", round="demo")
    return Tuning(
        id="abcd-tuning", created_at=created_at, request=request, folds=tuple(folds), vary=(), runs=20, ray="none"
    )
