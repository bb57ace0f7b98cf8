"""A run made ready for its organizers: the checklist as it turns green, what goes along, and the command for it."""

import contextlib
import shlex
import time
from dataclasses import dataclass
from enum import Enum
from threading import Event
from typing import ClassVar

from textual import on, work
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
from harness.core.times import format_duration
from harness.runs.folder import RunFolder
from harness.tui import packaging
from harness.tui.commands import answer_of
from harness.tui.packaging import FIELDS, Look, Packaged, Packaging
from harness.tui.screens.question import Question
from harness.tui.widgets.checklist import Checklist
from harness.tui.widgets.key_footer import KeyFooter
from harness.tui.widgets.run_fields import RunFields

_LEAST_SECONDS = 2.0
_SHARE_OF_TIME = 0.1
_PROGRESS_SECONDS = 0.5


class Phase(Enum):
    """What the screen waits for: the values that it opens with, the person, or the zip."""

    OPENING = "opening"
    EDITING = "editing"
    PACKAGING = "packaging"


class PackageFields(RunFields):
    """What goes along with the run, and where to."""

    HELP = (
        "Who submits, what is new, and where the zip goes. The right arrow takes the path that is proposed; what is "
        "amiss stands beside a field. One that is left empty means what stands there in grey."
    )


class PackageScreen(Screen[None]):
    """The checklist of one run, going on or over, and the button that packages it."""

    CSS_PATH = ["form.tcss", "package.tcss"]  # noqa: RUF012  as Textual declares it
    HELP = "A run on its way to its organizers: submission, code, description and team in one zip."
    AUTO_FOCUS = None
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (110, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-low"), (16, "-high"), (36, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r,ctrl+s", "package", "Package", tooltip="Write the zip, or say what holds it back"),
        Binding("ctrl+y", "copy_command", "Copy command", tooltip="Copy the command line that packages this run"),
        Binding("escape", "cancel", "Back", tooltip="Back to where you came from; a packaging under way is given up"),
    ]

    @dataclass
    class Opened(Message):
        """The texts that the fields open with."""

        values: dict[str, str]

    @dataclass
    class Looked(Message):
        """The run and its files as they are now."""

        look: Look

    @dataclass
    class Taken(Message):
        """A file stands where the zip is to go."""

    @dataclass
    class Said(Message):
        """The command that packages says how far it is."""

        words: str

    @dataclass
    class Ended(Message):
        """The command has ended: with a zip, with a reason why there is none, or given up."""

        packaged: Packaged | None
        reason: str = ""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__()
        self._folder = folder
        self._packaging = Packaging(folder.id, {field.key: field.default or "" for field in FIELDS})
        self._phase = Phase.OPENING
        self._message: tuple[str, bool] | None = None
        self._began, self._said = 0.0, ""
        self._is_gone, self._look_again, self._given_up = Event(), Event(), Event()

    def compose(self) -> ComposeResult:
        with Vertical(id="header"):
            yield Static(Content(f"Package {sanitize(self._folder.id)}"), id="what")
            yield Static(Content("reading …"), id="who")
        yield PackageFields(id="fields", can_focus=False)
        yield Checklist(id="checklist")
        yield Static(Content(""), id="result")
        with Vertical(id="foot"):
            with VerticalScroll(id="command", can_focus=False):
                yield Static(Content(""))
            with Horizontal(id="start-line"):
                yield Button("Package", variant="primary", compact=True, id="package", disabled=True)
                yield Static(Content(""), id="message")
        yield KeyFooter()

    def on_mount(self) -> None:
        """Read what the fields open with, and begin to look."""
        self.query_one("#checklist").border_title = "checklist"
        self.query_one("#result").display = False
        self._progress = self.set_interval(_PROGRESS_SECONDS, self._show_message, pause=True)
        self._watch()

    def on_unmount(self) -> None:
        """No more looks."""
        self._is_gone.set()
        self._look_again.set()

    # What there is.

    @work(thread=True, exclusive=True, group="watch")
    def _watch(self) -> None:
        values = packaging.opening_values()
        self.post_message(self.Opened(values))
        while not self._is_gone.is_set():
            began = time.monotonic()
            # What packages the run checks it as well, and wants the machine for itself.
            if self._phase is not Phase.PACKAGING:
                self.post_message(self.Looked(packaging.look_at(self._folder, values)))
            self._look_again.wait(max(_LEAST_SECONDS, (time.monotonic() - began) / _SHARE_OF_TIME))
            # Before the values are read: what is typed meanwhile is looked at next.
            self._look_again.clear()
            values = dict(self._packaging.values)

    @on(Opened)
    async def _show_fields(self, event: Opened) -> None:
        self._packaging = self._packaging.edited(event.values)
        await self.query_one(PackageFields).show(FIELDS, event.values)
        self.query_one(Checklist).focus()
        self._phase = Phase.EDITING
        self._show()

    @on(Looked)
    def _take_look(self, event: Looked) -> None:
        self._packaging = self._packaging.looked_at(event.look)
        self._show()

    @on(RunFields.Edited)
    def _edited(self) -> None:
        self._packaging = self._packaging.edited(self.query_one(PackageFields).values())
        self._look_again.set()
        self._clear()

    @on(Input.Submitted)
    def _go_on(self) -> None:
        self.focus_next()

    @on(Checklist.Toggled)
    def _toggle(self, event: Checklist.Toggled) -> None:
        if self._phase is not Phase.EDITING:
            return
        try:
            self._packaging = self._packaging.toggled(event.name)
        except HarnessError as error:
            self._say(str(error), is_error=True)
            return
        self._clear()

    # The zip.

    @on(Button.Pressed, "#package")
    def action_package(self) -> None:
        """Write the zip, unless something holds it back: that is said, and the cursor goes there."""
        self._package(force=False)

    def _package(self, *, force: bool) -> None:
        hindrance = self._packaging.hindrance
        if hindrance is not None:
            self._say(hindrance, is_error=self._packaging.is_looked_at)
            if (name := self._packaging.first_unmet) is not None:
                self.query_one(Checklist).go_to(name)
            return
        self._given_up, self._began, self._said = Event(), time.monotonic(), ""
        self._enter(Phase.PACKAGING)
        self._write(self._packaging, self._given_up, force=force)

    @work(thread=True, exclusive=True, group="package")
    def _write(self, wanted: Packaging, given_up: Event, *, force: bool) -> None:
        worker = get_current_worker()
        with contextlib.suppress(OSError):
            if not force and wanted.destination.exists():
                self.post_message(self.Taken())
                return
        try:
            told = answer_of(
                wanted.command_line(force=force),
                on_words=lambda words: self.post_message(self.Said(words)),
                is_given_up=given_up.is_set,
                is_left_alone=lambda: worker.is_cancelled,
            )
            packaged = None if told is None else packaging.packaged(told)
        except HarnessError as error:
            self.post_message(self.Ended(None, "" if given_up.is_set() else str(error)))
            return
        if packaged is not None:
            packaging.remember(wanted.values)
        self.post_message(self.Ended(packaged))

    @on(Taken)
    def _ask_first(self) -> None:
        def answered(is_yes: bool | None) -> None:
            if is_yes:
                self._package(force=True)

        self._enter(Phase.EDITING)
        self.app.push_screen(
            Question(sanitize(f"{self._packaging.destination} is there already. Replace it?")), answered
        )

    @on(Said)
    def _hear(self, event: Said) -> None:
        self._said = event.words
        self._show_message()

    @on(Ended)
    def _show_end(self, event: Ended) -> None:
        self._enter(Phase.EDITING)
        self._look_again.set()
        if event.packaged is None:
            self._say(event.reason or "given up.", is_error=bool(event.reason))
            return
        self._say(f"packaged in {format_duration(time.monotonic() - self._began)}.")
        first, *others = event.packaged.lines
        lines = [
            Content.styled(f"✓ {sanitize(first)}", "bold $text-success"),
            *(Content(f"  {sanitize(one)}") for one in others),
        ]
        self.query_one("#result", Static).update(Content("\n").join(lines))
        self.query_one("#result").display = True

    def action_cancel(self) -> None:
        """Give up the packaging that is under way, else leave."""
        if self._phase is Phase.PACKAGING:
            self._given_up.set()
            self._show_message()
        else:
            self.dismiss(None)

    def action_copy_command(self) -> None:
        """Copy the command line that packages the run."""
        self.app.copy_to_clipboard(self._command())
        self._say("copied.")

    # What is shown.

    def _command(self) -> str:
        return shlex.join(["harness", *self._packaging.command_line()])

    def _enter(self, phase: Phase) -> None:
        self._phase, self._message = phase, None
        if phase is Phase.PACKAGING:
            self._progress.resume()
            self.query_one("#result").display = False
        else:
            self._progress.pause()
        self.query_one(PackageFields).disabled = phase is Phase.PACKAGING
        self._show()

    def _clear(self) -> None:
        """Forget what was said of values that are no longer these."""
        self._message = None
        self.query_one("#result").display = False
        self._show()

    def _say(self, words: str, *, is_error: bool = False) -> None:
        self._message = words, is_error
        self._show_message()

    def _show(self) -> None:
        state = self._packaging
        with self.app.batch_update():
            if state.look is not None:
                self._show_run(state.look)
                checklist = self.query_one(Checklist)
                checklist.show(state)
                checklist.border_title = Content(f"checklist · {state.tally}")
            self.query_one("#command Static", Static).update(Content(sanitize(self._command())))
            is_ready = self._phase is Phase.EDITING and state.hindrance is None
            self.query_one("#package", Button).disabled = not is_ready
            self._show_message()

    def _show_run(self, look: Look) -> None:
        who = self.query_one("#who", Static)
        who.set_class(look.fault is not None, "-error")
        if look.summary is not None:
            first, second = packaging.run_in_words(look.summary)
            self.query_one("#what", Static).update(Content(f"Package · {sanitize(first)}"))
            who.update(Content(sanitize(second)))
        if look.fault is not None:
            who.update(Content(sanitize(look.fault)))

    def _show_message(self) -> None:
        words, is_error = self._message or (self._packaging.awaited, False)
        if self._phase is Phase.PACKAGING:
            what = "giving up …" if self._given_up.is_set() else self._said or "packaging …"
            words, is_error = f"{format_duration(time.monotonic() - self._began)}  {what}", False
        message = self.query_one("#message", Static)
        message.update(Content(sanitize(words)))
        message.set_class(is_error, "-error")
