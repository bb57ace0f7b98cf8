"""The base of the screens that watch a run or an audit: they poll it twice a second, stop it and resume it."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Generic, Literal

from textual import work
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static
from textual.worker import get_current_worker

from harness.core.errors import HarnessError
from harness.core.text import sanitize
from harness.runs.folder import RunFolder
from harness.runs.launch import stop_run
from harness.runs.status import Status
from harness.tui.feed import Feed, SnapshotT
from harness.tui.screens.dialogs import ConfirmDialog
from harness.tui.screens.panels import PanelScreen
from harness.tui.subprocesses import run_command
from harness.tui.widgets.line_tail import LineTail
from harness.tui.widgets.panel_text import header_lines

_POLL_SECONDS = 0.5


class WorkerLog(LineTail):
    """The last lines of the worker's log."""

    HELP = "The last lines that the worker printed. `harness logs RUN` prints all of them."


class WatchScreen(PanelScreen[None], Generic[SnapshotT]):
    """Polls a feed in a thread and shows each snapshot in one repaint. A subclass yields a WorkerLog."""

    DEFAULT_CSS = """
    WatchScreen {
        #who { height: 1; text-style: bold; text-wrap: nowrap; text-overflow: ellipsis; }
        #how-far { height: auto; }
        &.-low #how-far { display: none; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stop", "Stop", tooltip="Stop the run or audit; it can be resumed"),
        Binding("r", "resume", "Resume", tooltip="Resume it with the rest of its budget"),
        Binding("p", "pause", "Pause", tooltip="Pause the view, or continue it"),
        Binding("y", "copy_id", "Copy id", show=False, tooltip="Copy the id of the run or audit"),
    ]
    NOUN: ClassVar[str]
    """The kind of job that is watched: `run` or `audit`."""
    MAIN_PANEL: ClassVar[str]
    """The panel whose title says that the view is paused."""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__()
        self._folder = folder
        self._is_paused = False
        self._status: Status | None = None

    @abstractmethod
    def open_feed(self) -> Feed[SnapshotT, Any]:
        """Return the feed; called in the thread that polls it. Raises HarnessError if the run cannot be read."""

    @abstractmethod
    def show(self, snapshot: SnapshotT) -> None:
        """Update the panels."""

    def compose_header(self) -> Iterator[Widget]:
        """Yield the widgets above the panels."""
        with Vertical(id="header"):
            yield Static(Content(sanitize(self._folder.id)), id="who")
            yield Static("", id="how-far")
        yield Static("", id="tabs")

    def on_mount(self) -> None:
        self._poll()

    @work(thread=True, exclusive=True, group="poll")
    def _poll(self) -> None:
        feed: Feed[SnapshotT, Any] | None = None
        worker = get_current_worker()
        while not worker.is_cancelled:
            wait = _POLL_SECONDS
            try:
                if feed is None:
                    feed = self.open_feed()
                snapshot = feed.poll()
                self.call_later(self._apply_snapshot, snapshot)
                if snapshot.loaded < 1 and snapshot.fault is None:
                    wait = 0.0
            except HarnessError as error:
                self.call_later(self._show_error, str(error))
            worker.cancelled_event.wait(wait)

    def _show_error(self, reason: str) -> None:
        self.query_one("#how-far", Static).update(Content(sanitize(reason)))

    def _apply_snapshot(self, snapshot: SnapshotT) -> None:
        with self.app.batch_update():
            who, how_far = header_lines(snapshot, width=self.size.width - 2)
            self.query_one("#who", Static).update(Content(who))
            self.query_one("#how-far", Static).update(Content(how_far))
            status = snapshot.summary.status if snapshot.fault is None else None
            if status is not self._status:
                self._status = status
                self.refresh_bindings()
            if not self._is_paused:
                self.show(snapshot)
                self.query_one(WorkerLog).show(snapshot.log)

    def action_pause(self) -> None:
        """Pause the view, or continue it; the run is not affected."""
        self._is_paused = not self._is_paused
        title = self.PANELS[self.MAIN_PANEL]
        self.panel(self.MAIN_PANEL).border_title = Content(f"{title} · view paused" if self._is_paused else title)
        self.notify("View paused." if self._is_paused else "View continued.")

    def action_copy_id(self) -> None:
        """Copy the run's id."""
        self.app.copy_to_clipboard(self._folder.id)
        self.notify(f"Copied {sanitize(self._folder.id)}.", markup=False)

    def action_stop(self) -> None:
        self._confirm("stop", f"Stop this {self.NOUN}? Its results are kept, and it can be resumed.")

    def action_resume(self) -> None:
        self._confirm("resume", f"Resume this {self.NOUN} with the rest of its budget?")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable stop for a run that is over, and resume for one that is running or has no work left."""
        if action not in ("stop", "resume") or self._status is None:
            return True
        if action == "stop":
            return not self._status.is_over
        return self._status.is_over and self._status not in (Status.FINISHED, Status.OUT_OF_TIME)

    def _confirm(self, verb: str, question: str) -> None:
        def answered(is_confirmed: bool | None) -> None:
            if is_confirmed:
                self._stop_or_resume(verb)

        self.app.push_screen(ConfirmDialog(question), answered)

    @work(thread=True, exclusive=True, group="verbs")
    def _stop_or_resume(self, verb: str) -> None:
        severity: Literal["error", "information"] = "information"
        try:
            if verb == "stop":
                self.notify("Stopping …")
                text = f"The {self.NOUN} is {stop_run(self._folder).words}."
            else:
                self.notify("Resuming …")
                run_command(
                    ["resume", self._folder.id, "--detach"],
                    on_progress=lambda line: self.notify(sanitize(line), markup=False),
                )
                text = f"The {self.NOUN} was resumed."
        except HarnessError as error:
            text, severity = sanitize(str(error)), "error"
        self.notify(text, severity=severity, markup=False)
