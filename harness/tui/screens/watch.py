"""A run that is watched, whatever it is of: read twice a second, stopped, resumed, and left to itself."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event
from typing import Any, ClassVar, Generic, Literal

from textual import on, work
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static
from textual.worker import get_current_worker

from harness.core.errors import HarnessError
from harness.core.text import sanitize
from harness.runs.folder import RunFolder
from harness.runs.launch import stop_run
from harness.runs.status import Status
from harness.tui.polled import Polled, Seen
from harness.tui.screens.paneled import PaneledScreen
from harness.tui.screens.question import Question
from harness.tui.starting import started_run
from harness.tui.widgets.line_tail import LineTail
from harness.tui.widgets.panels import header_lines

_POLL_SECONDS = 0.5


class WorkerLog(LineTail):
    """The last lines of the worker's log."""

    HELP = "What was printed, its last lines. `harness logs RUN` has all of it."

    def __init__(self) -> None:
        super().__init__(id="log-lines")


class WatchScreen(PaneledScreen[None], Generic[Seen]):
    """Polls a feed in a thread, and applies each snapshot in one repaint. Has a WorkerLog; keys are its heirs'."""

    DEFAULT_CSS = """
    WatchScreen {
        #who { height: 1; text-style: bold; text-wrap: nowrap; text-overflow: ellipsis; }
        #how-far { height: auto; }
        &.-low #how-far { display: none; }
    }
    """

    NOUN: ClassVar[str]
    """What is watched, in a word."""
    PAUSED_PANEL: ClassVar[str]
    """The panel that says so while the view is held."""

    @dataclass
    class Looked(Message):
        """The run as it is now."""

        snapshot: Any

    @dataclass
    class Unreadable(Message):
        """Nothing of the run could be read yet."""

        reason: str

    def __init__(self, folder: RunFolder) -> None:
        super().__init__()
        self._folder = folder
        self._is_paused = False
        self._status: Status | None = None
        self._is_gone = Event()

    @abstractmethod
    def opened(self) -> Polled[Seen]:
        """The run's feed, made in the thread that polls it. Raises HarnessError when the run cannot be read."""

    @abstractmethod
    def show(self, snapshot: Seen) -> None:
        """Let the panels show the snapshot."""

    def compose_header(self) -> Iterator[Widget]:
        """What stands above the panels."""
        with Vertical(id="header"):
            yield Static(Content(sanitize(self._folder.id)), id="who")
            yield Static("", id="how-far")
        yield Static("", id="tabs")

    def on_mount(self) -> None:
        """Begin to poll."""
        self._poll()

    def on_unmount(self) -> None:
        """No more polls."""
        self._is_gone.set()

    @work(thread=True, exclusive=True, group="poll")
    def _poll(self) -> None:
        feed: Polled[Seen] | None = None
        while not self._is_gone.is_set():
            wait = _POLL_SECONDS
            try:
                if feed is None:
                    feed = self.opened()
                snapshot = feed.poll()
                self.post_message(self.Looked(snapshot))
                if snapshot.loaded < 1 and snapshot.fault is None:
                    wait = 0.0
            except HarnessError as error:
                self.post_message(self.Unreadable(str(error)))
            self._is_gone.wait(wait)

    @on(Unreadable)
    def _say_fault(self, event: Unreadable) -> None:
        self.query_one("#how-far", Static).update(Content(sanitize(event.reason)))

    @on(Looked)
    def _take(self, event: Looked) -> None:
        """Apply a snapshot in one repaint."""
        snapshot: Seen = event.snapshot
        with self.app.batch_update():
            who, how_far = header_lines(snapshot, width=self.size.width - 2)
            self.query_one("#who", Static).update(Content(who))
            self.query_one("#how-far", Static).update(Content(how_far))
            self._take_status(snapshot.summary.status if snapshot.fault is None else None)
            if not self._is_paused:
                self.show(snapshot)
                self.query_one(WorkerLog).show(snapshot.log)

    def _take_status(self, status: Status | None) -> None:
        if status is not self._status:
            self._status = status
            self.refresh_bindings()

    def action_pause(self) -> None:
        """Hold the view still, or let it go on; nothing of this concerns the run."""
        self._is_paused = not self._is_paused
        title = self.PANELS[self.PAUSED_PANEL]
        self.panel(self.PAUSED_PANEL).border_title = Content(
            f"{title} · the view is paused" if self._is_paused else title
        )
        self.notify("the view stands still" if self._is_paused else "the view goes on")

    def action_copy_id(self) -> None:
        """Copy the run's id."""
        self.app.copy_to_clipboard(self._folder.id)
        self.notify(f"copied {sanitize(self._folder.id)}", markup=False)

    def action_stop(self) -> None:
        """Ask once, then stop the run."""
        self._ask("stop", f"Stop this {self.NOUN}? What it found stays, and it can be resumed.")

    def action_resume(self) -> None:
        """Ask once, then resume the run."""
        self._ask("resume", f"Resume this {self.NOUN} within what is left of its budget?")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A run that is over cannot be stopped; one that goes on, or has nothing left to do, cannot be resumed."""
        if action not in ("stop", "resume") or self._status is None:
            return True
        if action == "stop":
            return not self._status.is_over
        return self._status.is_over and self._status not in (Status.FINISHED, Status.OUT_OF_TIME)

    def _ask(self, verb: str, question: str) -> None:
        def answered(is_yes: bool | None) -> None:
            if is_yes:
                self._do(verb)

        self.app.push_screen(Question(question), answered)

    @work(thread=True, exclusive=True, group="verbs")
    def _do(self, verb: str) -> None:
        words, is_fault = f"the {self.NOUN} goes on", False
        try:
            if verb == "stop":
                self.notify("stopping …")
                words = f"the {self.NOUN} is {stop_run(self._folder).words}"
            else:
                self.notify("resuming …")
                here = get_current_worker()
                started_run(
                    ["resume", self._folder.id],
                    on_words=lambda said: self.notify(sanitize(said), markup=False),
                    is_given_up=lambda: False,
                    is_left_alone=lambda: here.is_cancelled,
                )
        except HarnessError as error:
            words, is_fault = sanitize(str(error)), True
        severity: Literal["error", "information"] = "error" if is_fault else "information"
        self.notify(words, severity=severity, markup=False)
