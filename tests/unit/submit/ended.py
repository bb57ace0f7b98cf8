"""Runs that have ended, with correct and wrong guesses, and with hostile names."""

from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from harness.core.files import file_sha256
from harness.runs.attack_record import write_results
from harness.runs.folder import RunFolder
from harness.runs.specs import AttackRecord
from tests.unit.tui.recorded import Recorded, recorded_run

HOSTILE = '<script>alert(1)</script></style>{{ 7*7 }}{% x %}\u202e\x1b[31m" onload="x $y$ #panic() \\ @a <b>'
CREATED = 1_790_000_000.0


def ended_run(
    folder: Path, *, solved: int = 6, phase: str = "finished", limit: int | None = None, **options: Any
) -> RunFolder:
    """Write a run on a small round, or on its first `limit` examples, that solves the first `solved` examples."""
    recorded = recorded_run(folder, created_at=CREATED, **options)
    run = recorded.folder
    examples = limit or len(recorded.answers)
    run.spec_file.write_text(run.attack_spec().model_copy(update={"examples": examples}).model_dump_json())
    batch = recorded.batch("guess/0/0")
    recorded.guess(batch, [(id_, id_ < solved, -float(id_)) for id_ in range(examples)])
    with recorded.store.transaction():
        recorded.store.add_plan("guess", 2.0 * examples)
        recorded.store.end_batch(*batch)
        is_blind = run.attack_spec().round.is_blind
        recorded.store.add_point(
            spent=1.5,
            guesses=examples,
            rows=examples,
            solved=None if is_blind else solved,
            wrong=None if is_blind else examples - solved,
            recall=None if is_blind else solved / examples,
        )
        recorded.store.add_ledger("end", 2.5)
    recorded.event("execution", versions={})
    # The supervisor's process no longer exists.
    recorded.event("supervisor", pid=1, created=0.0, boot="another")
    recorded.event("phase", phase=phase, reason="")
    close(recorded)
    return run


def close(recorded: Recorded) -> None:
    """Close the store and write the results as a supervisor does."""
    recorded.store.close()
    write_results(recorded.folder, recorded.folder.attack_spec())


CODE = """from harness import Attack, Field, Params
class SomeParams(Params):
    trials: int = Field(100, ge=1, description="Suffixes sampled per prefix.")
    note: str = Field("", description="A remark.")
class Some(Attack[SomeParams]):
    name = "some"
    def run(self, context):
        yield from ()
"""


def add_code(run: RunFolder, code: str = CODE, **params: Any) -> None:
    """Give the run a copy of an attack with parameters, as every run has one, and values for them."""
    run.code.mkdir()
    file = run.code / "some.py"
    file.write_text(code)
    spec = run.attack_spec()
    attack = spec.attack.model_copy(update={"file": file.name, "sha256": file_sha256(file)})
    run.spec_file.write_text(spec.model_copy(update={"attack": attack, "params": params}).model_dump_json())


def make_hostile(run: RunFolder) -> None:
    """Put text that could attack a page or Typst into every untrusted field of the run's record."""
    spec = run.attack_spec()
    attack = AttackRecord(**spec.attack.model_dump() | {"name": HOSTILE, "reference": HOSTILE, "file": "some.py"})
    changed = spec.model_copy(update={"attack": attack, "params": {HOSTILE: HOSTILE, "text": HOSTILE}})
    run.spec_file.write_text(changed.model_dump_json())
    run.note.write_text(HOSTILE)
    run.code.mkdir()
    (run.code / "some.py").write_text(
        f"from harness import Attack\nclass Some(Attack):\n    {HOSTILE!r}\n    name = 'some'\n", encoding="utf-8"
    )
    ids = np.unique(np.load(spec.round.prefix_file)).tolist()
    vocabulary = {f"{HOSTILE}{id_}": id_ for id_ in ids}
    Tokenizer(WordLevel(vocabulary | {"?": 0}, unk_token="?")).save(str(run.tokenizer))
