"""The base of the screens with a form: fields, the command line that does the same, and a button that runs it."""

import contextlib
import shlex
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import partial
from threading import Event
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import DescendantFocus
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from harness.core.errors import HarnessError
from harness.core.text import pluralize, sanitize
from harness.core.times import format_duration
from harness.tui.form import Form, changed_values
from harness.tui.saved_state import save_values
from harness.tui.subprocesses import run_command
from harness.tui.widgets.bars import KeyFooter, TopBar
from harness.tui.widgets.form_fields import FieldRow, FormFields

Source = tuple[str, dict[str, str]]
"""The name of a set of values that a form can show, and the values by field key."""


class Phase(Enum):
    """The event that the screen waits for: the fields, a retry, the user, or the command."""

    LOADING = "loading"
    FAILED = "failed"
    EDITING = "editing"
    RUNNING = "running"
    CANCELLING = "cancelling"


_ACTION_PHASES = {
    "start": (Phase.EDITING,),
    "next_values": (Phase.EDITING,),
    "copy_command": (Phase.EDITING, Phase.RUNNING),
    "retry": (Phase.FAILED,),
    # While the command is being cancelled, the form waits for its answer.
    "cancel": tuple(phase for phase in Phase if phase is not Phase.CANCELLING),
}


class FormScreen(Screen[str | None]):
    """Asks for the values of a command and runs it. The result is the id of what was started, or None."""

    AUTO_FOCUS = None
    CSS_PATH = ["form.tcss"]  # noqa: RUF012
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (110, "-wide")]  # noqa: RUF012  as Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-low"), (14, "-high")]  # noqa: RUF012
    # Chords, because letters are typed into fields. Terminals use ctrl+s and ctrl+q for flow control, and an editor
    # around the terminal may use F5; ctrl+r and ctrl+y reach a full-screen program everywhere.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "start", "Start", tooltip="Validate the values and start"),
        Binding("ctrl+t", "next_values", "Preset | defaults", tooltip="Use the preset, last values or defaults"),
        Binding("ctrl+y", "copy_command", "Copy command", tooltip="Copy the command line"),
        Binding("r", "retry", "Retry", tooltip="Read the parameters again"),
        Binding("escape", "cancel", "Back", tooltip="Cancel the command, or close the form"),
    ]
    TAKES_LETTERS: ClassVar[bool] = True
    """True if letters and digits are values, and no keys of the application."""
    TAB: ClassVar[str] = "Runs"
    LABEL: ClassVar[str] = "Start"
    PROGRESS: ClassVar[str] = "starting"

    def __init__(self) -> None:
        super().__init__()
        self._sources: list[Source] = []
        self._source = ""
        self._phase = Phase.LOADING
        self._form = Form((), "", ())
        self._cancelled = Event()
        """Set when the user cancels the running command."""
        self._run_id: str | None = None

    @property
    def awaits_fields(self) -> bool:
        """True until there are fields: what is typed ahead waits for them."""
        return self._phase is Phase.LOADING

    @property
    def is_running_command(self) -> bool:
        """True from the start until the form shows how its command ended."""
        return self._phase in (Phase.RUNNING, Phase.CANCELLING)

    @abstractmethod
    def heading(self) -> Content:
        """Return the object that the command works on."""

    @abstractmethod
    def load(self) -> Form:
        """Return the form as it is now; called in a thread. Raises HarnessError if there is none."""

    @abstractmethod
    def sources(self, form: Form, round_name: str | None) -> list[Source]:
        """Return the values that the form can show, the first ones first. Raises HarnessError if there are none.

        `round_name` is the round that the user has typed, None before that.
        """

    def compose(self) -> ComposeResult:
        yield TopBar(self.TAB)
        yield Static(self.heading(), id="title")
        yield Static(Content(""), id="state")
        with Container(id="body"):
            yield FormFields(id="fields", can_focus=False)
            yield Static(Content(""), id="help")
        yield from self.compose_below()
        with Vertical(id="foot"):
            with VerticalScroll(id="command", can_focus=False):
                yield Static(Content(""))
            with Horizontal(id="start-line"):
                yield Button(self.LABEL, variant="primary", compact=True, id="submit", disabled=True)
                yield Static(Content(""), id="message")
        yield KeyFooter()

    def compose_below(self) -> Iterator[Widget]:
        """Yield the widgets between the fields and the command line."""
        yield from ()

    def on_mount(self) -> None:
        self.set_interval(1.0, self._show_clock)
        self.action_retry()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "next_values" and len(self._sources) < 2:
            return False
        return action not in _ACTION_PHASES or self._phase in _ACTION_PHASES[action]

    # The form.

    def action_retry(self) -> None:
        self.enter(Phase.LOADING)
        self.show_state("Reading the parameters …")
        self._read_form()

    @work(thread=True, exclusive=True, group="schema")
    def _read_form(self) -> None:
        try:
            form = self.load()
            sources = self.sources(form, None)
        except (HarnessError, OSError) as error:
            self.call_later(self._show_load_error, str(error))
            return
        self.call_later(self.show_form, form, sources)

    def _show_load_error(self, reason: str) -> None:
        self.enter(Phase.FAILED)
        self.show_state(reason, is_error=True)

    async def show_form(self, form: Form, sources: list[Source]) -> None:
        """Show the fields with the first of the sources."""
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
        self.show_source()
        fields = self.query_one(FormFields)
        await fields.remove_children()
        await fields.show(self._form, values)
        self.enter(Phase.EDITING)
        self.show_values(values)

    @on(FieldRow.Described)
    def _show_help(self, event: FieldRow.Described) -> None:
        if event.row.has_focus_within:
            self._show_help_of(event.row.field.name, event.row.help)

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Show no help while what has the focus is no field."""
        if not any(isinstance(node, FieldRow) for node in event.widget.ancestors_with_self):
            self._show_help_of("", "")

    def _show_help_of(self, name: str, text: str) -> None:
        panel = self.query_one("#help", Static)
        panel.border_title, panel.visible = Content(sanitize(name)), bool(text)
        panel.update(Content(sanitize(text)))

    def show_source(self) -> None:
        """Show where the values come from."""
        following = self._next_source()[0]
        facts = [f"Values: {self._source}." + (f" ctrl+t: {following}." if following != self._source else "")]
        if self._form.omitted:
            facts.append(f"{self._form.omitted} more parameters have no field: use --set name=value.")
        self.show_state(" ".join(facts))

    @on(FieldRow.Edited)
    def _update_command(self, event: FieldRow.Edited) -> None:
        if event.row.field.key == "--round":
            # Another round has other presets.
            with contextlib.suppress(HarnessError):
                self._sources = self.sources(self._form, event.row.text)
                self.show_source()
        self.show_values(self.query_one(FormFields).values())

    def show_values(self, values: Mapping[str, str]) -> None:
        """Show the command, and what is missing."""
        missing = ", ".join(key.removeprefix("--") for key in self._form.missing(values))
        self.show_message(f"missing: {missing}" if missing else "")
        self.show_command()

    @on(Input.Submitted)
    def _focus_next_field(self) -> None:
        self.focus_next()

    def show_state(self, text: str, *, is_error: bool = False) -> None:
        """Show `text` below the heading."""
        _show_text(self.query_one("#state", Static), text, is_error=is_error)

    # The command.

    def command_line(self) -> list[str]:
        """Return the arguments of `harness` for the values of the form."""
        return self._form.command_line(self.query_one(FormFields).values())

    def show_command(self) -> None:
        """Update the command line."""
        self.query_one("#command Static", Static).update(Content(sanitize(self._shell_command)))

    def action_copy_command(self) -> None:
        """Copy the command line."""
        self.app.copy_to_clipboard(self._shell_command)
        self.show_message("copied.")

    @property
    def _shell_command(self) -> str:
        return shlex.join(["harness", *self.command_line()])

    def show_message(self, text: str, *, is_error: bool = False) -> None:
        """Show `text` after the button."""
        _show_text(self.query_one("#message", Static), text, is_error=is_error)

    @on(Button.Pressed, "#submit")
    def _start(self) -> None:
        self.action_start()

    def action_start(self) -> None:
        self.start("--detach")

    def start(self, *options: str) -> None:
        """Run the command with further options."""
        self._cancelled = Event()
        values = self.query_one(FormFields).values()
        self.enter(Phase.RUNNING)
        self._started_at, self._progress = time.monotonic(), ""
        self._show_clock()
        self._run(self._form, values, options, self._cancelled)

    @work(thread=True, exclusive=True, group="start")
    def _run(self, form: Form, values: dict[str, str], options: tuple[str, ...], cancelled: Event) -> None:
        if errors := form.errors(values):
            self.call_later(self._show_errors, errors)
            return
        try:
            answer = self.answer_of([*form.command_line(values), *options], cancelled)
        except HarnessError as error:
            if errors := form.refused(str(error)):
                self.call_later(self._show_errors, errors)
            else:
                self.call_later(self.return_to_form, str(error), is_error=True)
            return
        if answer is not None:
            save_values(form.name, changed_values(form.fields, values))
        self.call_later(self.show_answer, answer)

    def answer_of(self, command: list[str], cancelled: Event) -> dict[str, Any] | None:
        """Run the command and return its answer, None if it was cancelled; called in a thread."""
        return run_command(command, on_progress=partial(self.call_later, self._show_progress), cancelled=cancelled)

    def _show_progress(self, line: str) -> None:
        """Show the last line of the running command, and since when it runs."""
        self._progress = line
        self._show_clock()

    @property
    def seconds_in_words(self) -> str:
        """The time since the command was started."""
        return format_duration(time.monotonic() - self._started_at)

    def _show_clock(self) -> None:
        if self._phase is Phase.RUNNING:
            self.show_message(f"{self.PROGRESS} … {self.seconds_in_words}  {self._progress}".rstrip())

    def _show_errors(self, errors: dict[str, str]) -> None:
        self.return_to_form(f"{pluralize(len(errors), 'field')} to correct.", is_error=True)
        self.query_one(FormFields).show_errors(errors)

    def show_answer(self, answer: dict[str, Any] | None) -> None:
        """Close the form, or say that the user cancelled: then there is no answer."""
        if answer is None:
            self.return_to_form("cancelled.")
            return
        self._run_id = str(answer["id"])
        if self._cancelled.is_set():
            self.app.notify(f"{self._run_id} was started before it could be cancelled; s stops it.")
        self.on_screen_resume()

    def on_screen_resume(self) -> None:
        """Close the form once the run has started; only the topmost screen can be dismissed."""
        if self._run_id is not None and self.is_current:
            self.dismiss(self._run_id)

    def action_cancel(self) -> None:
        if self._phase is Phase.RUNNING:
            self._cancelled.set()
            self.enter(Phase.CANCELLING)
            self.show_message("cancelling …")
        else:
            # After the present message: a screen that is removed while it mounts widgets ends the application.
            self.call_later(self._close)

    def _close(self) -> None:
        if self.is_current:
            self.dismiss(None)

    def enter(self, phase: Phase) -> None:
        """Show what the phase allows."""
        self._phase = phase
        self.set_class(self.is_running_command or phase is Phase.EDITING, "-form")
        self.query_one(FormFields).disabled = self.is_running_command
        self.query_one("#submit", Button).disabled = phase is not Phase.EDITING
        self.refresh_bindings()

    def return_to_form(self, message: str, *, is_error: bool = False) -> None:
        """Let the user edit the values again, with a message after the button."""
        self.enter(Phase.EDITING)
        self.show_message(message, is_error=is_error)
        self.query_one("#submit", Button).focus()


def _show_text(static: Static, text: str, *, is_error: bool) -> None:
    """Show `text`, in red for an error; without text the widget takes no room."""
    static.update(Content(sanitize(text)))
    static.display = bool(text)
    static.set_class(is_error, "-error")
