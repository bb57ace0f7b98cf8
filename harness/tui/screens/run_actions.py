"""The actions on a run from the list and from its own screen, with the same keys."""

import os
import threading
import webbrowser
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from textual import work
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.text import pluralize, sanitize, shorten
from harness.runs.folder import RunFolder
from harness.runs.launch import stop_run
from harness.runs.queue import Move, move_in_queue
from harness.runs.status import Status
from harness.runs.tags import add_tags, check_tag, remove_tags, tags_of
from harness.runs.trash import restorable, restore
from harness.tui.dialog_results import if_answered
from harness.tui.subprocesses import run_command

_MAX_LISTED = 8
_TRASH = threading.Lock()
"""A restoration waits for the deletion before it."""
RUN_BINDINGS: list[BindingType] = [
    Binding("s", "stop", "Stop", tooltip="Stop the run; it can be resumed"),
    Binding("r", "resume", "Resume", tooltip="Resume the run with the rest of its budget"),
    Binding("c", "compare", "Compare", tooltip="Compare with marked runs, or the best baseline run"),
    Binding("d", "duplicate", "Again", tooltip="Open the form with the values of this run"),
    Binding("p", "package", "Package", tooltip="Package the run for its organizers"),
    Binding("n", "new_run", "New run", tooltip="Choose an attack and start a run"),
    Binding("R", "report", "Report", show=False, tooltip="Write the run's report and open it in the browser"),
    Binding("t", "tag", "Tags", show=False, tooltip="Change the tags of the run"),
    Binding("K", "queue('up')", "Up the queue", show=False, tooltip="Let a queued run start earlier"),
    Binding("J", "queue('down')", "Down the queue", show=False, tooltip="Let a queued run start later"),
    Binding("i", "note", "Note", show=False, tooltip="Write a note about the run"),
    Binding("x,delete", "delete", "Delete", show=False, tooltip="Delete the run, or the marked runs if it is marked"),
    Binding("u", "restore", "Restore", show=False, tooltip="Restore what was deleted last, within a day"),
    Binding("y", "copy_id", "Copy id", show=False, tooltip="Copy the id of the run"),
]

_ON_A_RUN = frozenset(binding.action for binding in RUN_BINDINGS if isinstance(binding, Binding)) - {
    "new_run",
    "restore",
    "compare",
    "delete",
}


def _on_run(action: Callable[["RunActions", RunFolder], None]) -> Callable[["RunActions"], None]:
    """Return an action that does nothing without a run."""

    def act(actions: "RunActions") -> None:
        if (folder := actions.run_under_action()) is not None:
            action(actions, folder)

    return act


class RunActions(Widget):
    """The actions of RUN_BINDINGS. A subclass says which run they are about.

    It comes last among the bases: Textual takes styles and component classes only from the first base that is a widget.
    """

    @dataclass
    class Asked(Message):
        """The user asks for the comparison of a run or a form with its values; without a run, for a new one."""

        folder: RunFolder | None
        is_compared: bool = False

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
        if action in _ON_A_RUN and self.run_under_action() is None:
            return False
        if action == "queue":
            return self.status_under_action() is Status.QUEUED
        if action in ("stop", "resume") and (status := self.status_under_action()) is not None:
            if action == "stop":
                return not status.is_over and status is not Status.FINISHING
            return status.is_over and status not in (Status.FINISHED, Status.OUT_OF_TIME)
        return super().check_action(action, parameters)

    @_on_run
    def action_stop(self, folder: RunFolder) -> None:
        def stop() -> str:
            stop_run(folder)
            return ""  # its end is announced

        self._ask(f"Stop {folder.id}? Its results are kept, and it can be resumed.", stop)

    @_on_run
    def action_resume(self, folder: RunFolder) -> None:
        def resume() -> str:
            run_command(["resume", folder.id, "--detach"], on_progress=self._say)
            return f"{folder.id} was resumed."

        self._ask(f"Resume {folder.id} with the rest of its budget?", resume)

    def action_delete(self) -> None:
        ids = [folder.id for folder in self.runs_to_delete()]

        def delete() -> str:
            with _TRASH:
                self._say(f"Deleting {pluralize(len(ids), 'run')} …")
                run_command(["runs", "rm", "--force", "--yes", *ids], on_progress=self._say)
            self.call_later(self.after_deletion, ids)
            return f"Deleted {pluralize(len(ids), 'run')}. u restores {'it' if len(ids) == 1 else 'them'} for a day."

        if ids:
            self._ask(self.deletion_question(ids), delete, deletes=True)

    def deletion_question(self, ids: list[str]) -> str:
        """Return the question before a deletion; it names the runs."""
        listed = ids if len(ids) <= _MAX_LISTED else [*ids[:_MAX_LISTED], f"and {len(ids) - _MAX_LISTED} more"]
        noun = f"Delete {ids[0]}" if len(ids) == 1 else f"Delete {pluralize(len(ids), 'marked run')}"
        names = [] if len(ids) == 1 else ["", *(f"  {name}" for name in listed), ""]
        if alive := [folder.id for folder in self.runs_to_delete() if folder.is_alive]:
            names.append(f"{shorten(', '.join(alive))} is at work and will be stopped.")
        return "\n".join([f"{noun}, with all results?", *names, "u restores what was deleted, for a day."])

    def after_deletion(self, ids: list[str]) -> None:
        """Update what refers to the runs that were deleted."""

    def action_restore(self) -> None:
        """Restore what was deleted last."""

        def restore_last() -> str:
            with _TRASH:
                deleted = restorable()
                last = [run for run in deleted if run.deleted_at == deleted[0].deleted_at]
                for run in last:
                    restore(run)
            ids = dict.fromkeys(run.id for run in last)
            return f"Restored {shorten(', '.join(ids))}." if ids else "Nothing was deleted within the last day."

        self._do(restore_last)

    @_on_run
    def action_note(self, folder: RunFolder) -> None:
        def save(text: str) -> str:
            run_command(["runs", "note", folder.id, text], on_progress=self._say)
            return "The note was saved."

        try:
            note = folder.note.read_text(encoding="utf-8") if folder.note.is_file() else ""
        except (OSError, ValueError):
            note = ""
        self._ask_text(f"Note about {folder.id}:", sanitize(note), save)

    @_on_run
    def action_tag(self, folder: RunFolder) -> None:
        try:
            before = tags_of(folder)
        except OSError as error:
            self._say(f"{folder.tags}: cannot be read ({error.strerror}).", is_error=True)
            return

        def change(text: str) -> None:
            add_tags(folder, {*text.split()} - {*before})
            remove_tags(folder, {*before} - {*text.split()})

        label = f"Tags of {folder.id}, separated by spaces:"
        self._ask_text(label, " ".join(before), change, check=lambda text: [*map(check_tag, text.split())])

    def action_queue(self, move: str) -> None:
        if (folder := self.run_under_action()) is not None:
            self._do(lambda: move_in_queue(folder.id, Move(move)))

    @_on_run
    def action_compare(self, folder: RunFolder) -> None:
        self.post_message(self.Asked(folder, is_compared=True))

    def action_new_run(self) -> None:
        self.post_message(self.Asked(None))

    @_on_run
    def action_duplicate(self, folder: RunFolder) -> None:
        self.post_message(self.Asked(folder))

    @_on_run
    def action_package(self, folder: RunFolder) -> None:
        # Imported here to keep the first paint fast.
        from harness.tui.screens.package import PackageScreen

        self.app.push_screen(PackageScreen(folder))

    @_on_run
    def action_report(self, folder: RunFolder) -> None:
        def report() -> str:
            file = paths.state_home() / "reports" / f"{folder.id}.html"
            self._say("Writing the report …")
            file.parent.mkdir(parents=True, exist_ok=True)
            run_command(["report", folder.id, "-o", str(file), "--force"], on_progress=self._say)
            # Without a display a browser would be a text browser in this terminal, over the screen.
            has_display = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
            return f"{'Opened' if has_display and webbrowser.open(file.as_uri()) else 'Wrote'} {file}"

        self._do(report)

    @_on_run
    def action_copy_id(self, folder: RunFolder) -> None:
        self.app.copy_to_clipboard(folder.id)
        self._say(f"Copied {folder.id}.")

    def _ask(self, question: str, work: Callable[[], str], *, deletes: bool = False) -> None:
        """Ask, and do the work if the answer is yes."""
        # Imported here, as the other dialog, to keep the first paint fast.
        from harness.tui.screens.dialogs import ConfirmDialog

        text = "\n".join(map(sanitize, question.split("\n")))
        self.app.push_screen(ConfirmDialog(text, deletes=deletes), if_answered(lambda _: self._do(work)))

    def _ask_text(
        self,
        label: str,
        text: str,
        use: Callable[[str], str | None],
        *,
        check: Callable[[str], object] = lambda text: None,
    ) -> None:
        """Ask for a text, which may be empty, and use it in a thread."""
        from harness.tui.screens.dialogs import NameDialog

        def use_answer(answer: str) -> None:
            self._do(partial(use, answer))

        dialog = NameDialog(sanitize(label), text, check=check, may_be_empty=True)
        self.app.push_screen(dialog, if_answered(use_answer))

    @work(thread=True, group="verbs")
    def _do(self, work: Callable[[], str | None]) -> None:
        """Do the work in a thread, and show the text that it returns, or its error."""
        try:
            if text := work():
                self._say(text)
        except (HarnessError, OSError) as error:
            self._say(str(error), is_error=True)

    def _say(self, text: str, *, is_error: bool = False) -> None:
        self.app.notify(text, severity="error" if is_error else "information")
