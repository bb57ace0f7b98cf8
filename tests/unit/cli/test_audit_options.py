"""The options of an audit as data, from which the screen makes a form."""

import pytest

from harness.audits.leakage.params import LeakageParams
from harness.cli.audit_options import AUDITS
from harness.tui.form import FieldKind, audit_form
from tests.unit.cli.command_line import CommandLine


@pytest.mark.parametrize("audit", AUDITS)
def test_every_audit_has_a_form(audit: str, harness: CommandLine) -> None:
    form = audit_form(harness("audit", "options", audit, "--json").json)
    assert form.command == ("audit", audit)
    assert {"seed", "budget", "device"} <= {field.name for field in form.fields}
    assert all(field.description for field in form.fields)
    assert form.command_line({}) == ["audit", audit]


def test_values_become_arguments_options_and_flags(harness: CommandLine) -> None:
    form = audit_form(harness("audit", "options", "leakage", "--json").json)
    kinds = {field.name: field.kind for field in form.fields}
    assert kinds["round"] is FieldKind.ROUND and kinds["names"] is FieldKind.SWITCH
    values = {"--pairs": "pairs.npz", "--names": "true", "--seed": "3", "--budget": "24h"}
    assert form.command_line(values) == ["audit", "leakage", "pairs.npz", "--names", "--seed", "3"]


def test_an_unknown_audit_is_named(harness: CommandLine) -> None:
    done = harness("audit", "options", "sequnce")
    assert done.code == 2 and "unknown audit 'sequnce'" in done.err


def test_every_parameter_of_the_leakage_audit_is_an_option(harness: CommandLine) -> None:
    options = {option["name"] for option in harness("audit", "options", "leakage", "--json").json["options"]}
    # --suffix-tokens sets the tokens of an entity, and the form of the prompts is found by asking the endpoint.
    assert {name.replace("_", "-") for name in LeakageParams.model_fields} - options == {"entity-tokens", "form"}
