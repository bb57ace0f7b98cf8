"""The audits by name, for the command line and the TUI. An audit is imported when it is first needed."""

import importlib
from typing import Any, NamedTuple

from harness.audits.options import Subject
from harness.core.audit import Audit
from harness.core.errors import unknown_name


class AuditEntry(NamedTuple):
    """The classes of an audit and the question that it answers."""

    audit: str
    """Module in harness.audits and class of the audit, which names its parameters."""
    subject: str
    """Module and class of the options that say what it measures."""
    question: str

    def audit_type(self) -> type[Audit[Any]]:
        """Return the class of the audit."""
        audit_type: type[Audit[Any]] = _load(self.audit)
        return audit_type

    def subject_type(self) -> type[Subject]:
        """Return the class of its subject."""
        subject_type: type[Subject] = _load(self.subject)
        return subject_type


AUDITS = {
    "sequence": AuditEntry(
        "sequence.audit:SequenceAudit", "sequence.inputs:SequenceSubject", "Was this corpus in the training data?"
    ),
    "leakage": AuditEntry(
        "leakage.audit:LeakageAudit", "leakage.inputs:LeakageSubject", "How likely is each sequence to leak?"
    ),
    "book": AuditEntry("book.audit:BookAudit", "book.inputs:BookSubject", "How much of a long text can be extracted?"),
    "compare": AuditEntry(
        "compare.audit:CompareAudit", "compare.inputs:CompareSubject", "Did memorization change between targets?"
    ),
    "membership": AuditEntry(
        "membership.audit:MembershipAudit",
        "membership.inputs:MembershipSubject",
        "Can members be told from non-members?",
    ),
    "entities": AuditEntry(
        "entities.audit:EntitiesAudit",
        "entities.inputs:EntitiesSubject",
        "Does a NER model know the names that it was trained on?",
    ),
}


def audit_named(name: str) -> type[Audit[Any]]:
    """Return the class of the audit called `name`. Raises HarnessError for an unknown name."""
    if name not in AUDITS:
        raise unknown_name("audit", name, AUDITS, see="harness audit --help")
    return AUDITS[name].audit_type()


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"harness.audits.{module}"), name)
