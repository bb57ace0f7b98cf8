"""The options of an audit as data, from which the screen makes a form."""

import pytest

from harness.audits.registry import AUDITS
from harness.tui.form import FieldKind, audit_form


@pytest.mark.parametrize("audit", AUDITS)
def test_every_audit_has_a_form(audit: str) -> None:
    form = audit_form(audit)
    assert form.command == ("audit", audit)
    assert {"seed", "budget", "device"} <= {field.name for field in form.fields}
    assert all(field.description for field in form.fields)
    assert form.command_line({}) == ["audit", audit]


def test_values_become_arguments_options_and_flags() -> None:
    form = audit_form("leakage")
    kinds = {field.name: field.kind for field in form.fields}
    assert kinds["round"] is FieldKind.ROUND and kinds["names"] is FieldKind.SWITCH
    values = {"--pairs": "pairs.npz", "--names": "true", "--seed": "3", "--budget": "24h"}
    assert form.command_line(values) == ["audit", "leakage", "pairs.npz", "--names", "--seed", "3"]
