"""The bases of the screens with a form: its fields, the command line that does the same, and how the command runs."""

import contextlib
import math
import secrets
import shlex
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import partial
from threading import Event
from typing import ClassVar, TypeVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from harness.core.errors import HarnessError
from harness.core.text import pluralize, sanitize
from harness.tui.form import Form, changed_values
from harness.tui.form_history import save_values
from harness.tui.run_list import HEADING
from harness.tui.subprocesses import run_command
from harness.tui.widgets.bars import KeyFooter, TopBar
from harness.tui.widgets.form_fields import FieldRow, FormFields

ResultT = TypeVar("ResultT")
_MAX_COMMANDS = 3


class FormScreen(Screen[ResultT]):
    """Has `#command` with the command line, the button `#submit`, and `#message` after it."""

    AUTO_FOCUS = None
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (110, "-wide")]  # noqa: RUF012  as Textual declares it

    def __init__(self) -> None:
        super().__init__()
        self._cancelled = Event()
        """Set when the user cancels the running command."""

    @abstractmethod
    def command_lines(self) -> list[list[str]]:
        """Return the arguments of `harness` for the values of the form, or of each of several commands."""

    def compose_foot(self, label: str) -> Iterator[Widget]:
        """Yield the command line, the button and the message, and the footer."""
        with Vertical(id="foot"):
            with VerticalScroll(id="command", can_focus=False):
                yield Static(Content(""))
            with Horizontal(id="start-line"):
                yield Button(label, variant="primary", compact=True, id="submit", disabled=True)
                yield Static(Content(""), id="message")
        yield KeyFooter()

    def action_copy_command(self) -> None:
        """Copy the command line."""
        self.app.copy_to_clipboard("\n".join(self._shell_commands()))
        self.show_message("copied.")

    def show_command(self) -> None:
        """Update the command line; of many, the first ones are shown."""
        commands = self._shell_commands()
        shown = commands[:_MAX_COMMANDS]
        if len(commands) > len(shown):
            shown = [*shown[:-1], f"… and {len(commands) - len(shown) + 1} more"]
        self.query_one("#command Static", Static).update(Content("\n".join(map(sanitize, shown))))

    def show_message(self, text: str, *, is_error: bool = False) -> None:
        """Show `text` after the button."""
        show_text(self.query_one("#message", Static), text, is_error=is_error)

    def close(self) -> None:
        """Close the screen without a result."""
        # After the present message: a screen that is removed while it mounts widgets ends the application.
        self.call_later(self._close)

    def _close(self) -> None:
        self.dismiss(None)

    def _shell_commands(self) -> list[str]:
        return [shlex.join(["harness", *line]) for line in self.command_lines()]

    @on(Input.Submitted)
    def _focus_next_field(self) -> None:
        self.focus_next()


def show_text(static: Static, text: str, *, is_error: bool = False) -> None:
    """Show `text`, in red for an error; without text the widget takes no room."""
    static.update(Content(sanitize(text)))
    static.display = bool(text)
    static.set_class(is_error, "-error")


Source = tuple[str, dict[str, str]]
"""The name of a set of values that a form can show, and the values by field key."""


class Phase(Enum):
    """The event that the screen waits for: the fields, a retry, the user, or the run."""

    LOADING = "loading"
    FAILED = "failed"
    EDITING = "editing"
    STARTING = "starting"
    CANCELLING = "cancelling"


_ACTION_PHASES = {
    "start": (Phase.EDITING,),
    "next_values": (Phase.EDITING,),
    "copy_command": (Phase.EDITING, Phase.STARTING),
    "retry": (Phase.FAILED,),
    # Once the start is being cancelled, the form waits for the answer of the command.
    "cancel": tuple(phase for phase in Phase if phase is not Phase.CANCELLING),
}


class StartScreen(FormScreen[str | None]):
    """Asks for the values of a command and runs it, or several times for numbers with commas between them.

    The result is the id of what was started if it is one, or None.
    """

    CSS_PATH = "form.tcss"
    VERTICAL_BREAKPOINTS = [(0, "-low"), (14, "-high"), (36, "-tall")]  # noqa: RUF012
    # Chords, because letters are typed into fields. Terminals use ctrl+s and ctrl+q for flow control, and an editor
    # around the terminal may use F5; ctrl+r and ctrl+y reach a full-screen program everywhere.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "start", "Start", tooltip="Validate the values and start"),
        Binding("ctrl+t", "next_values", "Preset | defaults", tooltip="Use the preset, last values or defaults"),
        Binding("ctrl+y", "copy_command", "Copy command", tooltip="Copy the command line"),
        Binding("r", "retry", "Retry", tooltip="Read the parameters again"),
        Binding("escape", "cancel", "Back", tooltip="Cancel the start, or close the form"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._sources: list[Source] = []
        self._source = ""
        self._phase = Phase.LOADING
        self._form = Form((), ())
        self._run_id: str | None = None
        self._suffix = secrets.token_hex(2)
        """The end of the name of a group, which several values make."""

    @abstractmethod
    def heading(self) -> Content:
        """Return what is started."""

    @abstractmethod
    def load(self, *, is_retry: bool) -> Form:
        """Return the form; called in a thread. Raises HarnessError if there is none."""

    @abstractmethod
    def sources(self, form: Form, round_name: str | None) -> list[Source]:
        """Return the values that the form can show, the first ones first. Raises HarnessError if there are none.

        `round_name` is the round that the user has typed, None before that.
        """

    def compose(self) -> ComposeResult:
        yield TopBar()
        yield Static(self.heading(), id="title")
        yield Static(Content(""), id="state")
        yield FormFields(id="fields", can_focus=False)
        yield from self.compose_foot("Start")

    def on_mount(self) -> None:
        self._load(is_retry=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "next_values" and len(self._sources) < 2:
            return False
        return action not in _ACTION_PHASES or self._phase in _ACTION_PHASES[action]

    # The form.

    def action_retry(self) -> None:
        self._load(is_retry=True)

    def _load(self, *, is_retry: bool) -> None:
        self._enter(Phase.LOADING)
        self._show_state("Reading the parameters …")
        self._read_form(is_retry=is_retry)

    @work(thread=True, exclusive=True, group="schema")
    def _read_form(self, *, is_retry: bool) -> None:
        try:
            form = self.load(is_retry=is_retry)
            sources = self.sources(form, None)
        except (HarnessError, OSError) as error:
            self.call_later(self._show_load_error, str(error))
            return
        self.call_later(self._show_form, form, sources)

    def _show_load_error(self, reason: str) -> None:
        self._enter(Phase.FAILED)
        self._show_state(reason, is_error=True)

    async def _show_form(self, form: Form, sources: list[Source]) -> None:
        self._form, self._sources = form, sources
        await self._fill(*sources[0])

    def action_next_values(self) -> None:
        self.call_later(self._fill, *self._next_source())

    def _next_source(self) -> Source:
        names = [name for name, _ in self._sources]
        following = names.index(self._source) + 1 if self._source in names else 0
        return self._sources[following % len(names)]

    async def _fill(self, name: str, values: dict[str, str]) -> None:
        """Show the fields with the values of a source."""
        self._source = name
        self._show_source()
        fields = self.query_one(FormFields)
        await fields.remove_children()
        await fields.show(self._form.fields, values)
        self._enter(Phase.EDITING)
        self._show_start(values)

    def _show_source(self) -> None:
        following = self._next_source()[0]
        facts = [f"Values: {self._source}." + (f" ctrl+t: {following}." if following != self._source else "")]
        if self._form.command[0] == "run":
            facts.append("Several numbers with commas start several runs.")
        if self._form.omitted:
            facts.append(f"{self._form.omitted} more parameters have no field: use --set name=value.")
        self._show_state(" ".join(facts))

    @on(FieldRow.Edited)
    def _update_command(self, event: FieldRow.Edited) -> None:
        values = self.query_one(FormFields).values()
        if event.row.field.key == "--round":
            # Another round has other presets.
            with contextlib.suppress(HarnessError):
                self._sources = self.sources(self._form, event.row.text)
                self._show_source()
        self._show_start(values)

    def _show_start(self, values: Mapping[str, str]) -> None:
        """Show the command, and how many runs it starts if all values are valid."""
        fields = [field for field in self._form.fields if field.key in values]
        runs = math.prod(len(field.alternatives(values[field.key])) for field in fields)
        is_valid = runs > 1 and all(field.error(values[field.key]) is None for field in fields)
        self.show_message(f"starts {runs} runs" if is_valid else "")
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
        errors = {field.key: error for field in form.fields if (error := field.error(values[field.key]))}
        if errors:
            self.call_later(self._show_errors, errors)
            return
        started: list[str] = []
        try:
            commands = form.command_lines(values, group=self._group)
            save_values(form.name, changed_values(form.fields, values))
            for number, command in enumerate(commands, 1):
                place = f"{number} of {len(commands)}: " if len(commands) > 1 else ""
                on_progress = partial(self.call_later, self._show_progress, place)
                on_progress("")
                answer = run_command([*command, "--detach"], on_progress=on_progress, cancelled=cancelled)
                if answer is not None:
                    started.append(str(answer["id"]))
                if answer is None or cancelled.is_set():
                    break
        except HarnessError as error:
            more = f" {pluralize(len(started), 'run')} before it started." if started else ""
            if errors := form.refused(str(error)):
                self.call_later(self._show_errors, errors, more)
            else:
                self.call_later(self._return_to_form, f"{error}{more}", is_error=True)
            return
        if not started:
            self.call_later(self._return_to_form, "cancelled before the run started.")
        elif len(commands) == 1:
            if cancelled.is_set():
                self.app.notify(f"{started[0]} was started before it could be cancelled; s stops it.", markup=False)
            self.call_later(self._close_with_run, started[0])
        elif len(started) < len(commands):
            had_started = f"{pluralize(len(started), 'run')} of the group {self._group} had started"
            self.call_later(self._return_to_form, f"cancelled; {had_started}.")
        else:
            self.app.notify(f"Started {pluralize(len(started), 'run')} in the group {self._group}.", markup=False)
            self.call_later(self._close_with_run, f"{HEADING}{self._group}")

    def _show_progress(self, place: str, line: str) -> None:
        if self._phase is Phase.STARTING:
            self.show_message(f"starting {place}… {line}".rstrip())

    def _show_errors(self, errors: dict[str, str], more: str = "") -> None:
        self._return_to_form(f"{pluralize(len(errors), 'invalid value')}.{more}", is_error=True)
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
            self._enter(Phase.CANCELLING)
            self.show_message("cancelling …")
        else:
            self.close()

    def command_lines(self) -> list[list[str]]:
        """Return the arguments of `harness` that start the same."""
        try:
            return self._form.command_lines(self.query_one(FormFields).values(), group=self._group)
        except HarnessError:
            return [list(self._form.command)]

    @property
    def _group(self) -> str:
        return f"{self._form.command[-1]}-{self._suffix}"

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        is_running = phase in (Phase.STARTING, Phase.CANCELLING)
        self.set_class(is_running or phase is Phase.EDITING, "-form")
        self.query_one(FormFields).disabled = is_running
        self.query_one("#submit", Button).disabled = phase is not Phase.EDITING
        self.refresh_bindings()

    def _return_to_form(self, message: str, *, is_error: bool = False) -> None:
        self._enter(Phase.EDITING)
        self.show_message(message, is_error=is_error)
        self.query_one("#submit", Button).focus()

    def _show_state(self, text: str, *, is_error: bool = False) -> None:
        show_text(self.query_one("#state", Static), text, is_error=is_error)
