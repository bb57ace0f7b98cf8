"""The record of an audit, for tests of its page and its files."""

from pathlib import Path

from harness.core.spec import PathRecord
from harness.submit.audit_page import AuditHeader
from tests.records import MODEL as RECORDED
from tests.records import audit_spec
from tests.unit.tui.summaries import summary_of

MODEL = RECORDED.model_copy(update={"revision": "1", "path": Path("/somewhere"), "bytes": 3, "threads": 2})
HEADER = AuditHeader(
    spec=audit_spec(
        params={"prompt_length": 35},
        paths={"corpus": PathRecord(path=Path("/home/me/corpus.jsonl"), sha256="cd" * 32)},
        seed=7,
        budget=600.0,
        versions={"harness": "0.1"},
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
