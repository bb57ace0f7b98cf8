"""The actions on a run from the list and from its own screen, with the same keys."""

import os
import webbrowser
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from textual import work
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.text import pluralize, sanitize, shorten
from harness.runs.folder import RunFolder, add_tags, check_tag, remove_tags, tags_of
from harness.runs.launch import stop_run
from harness.runs.queue import Move, move_in_queue
from harness.runs.status import Status
from harness.runs.trash import restorable, restore
from harness.tui.subprocesses import run_command

_MAX_LISTED = 8
RUN_BINDINGS: list[BindingType] = [
    Binding("s", "stop", "Stop", show=False, tooltip="Stop the run; it can be resumed"),
    Binding("r", "resume", "Resume", show=False, tooltip="Resume the run with the rest of its budget"),
    Binding("p", "package", "Package", tooltip="Package the run for its organizers"),
    Binding("R", "report", "Report", show=False, tooltip="Write the run's report and open it in the browser"),
    Binding("d", "duplicate", "Duplicate", show=False, tooltip="Open the form with the values of this run"),
    Binding("t", "tag", "Tags", show=False, tooltip="Change the tags of the run"),
    Binding("K", "queue('up')", "Up the queue", show=False, tooltip="Let a queued run start earlier"),
    Binding("J", "queue('down')", "Down the queue", show=False, tooltip="Let a queued run start later"),
    Binding("i", "note", "Note", show=False, tooltip="Write a note about the run"),
    Binding("x,delete", "delete", "Delete", show=False, tooltip="Delete the run, or the marked runs if it is marked"),
    Binding("u", "restore", "Restore", show=False, tooltip="Restore what was deleted last, within a day"),
    Binding("y", "copy_id", "Copy id", show=False, tooltip="Copy the id of the run"),
]


class RunActions(Widget):
    """The actions of RUN_BINDINGS. A subclass says which run they are about.

    It comes last among the bases: Textual takes styles and component classes only from the first base that is a widget.
    """

    class Duplicated(Message):
        """The user wants a form with the values of a run."""

        def __init__(self, folder: RunFolder) -> None:
            super().__init__()
            self.folder = folder

    @abstractmethod
    def run_under_action(self) -> RunFolder | None:
        """Return the run that the actions are about; None if there is none."""

    @abstractmethod
    def status_under_action(self) -> Status | None:
        """Return the status of that run; None if it is unknown."""

    def runs_to_delete(self) -> list[RunFolder]:
        """Return the runs that Delete deletes."""
        folder = self.run_under_action()
        return [] if folder is None else [folder]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable what the run is not in a state for: stop after its end, resume before it, a place in no queue."""
        if action == "queue":
            return self.status_under_action() is Status.QUEUED
        if action in ("stop", "resume") and (status := self.status_under_action()) is not None:
            if action == "stop":
                return not status.is_over
            return status.is_over and status not in (Status.FINISHED, Status.OUT_OF_TIME)
        return super().check_action(action, parameters)

    def action_stop(self) -> None:
        if (folder := self.run_under_action()) is not None:
            question = f"Stop {folder.id}? Its results are kept, and it can be resumed."
            self._ask(question, lambda: self._stop(folder))

    def action_resume(self) -> None:
        if (folder := self.run_under_action()) is not None:
            question = f"Resume {folder.id} with the rest of its budget?"
            self._ask(question, lambda: self._command(["resume", folder.id, "--detach"], f"{folder.id} was resumed."))

    def action_delete(self) -> None:
        ids = [folder.id for folder in self.runs_to_delete()]
        if ids:
            self._ask(self.deletion_question(ids), lambda: self._delete(ids), deletes=True)

    def deletion_question(self, ids: list[str]) -> str:
        """Return the question before a deletion; it names the runs."""
        listed = ids if len(ids) <= _MAX_LISTED else [*ids[:_MAX_LISTED], f"and {len(ids) - _MAX_LISTED} more"]
        noun = f"Delete {ids[0]}" if len(ids) == 1 else f"Delete {pluralize(len(ids), 'marked run')}"
        names = [] if len(ids) == 1 else ["", *(f"  {name}" for name in listed), ""]
        return "\n".join([f"{noun}, with all results?", *names, "u restores what was deleted, for a day."])

    @work(thread=True, group="verbs")
    def _delete(self, ids: list[str]) -> None:
        try:
            run_command(["runs", "rm", "--force", "--yes", *ids], on_progress=self._say)
        except HarnessError as error:
            self._say(str(error), is_error=True)
        else:
            self._say(
                f"Deleted {pluralize(len(ids), 'run')}. u restores {'it' if len(ids) == 1 else 'them'} for a day."
            )
            self.call_later(self.after_deletion, ids)

    def after_deletion(self, ids: list[str]) -> None:
        """Update what refers to the runs that were deleted."""

    @work(thread=True, group="verbs")
    def action_restore(self) -> None:
        """Restore what was deleted last."""
        found = restorable()
        last = [one for one in found if one.deleted_at == found[0].deleted_at]
        try:
            for one in last:
                restore(one)
        except HarnessError as error:
            self._say(str(error), is_error=True)
            return
        ids = dict.fromkeys(one.id for one in last)
        self._say(f"Restored {shorten(', '.join(ids))}." if ids else "Nothing was deleted within the last day.")

    def action_note(self) -> None:
        folder = self.run_under_action()
        if folder is None:
            return

        def named(text: str | None) -> None:
            if text is not None:
                self._command(["runs", "note", folder.id, text], "The note was saved.")

        from harness.tui.screens.dialogs import NameDialog

        try:
            note = folder.note.read_text(encoding="utf-8") if folder.note.is_file() else ""
        except (OSError, ValueError):
            note = ""
        self.app.push_screen(NameDialog(sanitize(f"Note about {folder.id}:"), sanitize(note), may_be_empty=True), named)

    def action_tag(self) -> None:
        folder = self.run_under_action()
        if folder is None:
            return
        try:
            before = tags_of(folder)
        except OSError as error:
            self._say(f"{folder.tags}: cannot be read ({error.strerror}).", is_error=True)
            return

        def problem(text: str) -> str | None:
            try:
                for word in text.split():
                    check_tag(word)
            except HarnessError as error:
                return str(error)
            return None

        def named(text: str | None) -> None:
            if text is not None:
                self._change_tags(folder, set(before), set(text.split()))

        from harness.tui.screens.dialogs import NameDialog

        label = sanitize(f"Tags of {folder.id}, separated by spaces:")
        self.app.push_screen(NameDialog(label, " ".join(before), problem=problem, may_be_empty=True), named)

    @work(thread=True, group="verbs")
    def _change_tags(self, folder: RunFolder, before: set[str], wanted: set[str]) -> None:
        try:
            add_tags(folder, wanted - before)
            remove_tags(folder, before - wanted)
        except (HarnessError, OSError) as error:
            self._say(str(error), is_error=True)

    @work(thread=True, group="verbs")
    def action_queue(self, move: str) -> None:
        folder = self.run_under_action()
        if folder is not None:
            try:
                move_in_queue(folder.id, Move(move))
            except HarnessError as error:
                self._say(str(error), is_error=True)

    def action_duplicate(self) -> None:
        if (folder := self.run_under_action()) is not None:
            self.post_message(self.Duplicated(folder))

    def action_package(self) -> None:
        # Imported here to keep the first paint fast.
        from harness.tui.screens.package import PackageScreen

        if (folder := self.run_under_action()) is not None:
            self.app.push_screen(PackageScreen(folder))

    def action_report(self) -> None:
        if (folder := self.run_under_action()) is not None:
            self._report(folder)

    def action_copy_id(self) -> None:
        if (folder := self.run_under_action()) is not None:
            self.app.copy_to_clipboard(folder.id)
            self._say(f"Copied {folder.id}.")

    def _ask(self, question: str, confirmed: Callable[[], Any], *, deletes: bool = False) -> None:
        # Imported here, as the other dialogs, to keep the first paint fast.
        from harness.tui.screens.dialogs import ConfirmDialog

        def answered(is_confirmed: bool | None) -> None:
            if is_confirmed:
                confirmed()

        text = "\n".join(map(sanitize, question.split("\n")))
        self.app.push_screen(ConfirmDialog(text, deletes=deletes), answered)

    @work(thread=True, group="verbs")
    def _stop(self, folder: RunFolder) -> None:
        self._say("Stopping …")
        try:
            self._say(f"{folder.id} is {stop_run(folder).words}.")
        except HarnessError as error:
            self._say(str(error), is_error=True)

    @work(thread=True, group="verbs")
    def _command(self, command: list[str], done: str) -> None:
        try:
            run_command(command, on_progress=self._say)
        except HarnessError as error:
            self._say(str(error), is_error=True)
        else:
            self._say(done)

    @work(thread=True, group="verbs")
    def _report(self, folder: RunFolder) -> None:
        file = paths.state_home() / "reports" / f"{folder.id}.html"
        self._say("Writing the report …")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            run_command(["report", folder.id, "-o", str(file), "--force"], on_progress=self._say)
        except (HarnessError, OSError) as error:
            self._say(str(error), is_error=True)
            return
        # Without a display a browser would be a text browser in this terminal, over the screen.
        has_display = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
        is_open = has_display and webbrowser.open(file.as_uri())
        self._say(f"{'Opened' if is_open else 'Wrote'} {file}")

    def _say(self, text: str, *, is_error: bool = False) -> None:
        self.app.notify(sanitize(text), severity="error" if is_error else "information", markup=False)
