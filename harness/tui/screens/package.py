"""The Package screen: the checklist of a run, the files that go with it, and the command that writes the zip."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Button, OptionList, Static
from textual.widgets.option_list import Option

from harness.core.errors import HarnessError
from harness.core.files import write_atomically
from harness.core.text import sanitize
from harness.runs.folder import RunFolder
from harness.submit.checklist import Check
from harness.submit.team import BEGINNINGS
from harness.tui.dialog_results import if_answered
from harness.tui.editor import open_in_editor
from harness.tui.form import Form
from harness.tui.package_state import EDITED_FILES, PackageState, initial_values, package_form, result_lines
from harness.tui.screens.dialogs import ConfirmDialog
from harness.tui.screens.form import FormScreen, Phase, Source

_MIN_POLL_SECONDS = 2.0
_POLL_TIME_SHARE = 0.1
_STYLES = {"✓": "$text-success", "·": "$text-warning", "✗": "bold $text-error", "–": "bold $text-warning"}
_MIN_TEXT_CELLS = 20
_ACCEPTED = "accepted; the manifest records it. Space takes the acceptance back"


class Checklist(OptionList):
    """The checks; the cursor keeps its position when they change."""

    HELP = (
        "The checks before a run is packaged: ✓ met, · met with a remark, ✗ unmet, – accepted. Space accepts an unmet "
        "check where that is possible, and the manifest records it. The checks are repeated automatically."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space,a", "accept", "Accept", tooltip="Accept this unmet check, or take the acceptance back"),
        Binding("e", "edit", "Edit", tooltip="Open the team file or the description in the editor"),
    ]

    @dataclass
    class Toggled(Message):
        """The user accepts the check `name`, or takes the acceptance back."""

        name: str

    @dataclass
    class Edited(Message):
        """The user edits the file that the check `name` is about."""

        name: str

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, compact=True, markup=False)
        self._rows: dict[str, Content] = {}
        self._state: PackageState | None = None

    def show(self, state: PackageState) -> None:
        """Show the checks of `state`."""
        self._state = state
        names = max((len(check.name) for check in state.checks), default=0)
        unmet_first = sorted(state.checks, key=lambda check: check.is_met)
        rows = {check.name: self._row(check, state.sign(check), names) for check in unmet_first}
        if rows == self._rows:
            return
        before, self._rows = self._name_under_cursor, rows
        self.clear_options()
        self.add_options(Option(row, id=name) for name, row in rows.items())
        self.highlighted = self.get_option_index(before) if before in rows else 0
        self.refresh_bindings()

    def on_resize(self) -> None:
        """Wrap the text to the new width."""
        if self._state is not None:
            self.show(self._state)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to accept a check that is unmet or accepted, and to edit where a check is about a file."""
        if action == "edit":
            return self._name_under_cursor in EDITED_FILES
        checks = () if self._state is None else self._state.checks
        return action != "accept" or any(c.name == self._name_under_cursor and not c.is_met for c in checks)

    @property
    def _name_under_cursor(self) -> str:
        return "" if self.highlighted_option is None else self.highlighted_option.id or ""

    def on_option_list_option_highlighted(self) -> None:
        """Show the keys of this check."""
        self.refresh_bindings()

    def action_accept(self) -> None:
        if self._name_under_cursor:
            self.post_message(self.Toggled(self._name_under_cursor))

    def action_edit(self) -> None:
        self.post_message(self.Edited(self._name_under_cursor))

    def _row(self, check: Check, sign: str, names: int) -> Content:
        head = Content.styled(f"{sign} {check.name:<{names}}  ", _STYLES[sign])
        width = max(_MIN_TEXT_CELLS, self.scrollable_content_region.width - head.cell_length)
        lines = Content(sanitize(check.sentence)).wrap(width)
        if not check.is_met:
            advice = f"{check.fix}; or accept it with Space" if check.can_be_accepted else check.fix
            advised = Content(sanitize(_ACCEPTED if sign == "–" else advice)).wrap(width - 2)
            lines += [Content("  " if number else "→ ") + line for number, line in enumerate(advised)]
        return head + Content(f"\n{' ' * head.cell_length}").join(lines)


class PackageScreen(FormScreen):
    """The checklist of one run, which may still be running, and the button that packages it."""

    CSS_PATH = ["form.tcss", "package.tcss"]  # noqa: RUF012  as Textual declares it
    HELP = "Package a run for its organizers: submission, code, description and team in one zip."
    VERTICAL_BREAKPOINTS = [(0, "-low"), (16, "-high")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r,ctrl+s", "start", "Package", tooltip="Write the zip, or show what blocks it"),
    ]
    LABEL = "Package"
    PROGRESS = "packaging"

    def __init__(self, folder: RunFolder) -> None:
        super().__init__()
        self._form = package_form(folder)
        self._state = PackageState(folder, initial_values())
        self._timer: Timer | None = None
        """The timer of the next check; None during a check."""

    def heading(self) -> Content:
        """Return the attack, the round and the score."""
        return Content(f"Package · {sanitize(self._state.header()[0])}")

    def load(self) -> Form:
        """Return the form of the files that go with the run."""
        return self._form

    def sources(self, form: Form, round_name: str | None) -> list[Source]:
        """Return the files of the last packaging, or those that exist."""
        return [("", dict(self._state.values))]

    async def show_form(self, form: Form, sources: list[Source]) -> None:
        """Show the fields, but begin in the checklist."""
        await super().show_form(form, sources)
        self.query_one(Checklist).focus()

    def show_source(self) -> None:
        """Show the run; where the files come from needs no words."""
        self._update()

    def compose_below(self) -> Iterator[Widget]:
        """Yield the checklist, and what was written."""
        yield Checklist(id="checklist")
        yield Static(Content(""), id="result")

    def on_mount(self) -> None:
        self.query_one("#result").display = False
        self._check(self._state)

    # The checklist.

    @work(thread=True, exclusive=True, group="check")
    def _check(self, state: PackageState) -> None:
        started = time.monotonic()
        result = state.check()
        self.call_later(self._apply_check, result, time.monotonic() - started)

    def _apply_check(self, result: PackageState, seconds: float) -> None:
        before = self._state
        self._state = before.with_checks_of(result)
        delay = max(_MIN_POLL_SECONDS, seconds / _POLL_TIME_SHARE) if self._state.is_current else _MIN_POLL_SECONDS / 10
        # Not 0: under load, Textual divides by the delay.
        self._timer = self.set_timer(delay, self._check_again)
        if self._state.status != before.status:
            self._show_status()
        self._update()

    def _check_again(self) -> None:
        """Start the next check now, unless there is one; the packaging checks too, and should have the machine."""
        if self._timer is not None and self._phase is not Phase.RUNNING:
            self._timer.stop()
            self._timer = None
            self._check(self._state)

    def show_values(self, values: Mapping[str, str]) -> None:
        """Check the files again; the message and the result are about earlier ones."""
        self._state = replace(self._state, values=values)
        self._check_again()
        self._show_status()

    @on(Checklist.Toggled)
    def _toggle_accepted(self, event: Checklist.Toggled) -> None:
        if self._phase is Phase.EDITING:
            try:
                self._state = self._state.with_accepted_toggled(event.name)
                self._show_status()
            except HarnessError as error:
                self.show_message(str(error), is_error=True)

    @on(Checklist.Edited)
    def _edit(self, event: Checklist.Edited) -> None:
        """Open the file of a check in the editor; one that does not exist has a beginning."""
        path = self._state.edited_file(event.name)
        try:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, BEGINNINGS[EDITED_FILES[event.name]])
            open_in_editor(self.app, path)
        except (HarnessError, OSError) as error:
            self.show_message(str(error), is_error=True)
        self._check_again()

    # The zip.

    def action_start(self) -> None:
        if (blocker := self._state.blocker) is not None:
            self.show_message(blocker, is_error=self._state.is_current)
            if self._state.unmet:
                checklist = self.query_one(Checklist)
                checklist.highlighted = checklist.get_option_index(self._state.unmet[0])
            return
        with contextlib.suppress(OSError):  # the command says what is wrong with the path
            if self._state.destination.exists():
                question = f"{self._state.destination} already exists. Replace it?"
                replace_zip = if_answered(lambda _: self._package("--force"))
                self.app.push_screen(ConfirmDialog(sanitize(question)), replace_zip)
                return
        self._package()

    def _package(self, *options: str) -> None:
        self.query_one("#result").display = False
        self.start(*self._state.options, *options)

    def command_line(self) -> list[str]:
        """Return the arguments of `harness` that package the run."""
        return [*super().command_line(), *self._state.options]

    def show_answer(self, answer: dict[str, Any] | None) -> None:
        """Show what was written."""
        self.return_to_form("cancelled." if answer is None else f"packaged in {self.seconds_in_words}.")
        if answer is not None:
            zip_, *facts = map(sanitize, result_lines(answer))
            lines = [Content.styled(f"✓ {zip_}", "bold $text-success"), *(Content(f"  {fact}") for fact in facts)]
            self.query_one("#result", Static).update(Content("\n").join(lines))
            self.query_one("#result").display = True

    def enter(self, phase: Phase) -> None:
        """Show what the phase and the checklist allow."""
        super().enter(phase)
        self._check_again()
        self._update()

    def _show_status(self) -> None:
        """Replace the message and the result, which are about an earlier state, with the state of the checklist."""
        self.query_one("#result").display = False
        if self._phase is Phase.EDITING:
            self.show_message(self._state.status)
        self._update()

    def _update(self) -> None:
        state = self._state
        with self.app.batch_update():
            self.query_one("#title", Static).update(self.heading())
            self.show_state(state.header()[1], is_error=state.fault is not None)
            checklist = self.query_one(Checklist)
            checklist.show(state)
            checklist.border_title = Content(f"Checklist · {state.counts}" if state.checks else "Checklist")
            self.show_command()
            self.query_one("#submit", Button).disabled = self._phase is not Phase.EDITING or state.blocker is not None
