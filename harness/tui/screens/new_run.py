"""The forms of a new run, made from the attack's own schema, and of a new audit."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from textual.content import Content

from harness.audits.registry import AUDITS
from harness.core.errors import HarnessError
from harness.core.rounds import load_round
from harness.core.text import sanitize
from harness.plugins.discovery import AttackFile, find_attacks
from harness.plugins.parameters import setting_text
from harness.plugins.schema import fetch_schema
from harness.runs.folder import RunFolder
from harness.runs.planning import recorded_options
from harness.tui.form import Form, audit_form, form_for
from harness.tui.form_history import load_values
from harness.tui.screens.start import Sources, StartScreen


class NewRunScreen(StartScreen):
    """Asks for the values of a run of `attack`.

    It opens with the values of the run `like` if given, else with those that were used last, else with the round's
    preset for the attack.
    """

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

    def load(self, *, is_retry: bool) -> tuple[Form, Sources]:
        """Return the form of the attack as it is now."""
        attack = self._attack
        if is_retry:
            attacks = find_attacks(self._attacks_folder)
            attack = next((other for other in attacks if other.path == attack.path), attack)
        if attack.error is not None:
            raise HarnessError(attack.error)
        schema = fetch_schema(attack.path, digest=attack.sha256)
        form = form_for(attack, schema, attacks_folder=self._attacks_folder)
        return form, list(value_sources(form, self._round_name, like=self._like))

    def sources_for(self, values: Mapping[str, str]) -> Sources:
        """Return the sources again if another round is chosen, which has other presets."""
        if values.get("--round") in (None, self._round_name):
            return super().sources_for(values)
        self._round_name = values["--round"]
        with contextlib.suppress(HarnessError):
            return list(value_sources(self._form, self._round_name, like=self._like))
        return super().sources_for(values)


def value_sources(form: Form, round_name: str, *, like: RunFolder | None) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the values that the form can show, by field key, each with its name; the first ones are shown first.

    Raises HarnessError if the run `like` cannot be read.
    """
    keys = {field.key for field in form.fields}
    defaults = {field.key: field.default or "" for field in form.fields}
    here = {"--round": round_name}
    if like is not None:
        values = recorded_options(like.attack_spec()).form_values
        yield f"of run {like.id}", defaults | {key: text for key, text in values.items() if key in keys}
    if last := load_values(form.name, form.fields):
        yield "of the last run", defaults | last | here
    with contextlib.suppress(HarnessError, OSError):
        preset = load_round(round_name).presets.get(form.name)
        if preset:
            texts = {name: setting_text(value) for name, value in preset.items() if name in keys}
            yield f"preset of {round_name}", defaults | texts | here
    yield "the attack's defaults", defaults | here


class NewAuditScreen(StartScreen):
    """Asks for the values of an audit."""

    def __init__(self, audit: str, *, round_name: str) -> None:
        super().__init__()
        self._audit = audit
        self._round_name = round_name

    def heading(self) -> Content:
        """Return the audit's name and its question."""
        return Content.assemble((f"New audit · {self._audit}  ", "bold"), AUDITS[self._audit].question)

    def load(self, *, is_retry: bool) -> tuple[Form, Sources]:
        """Return the form of the audit's options."""
        form = audit_form(self._audit)
        defaults = {field.key: field.default or "" for field in form.fields}
        here = {"--round": self._round_name} if "--round" in defaults else {}
        sources = [("the defaults, on the chosen round", defaults | here)]
        if last := load_values(form.name, form.fields):
            sources.insert(0, ("of the last audit", defaults | last | here))
        return form, sources
