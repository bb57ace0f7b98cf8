"""The Package screen: the checklist of a run, the files that go with it, and the command that writes the zip."""

import contextlib
import time
from dataclasses import replace
from functools import partial
from threading import Event
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Button, Static

from harness.core.errors import HarnessError
from harness.core.text import sanitize
from harness.core.times import format_duration
from harness.runs.folder import RunFolder
from harness.tui.package_state import FIELDS, PackageState, initial_values, result_lines, save_initial_values
from harness.tui.screens.dialogs import ConfirmDialog
from harness.tui.screens.form import FormScreen
from harness.tui.subprocesses import run_command
from harness.tui.widgets.bars import TopBar
from harness.tui.widgets.checklist import Checklist
from harness.tui.widgets.form_fields import FieldRow, FormFields

_MIN_POLL_SECONDS = 2.0
_POLL_TIME_SHARE = 0.1
_CLOCK_SECONDS = 0.5


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
        self._state = PackageState(folder, initial_values())
        self._message: tuple[str, bool] | None = None
        self._timer: Timer | None = None
        """The timer of the next check; None during a check."""
        self._packaging_since: float | None = None
        self._progress_line = ""

    def compose(self) -> ComposeResult:
        yield TopBar()
        with Vertical(id="header"):
            yield Static(id="what")
            yield Static(id="who")
        yield FormFields(id="fields", can_focus=False)
        yield Checklist(id="checklist")
        yield Static(Content(""), id="result")
        yield from self.compose_foot("Package")

    def on_mount(self) -> None:
        self.query_one("#result").display = False
        self.set_interval(_CLOCK_SECONDS, self._update_message)
        self._update()
        self.call_later(self._show_fields)
        self._check(self._state)

    async def _show_fields(self) -> None:
        await self.query_one(FormFields).show(FIELDS, self._state.values)
        self.query_one(Checklist).focus()

    # The checklist.

    @work(thread=True, exclusive=True, group="check")
    def _check(self, state: PackageState) -> None:
        started = time.monotonic()
        checked = state.checked()
        self.call_later(self._apply_check, checked, time.monotonic() - started)

    def _apply_check(self, checked: PackageState, seconds: float) -> None:
        before = self._state.counts
        self._state = self._state.updated(checked)
        if self._state.counts != before and self._message is not None and self._message[1]:
            # A refusal is about the checks before.
            self._message = None
        delay = max(_MIN_POLL_SECONDS, seconds / _POLL_TIME_SHARE) if self._state.is_current else 0.0
        self._timer = self.set_timer(delay, self._check_again)
        self._update()

    def _check_again(self) -> None:
        """Start the next check now, unless there is one; the packaging checks too, and should have the machine."""
        if self._timer is not None and self._packaging_since is None:
            self._timer.stop()
            self._timer = None
            self._check(self._state)

    @on(FieldRow.Edited)
    def _apply_edit(self) -> None:
        self._state = replace(self._state, values=self.query_one(FormFields).values())
        self._check_again()
        self._clear_message()

    @on(Checklist.Toggled)
    def _toggle_accepted(self, event: Checklist.Toggled) -> None:
        if self._packaging_since is None:
            try:
                self._state = self._state.with_accepted_toggled(event.name)
                self._clear_message()
            except HarnessError as error:
                self.show_message(str(error), is_error=True)

    # The zip.

    @on(Button.Pressed, "#submit")
    def action_package(self) -> None:
        self._package(force=False)

    def _package(self, *, force: bool) -> None:
        if self._packaging_since is not None:
            return
        if (blocker := self._state.blocker) is not None:
            self.show_message(blocker, is_error=self._state.is_current)
            if self._state.unmet:
                self.query_one(Checklist).go_to(self._state.unmet[0])
            return
        self._cancelled, self._packaging_since, self._progress_line = Event(), time.monotonic(), ""
        self._clear_message()
        self._write(self._state, self._cancelled, force=force)

    @work(thread=True, exclusive=True, group="package")
    def _write(self, state: PackageState, cancelled: Event, *, force: bool) -> None:
        with contextlib.suppress(OSError):
            if not force and state.destination.exists():
                self.call_later(self._ask_to_replace)
                return
        try:
            on_progress = partial(self.call_later, self._show_progress)
            answer = run_command(state.command_line(force=force), on_progress=on_progress, cancelled=cancelled)
        except HarnessError as error:
            self.call_later(self._show_result, None, "" if cancelled.is_set() else str(error))
            return
        if answer is not None:
            save_initial_values(state.values)
        self.call_later(self._show_result, answer)

    def _ask_to_replace(self) -> None:
        def answered(is_confirmed: bool | None) -> None:
            if is_confirmed:
                self._package(force=True)

        self._packaging_since = None
        self._check_again()
        self._update()
        question = f"{self._state.destination} already exists. Replace it?"
        self.app.push_screen(ConfirmDialog(sanitize(question)), answered)

    def _show_progress(self, line: str) -> None:
        self._progress_line = line
        self._update_message()

    def _show_result(self, answer: dict[str, Any] | None, error: str = "") -> None:
        seconds = time.monotonic() - (self._packaging_since or 0.0)
        self._packaging_since = None
        self._check_again()
        self._message = (f"packaged in {format_duration(seconds)}.", False)
        if answer is None:
            self._message = (error or "cancelled.", bool(error))
        else:
            zip_, *facts = map(sanitize, result_lines(answer))
            lines = [Content.styled(f"✓ {zip_}", "bold $text-success"), *(Content(f"  {fact}") for fact in facts)]
            self.query_one("#result", Static).update(Content("\n").join(lines))
            self.query_one("#result").display = True
        self._update()

    def action_cancel(self) -> None:
        if self._packaging_since is None:
            self.close()
        else:
            self._cancelled.set()
            self._update_message()

    def command_lines(self) -> list[list[str]]:
        """Return the arguments of `harness` that package the run."""
        return [self._state.command_line()]

    def _clear_message(self) -> None:
        """Remove the message and the result, which are about earlier values."""
        self._message = None
        self.query_one("#result").display = False
        self._update()

    def show_message(self, text: str, *, is_error: bool = False) -> None:
        """Show `text` after the button until the values change."""
        self._message = text, is_error
        self._update_message()

    def _update(self) -> None:
        state, is_packaging = self._state, self._packaging_since is not None
        with self.app.batch_update():
            what, who = state.header()
            self.query_one("#what", Static).update(Content(f"Package · {sanitize(what)}"))
            self.query_one("#who", Static).update(Content(sanitize(who)))
            self.query_one("#who", Static).set_class(state.fault is not None, "-error")
            checklist = self.query_one(Checklist)
            checklist.show(state)
            checklist.border_title = Content(f"Checklist · {state.counts}")
            self.show_command()
            self.query_one(FormFields).disabled = is_packaging
            self.query_one("#submit", Button).disabled = is_packaging or state.blocker is not None
            self._update_message()

    def _update_message(self) -> None:
        text, is_error = self._message or (self._state.status, False)
        if self._packaging_since is not None:
            progress = "cancelling …" if self._cancelled.is_set() else self._progress_line or "packaging …"
            text, is_error = f"{format_duration(time.monotonic() - self._packaging_since)}  {progress}", False
        super().show_message(text, is_error=is_error)
