"""Runs that have ended, with correct and wrong guesses, and with hostile names."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from harness.core.files import file_sha256
from harness.runs.attack_record import write_results
from harness.runs.folder import RunFolder
from harness.runs.specs import AttackRecord
from tests.records import recorded_run

HOSTILE = '<script>alert(1)</script></style>{{ 7*7 }}{% x %}\u202e\x1b[31m" onload="x $y$ #panic() \\ @a <b>'
CREATED = 1_790_000_000.0


def ended_run(
    folder: Path, *, solved: int = 6, phase: str = "finished", limit: int | None = None, **options: Any
) -> RunFolder:
    """Write a run on a small round, or on its first `limit` examples, that solves the first `solved` examples."""
    recorded = recorded_run(folder, created_at=CREATED, pid=os.getpid(), limit=limit, **options)
    run = recorded.folder
    with recorded.store.transaction():
        recorded.store.add_plan("guess", 2.0 * run.attack_spec().examples)
    recorded.event("execution", versions={})
    recorded.finish(range(solved), phase=phase, spent=1.5, elapsed=2.5)
    write_results(run, run.attack_spec())
    return run


def run_record(**changed: Any) -> dict[str, Any]:
    """Return the run in a manifest."""
    return {
        "id": "x",
        "status": "finished",
        "reason": "",
        "spent_s": 1.0,
        "budget_s": 2.0,
        "examples": 1,
        "sandbox": None,
        "hardware": {},
        "versions": {},
        "unpromised": [],
        **changed,
    }


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
