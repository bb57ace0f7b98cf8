"""The form of a new run, made from the attack's own schema and validated while it is typed."""

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
from harness.core.text import pluralize, sanitize
from harness.plugins.discovery import AttackFile, find_attacks
from harness.plugins.schema import fetch_schema
from harness.tui.form import Form, changed_values, form_for
from harness.tui.form_history import load_values, save_values
from harness.tui.screens.form import FormScreen, show_text
from harness.tui.subprocesses import run_command
from harness.tui.validation import validation_error
from harness.tui.widgets.form_fields import FormFields


class Phase(Enum):
    """The event that the screen waits for: the attack's schema, a retry, the user, or the run."""

    LOADING = "loading"
    FAILED = "failed"
    EDITING = "editing"
    STARTING = "starting"


_ACTION_PHASES = {
    "start": (Phase.EDITING,),
    "copy_command": (Phase.EDITING, Phase.STARTING),
    "retry": (Phase.FAILED,),
}


class NewRunScreen(FormScreen[str | None]):
    """Asks for the values of a run of `attack` and starts it; the result is the run's id, or None."""

    CSS_PATH = ["form.tcss", "new_run.tcss"]  # noqa: RUF012  as Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-low"), (14, "-high"), (36, "-tall")]  # noqa: RUF012
    # Chords, because letters are typed into fields. Terminals use ctrl+s and ctrl+q for flow control, and an editor
    # around the terminal may use F5; ctrl+r and ctrl+y reach a full-screen program everywhere.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "start", "Start", tooltip="Validate the values and start the run"),
        Binding("ctrl+y", "copy_command", "Copy command", tooltip="Copy the command line of this run"),
        Binding("r", "retry", "Retry", tooltip="Read the attack's parameters again"),
        Binding("escape", "cancel", "Back", tooltip="Cancel the start, or close the form"),
    ]

    def __init__(self, attack: AttackFile, *, attacks_folder: Path | None, round_name: str) -> None:
        super().__init__()
        self._attack = attack
        self._attacks_folder = attacks_folder
        self._round_name = round_name
        self._phase = Phase.LOADING
        self._form = Form(attack.name, attacks_folder, ())
        self._run_id: str | None = None

    def compose(self) -> ComposeResult:
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
        values = {field.key: field.default or "" for field in form.fields}
        values |= load_values(attack.name, form.fields)
        self.call_later(self._show_form, form, values | {"--round": self._round_name})

    def _show_load_error(self, reason: str) -> None:
        self._enter(Phase.FAILED)
        self._show_state(reason, is_error=True)

    async def _show_form(self, form: Form, values: dict[str, str]) -> None:
        self._form = form
        more = form.omitted
        self._show_state(f"{more} more parameters have no field: use --set name=value." if more else "")
        await self.query_one(FormFields).show(form.fields, values)
        self._enter(Phase.EDITING)
        self.show_command()

    @on(FormFields.Edited)
    def _update_command(self) -> None:
        self.show_message("")
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
        try:
            command = [*form.command_line(values), "--detach"]
            answer = run_command(
                command, on_progress=partial(self.call_later, self._show_progress), cancelled=cancelled
            )
        except HarnessError as error:
            if not cancelled.is_set():
                self.call_later(self._show_start_error, str(error), {})
            return
        if answer is not None:
            save_values(form.attack, changed_values(form.fields, values))
            self.call_later(self._close_with_run, answer["id"])

    def _show_progress(self, line: str) -> None:
        if self._phase is Phase.STARTING:
            self.show_message(f"starting … {line}")

    def _show_start_error(self, reason: str, errors: dict[str, str]) -> None:
        self._return_to_form(reason, is_error=True)
        self.query_one(FormFields).show_errors(errors)

    def _close_with_run(self, run_id: str) -> None:
        self._run_id = run_id
        self.on_screen_resume()

    def on_screen_resume(self) -> None:
        """Close the form once the run has started; only the topmost screen can be dismissed."""
        if self._run_id is not None and self.is_current:
            self.dismiss(self._run_id)

    def action_cancel(self) -> None:
        if self._phase is Phase.STARTING:
            self._cancelled.set()
            self._return_to_form("cancelled before the run started.")
        else:
            self.dismiss(None)

    def command_line(self) -> list[str]:
        """Return the arguments of `harness` that start the same run."""
        return self._form.command_line(self.query_one(FormFields).values())

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
