"""The forms of a new run, made from the attack's own schema, and of a new audit."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from textual.content import Content

from harness.audits.registry import AUDITS
from harness.core.errors import HarnessError
from harness.core.rounds import load_round
from harness.core.text import sanitize
from harness.plugins.discovery import AttackFile, find_attacks
from harness.plugins.parameters import setting_text
from harness.plugins.schema import AttackSchema, fetch_schema
from harness.runs.folder import RunFolder
from harness.runs.planning import recorded_options
from harness.tui.form import (
    FROM_ROUND,
    Field,
    FieldKind,
    Form,
    option_fields,
    parameter_fields,
    switch_option,
    text_option,
)
from harness.tui.saved_state import load_values
from harness.tui.screens.form import FormScreen, Source

MAX_PARAMETERS = 100


def _count(description: str, least: int, **more: Any) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "description": description, **more}


_OPTIONS: dict[str, dict[str, Any]] = {
    "seed": _count("Seed of all random draws.", 0, default=0),
    "device": text_option("auto, cpu, cuda or cuda:N.", "auto"),
    "dtype": {"enum": ["auto", "float32", "float16", "bfloat16"], "default": "auto", "description": "Precision."},
}
"""The options that runs and audits share."""
_AUDIT_OPTIONS = {
    "revision": text_option("Revision of hub models.", "main"),
    "budget": text_option("Wall-clock limit such as 24h or 90m.", "24h"),
    **_OPTIONS,
    "threads": _count("CPU threads.", 1, empty_means="all usable cores"),
    "share-device": switch_option("Start without waiting for a free device."),
}
"""The options that all audits share."""


def form_for(attack: AttackFile, schema: AttackSchema, *, attacks_folder: Path | None) -> Form:
    """Return the form of a run of `attack`: the round, the attack's parameters, then the options of the run."""
    parameters = tuple(parameter_fields(schema))
    shown = parameters[:MAX_PARAMETERS]
    options = {
        "target": text_option("Model to attack: a hub id or a directory.", empty_means=FROM_ROUND),
        "reference": text_option(
            "Reference model: a hub id or a directory.", empty_means=attack.reference_model or "none"
        ),
        "budget": text_option("Budget in the round's unit, such as 24h or 90m.", empty_means=FROM_ROUND),
        "seed": _OPTIONS["seed"],
        "limit": _count("Attack only the first N examples.", 1, empty_means="all examples"),
        "guesses-per-example": _count(
            "Suffixes per example in the submission; 0 for any number.", 0, empty_means=str(attack.guesses_per_example)
        ),
        "device": _OPTIONS["device"],
        "dtype": _OPTIONS["dtype"],
    }
    if not attack.uses_target:
        options = {name: options[name] for name in ("budget", "seed", "limit", "guesses-per-example")}
    round_ = Field("round", FieldKind.ROUND, None, "name or TOML file", description="Round to attack.", is_option=True)
    fields = (round_, *shown, *option_fields({"properties": options}))
    return Form(("run", attack.name), attack.name, fields, attacks_folder, len(parameters) - len(shown))


def audit_form(audit: str) -> Form:
    """Return the form of an audit: what it measures, its parameters, then the options of the run."""
    entry = AUDITS[audit]
    classes = (entry.subject_type(), entry.audit_type().params_type())
    schemas = [*(options.model_json_schema() for options in classes), {"properties": _AUDIT_OPTIONS}]
    fields = tuple(field for schema in schemas for field in option_fields(schema))
    return Form(("audit", audit), f"audit {audit}", fields)


def value_sources(form: Form, round_name: str, *, like: RunFolder | None = None) -> Iterator[Source]:
    """Yield the values that the form can show: of the run `like`, those used last, the round's preset, the defaults.

    Raises HarnessError if the run `like` cannot be read.
    """
    defaults, kind = form.defaults, form.command[0]
    on_round = {"--round": round_name} if "--round" in defaults else {}
    if like is not None:
        values = recorded_options(like.attack_spec()).form_values
        yield f"of run {like.id}", defaults | {key: text for key, text in values.items() if key in defaults}
    if last := load_values(form.name, form.fields):
        yield f"of the last {kind}", defaults | last | on_round
    with contextlib.suppress(HarnessError, OSError):
        if preset := load_round(round_name).presets.get(form.name):
            texts = {name: setting_text(value) for name, value in preset.items() if name in defaults}
            yield f"preset of {round_name}", defaults | texts | on_round
    yield f"the {'attack' if kind == 'run' else kind}'s defaults", defaults | on_round


class NewRunScreen(FormScreen):
    """Asks for the values of a run of `attack`, at first those of the run `like` if given."""

    def __init__(
        self, attack: AttackFile, *, attacks_folder: Path | None, round_name: str, like: RunFolder | None = None
    ) -> None:
        super().__init__()
        self._attack = attack
        self._attacks_folder = attacks_folder
        self._round_name = round_name
        self._like = like

    def heading(self) -> Content:
        """Return the name and the summary of the attack."""
        attack = self._attack
        about = sanitize("".join(f"  {part}" for part in (attack.summary, f"({attack.origin})") if part))
        return Content.assemble(("New run · ", "bold"), (sanitize(attack.shown_name), "bold"), about)

    def load(self, *, is_retry: bool) -> Form:
        """Return the form of the attack as it is now."""
        attack = self._attack
        if is_retry:
            attack = next((file for file in find_attacks(self._attacks_folder) if file.path == attack.path), attack)
        if attack.error is not None:
            raise HarnessError(attack.error)
        schema = fetch_schema(attack.path, digest=attack.sha256)
        return form_for(attack, schema, attacks_folder=self._attacks_folder)

    def sources(self, form: Form, round_name: str | None) -> list[Source]:
        """Return the sources of values on the round that the user has typed, or on that of the screen."""
        return list(value_sources(form, round_name or self._round_name, like=self._like))


class NewAuditScreen(FormScreen):
    """Asks for the values of an audit."""

    def __init__(self, audit: str, *, round_name: str) -> None:
        super().__init__()
        self._audit = audit
        self._round_name = round_name

    def heading(self) -> Content:
        """Return the audit's name and its question."""
        return Content.assemble((f"New audit · {self._audit}  ", "bold"), AUDITS[self._audit].question)

    def load(self, *, is_retry: bool) -> Form:
        """Return the form of the audit's options."""
        return audit_form(self._audit)

    def sources(self, form: Form, round_name: str | None) -> list[Source]:
        """Return the sources of values on the round that the user has typed, or on that of the screen."""
        return list(value_sources(form, round_name or self._round_name))
