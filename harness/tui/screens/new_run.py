"""The forms of a new run, made from the attack's own schema, and of a new audit."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

from textual.content import Content

from harness.audits.registry import AUDITS
from harness.core.errors import HarnessError
from harness.core.options import Options
from harness.core.parameters import setting_text
from harness.core.rounds import load_round
from harness.core.run_request import AuditRequest, RunRequest
from harness.core.text import sanitize, shorten
from harness.plugins.discovery import AttackFile, find_attacks
from harness.plugins.schema import AttackSchema, fetch_schema
from harness.runs.folder import RunFolder
from harness.runs.specs import AttackSpec
from harness.sweeps.tuning import TUNINGS, TuneOptions
from harness.tui.form import Field, FieldKind, Form, option_fields, parameter_fields
from harness.tui.saved_state import load_values
from harness.tui.screens.form import FormScreen, Source

MAX_PARAMETERS = 100


_ROUND = Field("round", "name or TOML file", kind=FieldKind.ROUND, description="Round to attack.", is_option=True)
_NOT_TUNED = ("group", "shards", "ray")
"""The options of a run that `harness tune` does not have."""


def form_for(attack: AttackFile, schema: AttackSchema, *, attacks_folder: Path | None) -> Form:
    """Return the form of a run of `attack`: the round, the attack's parameters, then the options of the run."""
    parameters = tuple(parameter_fields(schema))
    visible_parameters = parameters[:MAX_PARAMETERS]
    options = option_fields(RunRequest, uses_target=attack.uses_target)
    # What the attack declares is known here.
    declared = {"reference": attack.reference_model or "none", "guesses-per-example": str(attack.guesses_per_example)}
    options = (replace(field, empty_means=declared.get(field.name, field.empty_means)) for field in options)
    fields = (_ROUND, *visible_parameters, *options)
    return Form(("run", attack.name), attack.name, fields, attacks_folder, len(parameters) - len(visible_parameters))


def tuning_form(attack: AttackFile, *, attacks_folder: Path | None) -> Form:
    """Return the form of a tuning of `attack`: the round, what is searched, then the options of each run."""
    options = option_fields(RunRequest, uses_target=attack.uses_target)
    fields = (_ROUND, *option_fields(TuneOptions), *(field for field in options if field.name not in _NOT_TUNED))
    return Form(("tune", attack.name), f"tune {attack.name}", fields, attacks_folder)


def audit_form(audit: str) -> Form:
    """Return the form of an audit: what it measures, its parameters, then the options of the run."""
    entry = AUDITS[audit]
    subject = entry.subject_type()
    classes = (subject, cast("type[Options]", entry.audit_type().params_type()), AuditRequest)
    fields = tuple(field for options in classes for field in option_fields(options))
    groups = tuple(tuple(f"--{name.replace('_', '-')}" for name in group) for group in subject.NEEDS)
    return Form(("audit", audit), f"audit {audit}", fields, groups=groups)


def value_sources(form: Form, round_name: str, *, like: RunFolder | None = None) -> Iterator[Source]:
    """Yield the values that the form can show: of the run `like`, those used last, the round's preset, the defaults.

    Raises HarnessError if the run `like` cannot be read.
    """
    defaults, kind = form.defaults, form.command[0]
    on_round = {"--round": round_name} if "--round" in defaults else {}
    if like is not None:
        spec = like.attack_spec()
        values = recorded_values(spec, form)
        if spec.parent in TUNINGS.ids():
            values["--round"] = values["--round"].rpartition(":fold")[0]
        lost = spec.labels.changed.keys() - {field.name.replace("-", "_") for field in form.fields}
        without = f" without {shorten(', '.join(sorted(lost)))}, which has no field" if lost else ""
        yield f"of run {like.id}{without}", defaults | values
    if last := load_values(form.name, form.fields):
        yield f"of the last {kind}", defaults | last | on_round
    with contextlib.suppress(HarnessError, OSError):
        if preset := load_round(round_name).presets.get(form.name):
            texts = {name: setting_text(value) for name, value in preset.items() if name in defaults}
            yield f"preset of {round_name}", defaults | texts | on_round
    yield "the attack's defaults" if kind == "run" else "the defaults", defaults | on_round


def recorded_values(spec: AttackSpec, form: Form) -> dict[str, str]:
    """Return the texts of a form that starts the run again, by field key: its options and all of its parameters."""
    values, options = {}, spec.request.model_dump(mode="json", exclude_none=True)
    for field in form.fields:
        name, recorded = field.name.replace("-", "_"), options if field.is_option else spec.params
        if name in recorded:
            values[field.key] = setting_text(recorded[name])
    return values


class CommandScreen(FormScreen):
    """Asks for the values of a command with a round, at first those of the run `like` if given."""

    def __init__(self, *, round_name: str, like: RunFolder | None = None) -> None:
        super().__init__()
        self._round_name, self._like = round_name, like

    def sources(self, form: Form, round_name: str | None) -> list[Source]:
        """Return the sources of values on the round that the user has typed, or on that of the screen."""
        return list(value_sources(form, round_name or self._round_name, like=self._like))


class NewRunScreen(CommandScreen):
    """Asks for the values of a run of `attack`."""

    def __init__(
        self, attack: AttackFile, *, attacks_folder: Path | None, round_name: str, like: RunFolder | None = None
    ) -> None:
        super().__init__(round_name=round_name, like=like)
        self._attack, self._attacks_folder = attack, attacks_folder

    def heading(self) -> Content:
        """Return the name and the summary of the attack."""
        attack = self._attack
        about = sanitize("".join(f"  {part}" for part in (attack.summary, f"({attack.origin})") if part))
        return Content.assemble(("New run · ", "bold"), (sanitize(attack.shown_name), "bold"), about)

    def load(self) -> Form:
        """Return the form of the attack as it is now."""
        files = find_attacks(self._attacks_folder)
        attack = next((file for file in files if file.path == self._attack.path), self._attack)
        if attack.error is not None:
            raise HarnessError(attack.error)
        schema = fetch_schema(attack.path, digest=attack.sha256)
        return form_for(attack, schema, attacks_folder=self._attacks_folder)


class NewTuningScreen(NewRunScreen):
    """Asks for what a tuning of an attack searches."""

    TAB = "Tuning"

    def heading(self) -> Content:
        """Return the name of the attack."""
        return Content.assemble(("New tuning · ", "bold"), (sanitize(self._attack.shown_name), "bold"))

    def load(self) -> Form:
        """Return the form of the tuning."""
        return tuning_form(self._attack, attacks_folder=self._attacks_folder)


class NewAuditScreen(CommandScreen):
    """Asks for the values of an audit."""

    TAB = "Audits"

    def __init__(self, audit: str, *, round_name: str) -> None:
        super().__init__(round_name=round_name)
        self._audit = audit

    def heading(self) -> Content:
        """Return the audit's name and its question."""
        return Content.assemble((f"New audit · {self._audit}  ", "bold"), AUDITS[self._audit].question)

    def load(self) -> Form:
        """Return the form of the audit's options."""
        return audit_form(self._audit)
