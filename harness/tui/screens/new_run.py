"""The form of a new run, made from the attack's own schema and validated while it is typed."""

import contextlib
import math
import secrets
from collections.abc import Iterator
from enum import Enum
from functools import partial
from pathlib import Path
from threading import Event
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Button, Static

from harness.core.errors import HarnessError
from harness.core.rounds import load_round
from harness.core.text import pluralize, sanitize
from harness.jobs.attack.options import recorded_options
from harness.plugins.discovery import AttackFile, find_attacks
from harness.plugins.parameters import setting_text
from harness.plugins.schema import fetch_schema
from harness.runs.folder import RunFolder
from harness.tui.form import Form, changed_values, form_for
from harness.tui.form_history import load_values, save_values
from harness.tui.screens.form import FormScreen, show_text
from harness.tui.subprocesses import run_command
from harness.tui.validation import validation_error
from harness.tui.widgets.form_fields import FormFields
from harness.tui.widgets.top_bar import TopBar


class Phase(Enum):
    """The event that the screen waits for: the attack's schema, a retry, the user, or the run."""

    LOADING = "loading"
    FAILED = "failed"
    EDITING = "editing"
    STARTING = "starting"


_ACTION_PHASES = {
    "start": (Phase.EDITING,),
    "next_values": (Phase.EDITING,),
    "copy_command": (Phase.EDITING, Phase.STARTING),
    "retry": (Phase.FAILED,),
}


class NewRunScreen(FormScreen[str | None]):
    """Asks for the values of a run of `attack` and starts it, or several runs for numbers with commas between them.

    The result is the id of a single run, or None. The form opens with the values of the run `like` if given, else with
    those that were used last, else with the round's preset for the attack.
    """

    CSS_PATH = ["form.tcss", "new_run.tcss"]  # noqa: RUF012  as Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-low"), (14, "-high"), (36, "-tall")]  # noqa: RUF012
    # Chords, because letters are typed into fields. Terminals use ctrl+s and ctrl+q for flow control, and an editor
    # around the terminal may use F5; ctrl+r and ctrl+y reach a full-screen program everywhere.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "start", "Start", tooltip="Validate the values and start the run"),
        Binding("ctrl+t", "next_values", "Preset | defaults", tooltip="Use the preset, last values or defaults"),
        Binding("ctrl+y", "copy_command", "Copy command", tooltip="Copy the command line of this run"),
        Binding("r", "retry", "Retry", tooltip="Read the attack's parameters again"),
        Binding("escape", "cancel", "Back", tooltip="Cancel the start, or close the form"),
    ]

    def __init__(
        self, attack: AttackFile, *, attacks_folder: Path | None, round_name: str, like: RunFolder | None = None
    ) -> None:
        super().__init__()
        self._like = like
        self._sources: list[tuple[str, dict[str, str]]] = []
        """The values that the form can open with, each with its name."""
        self._source = 0
        self._attack = attack
        self._attacks_folder = attacks_folder
        self._round_name = round_name
        self._phase = Phase.LOADING
        self._form = Form(attack.name, attacks_folder, ())
        self._run_id: str | None = None

    def compose(self) -> ComposeResult:
        yield TopBar()
        about = sanitize("".join(f"  {part}" for part in (self._attack.summary, f"({self._attack.origin})") if part))
        yield Static(
            Content.assemble(("New run · ", "bold"), (sanitize(self._attack.shown_name), "bold"), about), id="title"
        )
        yield Static(Content(""), id="state")
        yield FormFields(id="fields", can_focus=False)
        yield from self.compose_foot("Start the run")

    def on_mount(self) -> None:
        self._load(is_retry=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action not in _ACTION_PHASES or self._phase in _ACTION_PHASES[action]

    # The form.

    def action_retry(self) -> None:
        self._load(is_retry=True)

    def _load(self, *, is_retry: bool) -> None:
        self._enter(Phase.LOADING)
        self._show_state(f"Reading the parameters of {self._attack.name} …")
        self._fetch(is_retry=is_retry)

    @work(thread=True, exclusive=True, group="schema")
    def _fetch(self, *, is_retry: bool) -> None:
        attack = self._attack
        try:
            if is_retry:
                attacks = find_attacks(self._attacks_folder)
                attack = next((other for other in attacks if other.path == attack.path), attack)
            if attack.error is not None:
                raise HarnessError(attack.error)
            schema = fetch_schema(attack.path, digest=attack.sha256)
        except (HarnessError, OSError) as error:
            self.call_later(self._show_load_error, str(error))
            return
        form = form_for(attack, schema, attacks_folder=self._attacks_folder)
        try:
            sources = list(value_sources(form, self._round_name, like=self._like))
        except HarnessError as error:
            self.call_later(self._show_load_error, str(error))
            return
        self.call_later(self._show_form, form, sources)

    def _show_load_error(self, reason: str) -> None:
        self._enter(Phase.FAILED)
        self._show_state(reason, is_error=True)

    async def _show_form(self, form: Form, sources: list[tuple[str, dict[str, str]]]) -> None:
        self._form, self._sources, self._source = form, sources, 0
        await self._fill()
        self._enter(Phase.EDITING)
        self.show_command()

    async def action_next_values(self) -> None:
        self._source = (self._source + 1) % len(self._sources)
        await self._fill()
        self.show_command()

    async def _fill(self) -> None:
        """Show the fields with the values of the present source."""
        name, values = self._sources[self._source]
        other = self._sources[(self._source + 1) % len(self._sources)][0]
        facts = [f"Values: {name}." + (f" ctrl+t: {other}." if len(self._sources) > 1 else "")]
        facts.append("Several numbers with commas start several runs.")
        if self._form.omitted:
            facts.append(f"{self._form.omitted} more parameters have no field: use --set name=value.")
        self._show_state(" ".join(facts))
        fields = self.query_one(FormFields)
        await fields.remove_children()
        await fields.show(self._form.fields, values)

    @on(FormFields.Edited)
    def _update_command(self) -> None:
        runs = math.prod(
            len(field.alternatives(text))
            for field in self._form.fields
            if (text := self.query_one(FormFields).values().get(field.key)) is not None
        )
        self.show_message(f"starts {runs} runs" if runs > 1 else "")
        self.show_command()

    # The run.

    @on(Button.Pressed, "#submit")
    def action_start(self) -> None:
        self._cancelled = Event()
        values = self.query_one(FormFields).values()
        self._enter(Phase.STARTING)
        self.show_message("starting …")
        self._start(self._form, values, self._cancelled)

    @work(thread=True, exclusive=True, group="start")
    def _start(self, form: Form, values: dict[str, str], cancelled: Event) -> None:
        errors = {field.key: error for field in form.fields if (error := validation_error(field, values[field.key]))}
        if errors:
            self.call_later(self._show_start_error, f"{pluralize(len(errors), 'invalid value')}.", errors)
            return
        started: list[str] = []
        try:
            group = f"{form.attack}-{secrets.token_hex(2)}"
            commands = form.command_lines(values, group=group)
            save_values(form.attack, changed_values(form.fields, values))
            for number, command in enumerate(commands, 1):
                place = f"{number} of {len(commands)}: " if len(commands) > 1 else ""
                on_progress = partial(self.call_later, self._show_progress, place)
                on_progress("")
                answer = run_command([*command, "--detach"], on_progress=on_progress, cancelled=cancelled)
                if answer is None:
                    break
                started.append(str(answer["id"]))
        except HarnessError as error:
            if not cancelled.is_set():
                more = f" {pluralize(len(started), 'run')} before it started." if started else ""
                self.call_later(self._show_start_error, f"{error}{more}", {})
            return
        if len(started) == 1 and len(commands) == 1:
            self.call_later(self._close_with_run, started[0])
        elif started:
            self.app.notify(f"Started {pluralize(len(started), 'run')} in the group {group}.", markup=False)
            self.call_later(self._close_with_run, "")

    def _show_progress(self, place: str, line: str) -> None:
        if self._phase is Phase.STARTING:
            self.show_message(f"starting {place}{line or '…'}")

    def _show_start_error(self, reason: str, errors: dict[str, str]) -> None:
        self._return_to_form(reason, is_error=True)
        self.query_one(FormFields).show_errors(errors)

    def _close_with_run(self, run_id: str) -> None:
        self._run_id = run_id
        self.on_screen_resume()

    def on_screen_resume(self) -> None:
        """Close the form once the run has started; only the topmost screen can be dismissed."""
        if self._run_id is not None and self.is_current:
            self.dismiss(self._run_id or None)

    def action_cancel(self) -> None:
        if self._phase is Phase.STARTING:
            self._cancelled.set()
            self._return_to_form("cancelled before the run started.")
        else:
            self.dismiss(None)

    def command_line(self) -> list[str]:
        """Return the arguments of `harness` that start the same run."""
        try:
            return self._form.command_lines(self.query_one(FormFields).values(), group="GROUP")[0]
        except HarnessError:
            return ["run", self._attack.name]

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self.set_class(phase in (Phase.EDITING, Phase.STARTING), "-form")
        self.query_one(FormFields).disabled = phase is Phase.STARTING
        self.query_one("#submit", Button).disabled = phase is not Phase.EDITING
        self.refresh_bindings()

    def _return_to_form(self, message: str, *, is_error: bool = False) -> None:
        self._enter(Phase.EDITING)
        self.show_message(message, is_error=is_error)
        self.query_one("#submit", Button).focus()

    def _show_state(self, text: str, *, is_error: bool = False) -> None:
        show_text(self.query_one("#state", Static), text, is_error=is_error)


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
    if last := load_values(form.attack, form.fields):
        yield "of the last run", defaults | last | here
    with contextlib.suppress(HarnessError, OSError):
        preset = load_round(round_name).presets.get(form.attack)
        if preset:
            texts = {name: setting_text(value) for name, value in preset.items() if name in keys}
            yield f"preset of {round_name}", defaults | texts | here
    yield "the attack's defaults", defaults | here
