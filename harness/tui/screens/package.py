"""The Package screen: the checklist of a run, the files that go with it, and the command that writes the zip."""

import contextlib
import time
from enum import Enum
from functools import partial
from threading import Event
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Button, Static

from harness.core.errors import HarnessError
from harness.core.text import sanitize
from harness.core.times import format_duration
from harness.runs.folder import RunFolder
from harness.tui import package_state
from harness.tui.package_state import FIELDS, PackageResult, PackageSnapshot, PackageState
from harness.tui.screens.dialogs import ConfirmDialog
from harness.tui.screens.form import FormScreen
from harness.tui.subprocesses import run_command
from harness.tui.widgets.bars import TopBar
from harness.tui.widgets.checklist import Checklist
from harness.tui.widgets.form_fields import FormFields

_MIN_POLL_SECONDS = 2.0
_POLL_TIME_SHARE = 0.1
_CLOCK_SECONDS = 0.5


class Phase(Enum):
    """The event that the screen waits for: the initial values, the user, or the zip."""

    OPENING = "opening"
    EDITING = "editing"
    PACKAGING = "packaging"


class PackageFields(FormFields):
    """The files that go with the run, and the destination."""

    HELP = (
        "The team, the description and the destination of the zip. The right arrow completes a path; errors appear "
        "beside the field. An empty field uses the value shown in grey."
    )


class PackageScreen(FormScreen[None]):
    """The checklist of one run, which may still be running, and the button that packages it."""

    CSS_PATH = ["form.tcss", "package.tcss"]  # noqa: RUF012  as Textual declares it
    HELP = "Package a run for its organizers: submission, code, description and team in one zip."
    VERTICAL_BREAKPOINTS = [(0, "-low"), (16, "-high"), (36, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r,ctrl+s", "package", "Package", tooltip="Write the zip, or show what blocks it"),
        Binding("ctrl+y", "copy_command", "Copy command", tooltip="Copy the command line that packages this run"),
        Binding("escape", "cancel", "Back", tooltip="Cancel the packaging, or close the screen"),
    ]

    def __init__(self, folder: RunFolder) -> None:
        super().__init__()
        self._folder = folder
        self._state = PackageState(folder.id, {field.key: field.default or "" for field in FIELDS})
        self._phase = Phase.OPENING
        self._message: tuple[str, bool] | None = None
        self._started_at, self._progress_line = 0.0, ""
        self._is_closed, self._poll_now = Event(), Event()

    def compose(self) -> ComposeResult:
        yield TopBar()
        with Vertical(id="header"):
            yield Static(Content(f"Package {sanitize(self._folder.id)}"), id="what")
            yield Static(Content("reading …"), id="who")
        yield PackageFields(id="fields", can_focus=False)
        yield Checklist(id="checklist")
        yield Static(Content(""), id="result")
        yield from self.compose_foot("Package")

    def on_mount(self) -> None:
        self.query_one("#checklist").border_title = "Checklist"
        self.query_one("#result").display = False
        self._clock = self.set_interval(_CLOCK_SECONDS, self._update_message, pause=True)
        self._poll()

    def on_unmount(self) -> None:
        self._is_closed.set()
        self._poll_now.set()

    # The checklist.

    @work(thread=True, exclusive=True, group="poll")
    def _poll(self) -> None:
        values = package_state.initial_values()
        self.call_later(self._show_fields, values)
        while not self._is_closed.is_set():
            started = time.monotonic()
            # The packaging command runs the same checks, and should have the machine to itself.
            if self._phase is not Phase.PACKAGING:
                self.call_later(self._apply_snapshot, package_state.read_snapshot(self._folder, values))
            self._poll_now.wait(max(_MIN_POLL_SECONDS, (time.monotonic() - started) / _POLL_TIME_SHARE))
            # Before the values are read: an edit after this starts the next poll at once.
            self._poll_now.clear()
            values = dict(self._state.values)

    async def _show_fields(self, values: dict[str, str]) -> None:
        self._state = self._state.with_values(values)
        await self.query_one(PackageFields).show(FIELDS, values)
        self.query_one(Checklist).focus()
        self._phase = Phase.EDITING
        self._update()

    def _apply_snapshot(self, snapshot: PackageSnapshot) -> None:
        before = self._state.counts
        self._state = self._state.with_snapshot(snapshot)
        if self._state.counts != before and self._message is not None and self._message[1]:
            # A refusal is about the checks before.
            self._message = None
        self._update()

    @on(FormFields.Edited)
    def _apply_edit(self) -> None:
        self._state = self._state.with_values(self.query_one(PackageFields).values())
        self._poll_now.set()
        self._clear_message()

    @on(Checklist.Toggled)
    def _toggle_accepted(self, event: Checklist.Toggled) -> None:
        if self._phase is not Phase.EDITING:
            return
        try:
            self._state = self._state.with_accepted_toggled(event.name)
        except HarnessError as error:
            self.show_message(str(error), is_error=True)
            return
        self._clear_message()

    # The zip.

    @on(Button.Pressed, "#submit")
    def action_package(self) -> None:
        self._package(force=False)

    def _package(self, *, force: bool) -> None:
        if (blocker := self._state.blocker) is not None:
            self.show_message(blocker, is_error=self._state.is_current)
            if self._state.unmet:
                self.query_one(Checklist).go_to(self._state.unmet[0])
            return
        self._cancelled, self._started_at, self._progress_line = Event(), time.monotonic(), ""
        self._enter(Phase.PACKAGING)
        self._write(self._state, self._cancelled, force=force)

    @work(thread=True, exclusive=True, group="package")
    def _write(self, state: PackageState, cancelled: Event, *, force: bool) -> None:
        with contextlib.suppress(OSError):
            if not force and state.destination.exists():
                self.call_later(self._ask_to_replace)
                return
        try:
            command = state.command_line(force=force)
            answer = run_command(
                command, on_progress=partial(self.call_later, self._show_progress), cancelled=cancelled
            )
            result = None if answer is None else package_state.parse_result(answer)
        except HarnessError as error:
            self.call_later(self._show_result, None, "" if cancelled.is_set() else str(error))
            return
        if result is not None:
            package_state.save_initial_values(state.values)
        self.call_later(self._show_result, result)

    def _ask_to_replace(self) -> None:
        def answered(is_confirmed: bool | None) -> None:
            if is_confirmed:
                self._package(force=True)

        self._enter(Phase.EDITING)
        question = f"{self._state.destination} already exists. Replace it?"
        self.app.push_screen(ConfirmDialog(sanitize(question)), answered)

    def _show_progress(self, line: str) -> None:
        self._progress_line = line
        self._update_message()

    def _show_result(self, result: PackageResult | None, error: str = "") -> None:
        self._enter(Phase.EDITING)
        self._poll_now.set()
        if result is None:
            self.show_message(error or "cancelled.", is_error=bool(error))
            return
        self.show_message(f"packaged in {format_duration(time.monotonic() - self._started_at)}.")
        first, *others = result.lines
        lines = [
            Content.styled(f"✓ {sanitize(first)}", "bold $text-success"),
            *(Content(f"  {sanitize(one)}") for one in others),
        ]
        self.query_one("#result", Static).update(Content("\n").join(lines))
        self.query_one("#result").display = True

    def action_cancel(self) -> None:
        if self._phase is Phase.PACKAGING:
            self._cancelled.set()
            self._update_message()
        else:
            self.dismiss(None)

    def command_lines(self) -> list[list[str]]:
        """Return the arguments of `harness` that package the run."""
        return [self._state.command_line()]

    def _enter(self, phase: Phase) -> None:
        self._phase, self._message = phase, None
        if phase is Phase.PACKAGING:
            self._clock.resume()
            self.query_one("#result").display = False
        else:
            self._clock.pause()
        self.query_one(PackageFields).disabled = phase is Phase.PACKAGING
        self._update()

    def _clear_message(self) -> None:
        """Remove the message and the result, which are about earlier values."""
        self._message = None
        self.query_one("#result").display = False
        self._update()

    def show_message(self, text: str, *, is_error: bool = False) -> None:
        """Show `text` beside the button until the values change."""
        self._message = text, is_error
        self._update_message()

    def _update(self) -> None:
        state = self._state
        with self.app.batch_update():
            if state.snapshot is not None:
                self._show_run(state.snapshot)
                checklist = self.query_one(Checklist)
                checklist.show(state)
                checklist.border_title = Content(f"Checklist · {state.counts}")
            self.show_command()
            is_ready = self._phase is Phase.EDITING and state.blocker is None
            self.query_one("#submit", Button).disabled = not is_ready
            self._update_message()

    def _show_run(self, snapshot: PackageSnapshot) -> None:
        who = self.query_one("#who", Static)
        who.set_class(snapshot.fault is not None, "-error")
        if snapshot.summary is not None:
            first, second = package_state.run_header(snapshot.summary)
            self.query_one("#what", Static).update(Content(f"Package · {sanitize(first)}"))
            who.update(Content(sanitize(second)))
        if snapshot.fault is not None:
            who.update(Content(sanitize(snapshot.fault)))

    def _update_message(self) -> None:
        text, is_error = self._message or (self._state.status, False)
        if self._phase is Phase.PACKAGING:
            progress = "cancelling …" if self._cancelled.is_set() else self._progress_line or "packaging …"
            text, is_error = f"{format_duration(time.monotonic() - self._started_at)}  {progress}", False
        super().show_message(text, is_error=is_error)
