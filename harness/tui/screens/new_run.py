"""The form that starts a run: made from the attack's own schema, checked as it is typed, shown as a command line."""

import shlex
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from threading import Event
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Button, Input, Static
from textual.worker import get_current_worker

from harness.core.errors import HarnessError
from harness.core.text import sanitize
from harness.plugins.discovery import AttackFile, find_attacks
from harness.plugins.schema import fetch_schema
from harness.tui.faults import fault_in
from harness.tui.form import Form, form_for
from harness.tui.remembered import remember_values, remembered_values
from harness.tui.starting import started_run
from harness.tui.widgets.key_footer import KeyFooter
from harness.tui.widgets.run_fields import RunFields

_WIDTHS = [(0, "-tiny"), (60, "-narrow"), (110, "-wide")]
_HEIGHTS = [(0, "-low"), (14, "-high"), (36, "-tall")]


class Phase(Enum):
    """What the screen waits for: the attack's schema, another try at it, the person, or the run."""

    LOADING = "loading"
    FAILED = "failed"
    EDITING = "editing"
    STARTING = "starting"


_PHASES_OF_ACTIONS = {
    "start": (Phase.EDITING,),
    "copy_command": (Phase.EDITING, Phase.STARTING),
    "retry": (Phase.FAILED,),
}


class NewRunScreen(Screen[str | None]):
    """Asks for everything that a run of `attack` needs; dismissed with the id of the run, or None without one."""

    CSS_PATH = ["form.tcss", "new_run.tcss"]  # noqa: RUF012  as Textual declares it
    AUTO_FOCUS = None
    HORIZONTAL_BREAKPOINTS = _WIDTHS
    VERTICAL_BREAKPOINTS = _HEIGHTS
    # Chords, since letters are typed into fields. ctrl+s and ctrl+q stop and start the flow of a terminal, and F5 is
    # an editor's own where the terminal lives inside one; these two reach a full-screen program everywhere.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "start", "Start", tooltip="Check everything and start the run"),
        Binding("ctrl+y", "copy_command", "Copy command", tooltip="Copy the command line of this run"),
        Binding("r", "retry", "Try again", tooltip="Ask the attack for its parameters again"),
        Binding("escape", "cancel", "Back", tooltip="Back without a run; a start that is under way is given up"),
    ]

    @dataclass
    class Loaded(Message):
        """The attack's form is known, and the values that it opens with."""

        form: Form
        values: dict[str, str]

    @dataclass
    class Unloadable(Message):
        """The attack's schema cannot be had."""

        reason: str

    @dataclass
    class Said(Message):
        """The command that starts the run says how far it is."""

        words: str

    @dataclass
    class Refused(Message):
        """The run was not started: for `faults`, by a field's key, or for a reason of the command's own."""

        faults: dict[str, str]
        reason: str = ""

    @dataclass
    class Started(Message):
        """The run can be observed."""

        run_id: str

    def __init__(self, attack: AttackFile, *, attacks_folder: Path | None, round_name: str) -> None:
        super().__init__()
        self._attack = attack
        self._attacks_folder = attacks_folder
        self._round_name = round_name
        self._phase = Phase.LOADING
        self._form = Form(attack.name, attacks_folder, ())
        self._given_up = Event()
        self._started: str | None = None

    def compose(self) -> ComposeResult:
        about = sanitize("".join(f"  {part}" for part in (self._attack.summary, f"({self._attack.origin})") if part))
        yield Static(
            Content.assemble(("New run · ", "bold"), (sanitize(self._attack.shown_name), "bold"), about), id="title"
        )
        yield Static(Content(""), id="state")
        yield RunFields(id="fields", can_focus=False)
        with Vertical(id="foot"):
            with VerticalScroll(id="command", can_focus=False):
                yield Static(Content(""))
            with Horizontal(id="start-line"):
                yield Button("Start the run", variant="primary", compact=True, id="start", disabled=True)
                yield Static(Content(""), id="message")
        yield KeyFooter()

    def on_mount(self) -> None:
        self._load(again=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action not in _PHASES_OF_ACTIONS or self._phase in _PHASES_OF_ACTIONS[action]

    # The form.

    def action_retry(self) -> None:
        """Look at the attack's file again, which may have been mended."""
        self._load(again=True)

    def _load(self, *, again: bool) -> None:
        self._enter(Phase.LOADING)
        self._show_state(f"Reading the parameters of {self._attack.name}{' again' if again else ''} …")
        self.run_worker(partial(self._fetch, again=again), thread=True, exclusive=True, group="schema")

    def _fetch(self, *, again: bool) -> None:
        attack = self._attack
        try:
            if again:
                found = find_attacks(self._attacks_folder)
                attack = next((other for other in found if other.path == attack.path), attack)
            if attack.error is not None:
                raise HarnessError(attack.error)
            schema = fetch_schema(attack.path, digest=attack.sha256)
        except (HarnessError, OSError) as error:
            self.post_message(self.Unloadable(str(error)))
            return
        form = form_for(attack, schema, attacks_folder=self._attacks_folder)
        values = {field.key: field.default or "" for field in form.fields}
        values |= remembered_values(attack.name, form.fields)
        self.post_message(self.Loaded(form, values | {"--round": self._round_name}))

    @on(Unloadable)
    def _say_why(self, event: Unloadable) -> None:
        self._enter(Phase.FAILED)
        self._show_state(event.reason, is_error=True)

    @on(Loaded)
    async def _show_form(self, event: Loaded) -> None:
        self._form = event.form
        more = event.form.left_out
        self._show_state(f"{more} more parameters are left to the command line: --set name=value." if more else "")
        await self.query_one(RunFields).show(event.form.fields, event.values)
        self._enter(Phase.EDITING)
        self._show_command()

    @on(RunFields.Edited)
    def _edited(self) -> None:
        self._show_message("")
        self._show_command()

    @on(Input.Submitted)
    def _go_on(self) -> None:
        self.focus_next()

    # The run.

    @on(Button.Pressed, "#start")
    def action_start(self) -> None:
        """Start the run that the form asks for, unless a value will not do."""
        self._given_up = Event()
        start = partial(self._start, self._form, self.query_one(RunFields).values(), self._given_up)
        self._enter(Phase.STARTING)
        self._show_message("starting …")
        self.run_worker(start, thread=True, exclusive=True, group="start")

    def _start(self, form: Form, values: dict[str, str], given_up: Event) -> None:
        faults = {field.key: fault for field in form.fields if (fault := fault_in(field, values[field.key]))}
        if faults:
            self.post_message(self.Refused(faults))
            return
        worker = get_current_worker()
        try:
            run_id = started_run(
                form.command_line(values),
                on_words=lambda words: self.post_message(self.Said(words)),
                is_given_up=given_up.is_set,
                is_left_alone=lambda: worker.is_cancelled,
            )
        except HarnessError as error:
            if not given_up.is_set():
                self.post_message(self.Refused({}, str(error)))
            return
        if run_id is not None:
            remember_values(form.attack, form.given(values))
            self.post_message(self.Started(run_id))

    @on(Said)
    def _show_progress(self, event: Said) -> None:
        if self._phase is Phase.STARTING:
            self._show_message(f"starting … {event.words}")

    @on(Refused)
    def _show_refusal(self, event: Refused) -> None:
        self._back_to_the_form(event.reason or _counted_faults(len(event.faults)), is_error=True)
        self.query_one(RunFields).show_faults(event.faults)

    @on(Started)
    def _go_to_the_run(self, event: Started) -> None:
        self._started = event.run_id
        self.on_screen_resume()

    def on_screen_resume(self) -> None:
        """Leave with the run, now or when what covers this screen has gone: only the top one can be dismissed."""
        if self._started is not None and self.is_current:
            self.dismiss(self._started)

    def action_cancel(self) -> None:
        """Give up the start that is under way, else the form."""
        if self._phase is Phase.STARTING:
            self._given_up.set()
            self._back_to_the_form("given up before the run began.")
        else:
            self.dismiss(None)

    def action_copy_command(self) -> None:
        """Copy the command line that starts the same run."""
        self.app.copy_to_clipboard(self._command().encode(errors="replace").decode())
        self._show_message("copied.")

    # What is shown.

    def _command(self) -> str:
        return shlex.join(["harness", *self._form.command_line(self.query_one(RunFields).values())])

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self.set_class(phase in (Phase.EDITING, Phase.STARTING), "-form")
        self.query_one(RunFields).disabled = phase is Phase.STARTING
        self.query_one("#start", Button).disabled = phase is not Phase.EDITING
        self.refresh_bindings()

    def _back_to_the_form(self, words: str, *, is_error: bool = False) -> None:
        self._enter(Phase.EDITING)
        self._show_message(words, is_error=is_error)
        self.query_one("#start", Button).focus()

    def _show_state(self, words: str, *, is_error: bool = False) -> None:
        _show(self.query_one("#state", Static), words, is_error=is_error)

    def _show_message(self, words: str, *, is_error: bool = False) -> None:
        _show(self.query_one("#message", Static), words, is_error=is_error)

    def _show_command(self) -> None:
        self.query_one("#command Static", Static).update(Content(sanitize(self._command())))


def _show(static: Static, words: str, *, is_error: bool) -> None:
    static.update(Content(sanitize(words)))
    static.display = bool(words)
    static.set_class(is_error, "-error")


def _counted_faults(count: int) -> str:
    return "one value will not do." if count == 1 else f"{count} values will not do."
