"""The record of an audit, for tests of its page and its files."""

from pathlib import Path

from harness.core.spec import PathRecord, TargetRecord
from harness.runs.specs import AuditSpec
from harness.submit.audit_page import AuditHeader
from tests.unit.tui.summaries import summary_of

MODEL = TargetRecord(
    id="demo",
    revision="1",
    commit=None,
    path=Path("/somewhere"),
    weights_sha256="ab" * 32,
    bytes=3,
    device="cpu",
    dtype="float32",
    threads=2,
)
HEADER = AuditHeader(
    spec=AuditSpec(
        id="abcd-demo",
        created_at=1_700_000_000.0,
        params={"prompt_length": 35},
        paths={"corpus": PathRecord(path=Path("/home/me/corpus.jsonl"), sha256="cd" * 32)},
        seed=7,
        budget=600.0,
        versions={"harness": "0.1"},
        hardware={},
        audit="sequence",
        subject="corpus",
        tables=(),
        inputs_sha256="",
        models=(MODEL,),
    ),
    summary=summary_of(
        "abcd-demo",
        kind="audit",
        attack="audit sequence",
        round="corpus",
        elapsed_s=42.0,
        budget_s=600.0,
        sandbox="bubblewrap",
    ),
    executions=1,
    warnings=["One document was empty."],
    title="Sequence extraction",
    reference="A paper",
)
