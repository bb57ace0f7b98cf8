"""The audits by name. An audit is imported when it is first needed."""

import importlib
from typing import Any

from harness.core.audit import Audit
from harness.core.errors import unknown_name

_CLASSES = {
    "sequence": "SequenceAudit",
    "leakage": "LeakageAudit",
    "entities": "EntitiesAudit",
    "book": "BookAudit",
    "compare": "CompareAudit",
    "membership": "MembershipAudit",
}
AUDITS = tuple(_CLASSES)


def audit_named(name: str) -> type[Audit[Any]]:
    """Return the class of the audit called `name`. Raises HarnessError for an unknown name."""
    if name not in _CLASSES:
        raise unknown_name("audit", name, AUDITS, see="harness audit --help")
    audit: type[Audit[Any]] = getattr(importlib.import_module(f"harness.audits.{name}.audit"), _CLASSES[name])
    return audit
