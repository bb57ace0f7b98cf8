"""The base of the screens that watch a run or an audit: they poll it twice a second and show each snapshot at once."""

from abc import abstractmethod
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, ClassVar, Generic

from textual import work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static
from textual.worker import get_current_worker

from harness.core.errors import HarnessError
from harness.core.text import sanitize
from harness.runs.folder import RunFolder
from harness.runs.status import Status
from harness.tui.columns import GLYPHS
from harness.tui.feed import Feed, SnapshotT
from harness.tui.screens.run_actions import RUN_BINDINGS, RunActions
from harness.tui.snapshot import Snapshot
from harness.tui.widgets.bars import TopBar
from harness.tui.widgets.log_drawer import LogDrawer
from harness.tui.widgets.panels import PanelGroup, PanelScreen

_POLL_SECONDS = 0.5


class WatchScreen(PanelScreen, RunActions, Generic[SnapshotT]):
    """Polls a feed in a thread. A subclass composes a PanelGroup and a LogDrawer below the header."""

    CSS_PATH = ["watch.tcss"]  # noqa: RUF012  as Textual declares it
    BINDINGS: ClassVar[list[BindingType]] = [
        *RUN_BINDINGS,
        Binding("l", "log", "Log", tooltip="Open or close the log of the worker"),
    ]

    TAB = "Runs"
    """The tab of the page that lists what the screen watches."""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__()
        self.folder = folder
        self._why = ""
        self._snapshot: SnapshotT | None = None

    @abstractmethod
    def open_feed(self) -> Feed[SnapshotT, Any]:
        """Return the feed; called in the thread that polls it. Raises HarnessError if the run cannot be read."""

    @abstractmethod
    def show(self, snapshot: SnapshotT) -> None:
        """Update the panels."""

    def compose_header(self) -> Iterator[Widget]:
        """Yield the widgets above the panels."""
        yield TopBar(self.TAB)
        yield Static(Content(sanitize(self.folder.id)), id="who")
        yield Static("", id="why")

    def on_mount(self) -> None:
        self.query_one("#why").display = False
        self.query_one(PanelGroup).go_to(self.query_one(PanelGroup).panels[0].id or "")
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
                self.call_later(self._show_why, str(error))
            worker.cancelled_event.wait(wait)

    def _show_why(self, text: str) -> None:
        if text != self._why:
            self._why = text
            why = self.query_one("#why", Static)
            why.update(Content(sanitize(text)))
            why.display = bool(text)

    def _apply_snapshot(self, snapshot: SnapshotT) -> None:
        with self.app.batch_update():
            before = self.status_under_action()
            self._snapshot = snapshot
            if self.status_under_action() is not before:
                self.refresh_bindings()
            summary = snapshot.summary
            line = who(snapshot, self.size.width - 2)
            self.query_one("#who", Static).update(line, layout=False)
            fault = None if snapshot.fault is None else f"cannot be read now: {snapshot.fault}"
            if not self.folder.path.exists():
                fault = "It was deleted. u restores it, for a day."
            self._show_why(fault or ("" if summary.status is Status.STOPPED else summary.reason))
            self.query_one(LogDrawer).show(snapshot.log, summary.status)
            self.show(snapshot)

    def run_under_action(self) -> RunFolder | None:
        return self.folder

    def status_under_action(self) -> Status | None:
        snapshot = self._snapshot
        return None if snapshot is None or snapshot.fault is not None else snapshot.summary.status

    def action_log(self) -> None:
        self.query_one(LogDrawer).action_toggle_log()

    def after_deletion(self, ids: list[str]) -> None:
        """Close the screen of a run that was deleted."""
        if self.is_current:
            self.dismiss(None)


def who(snapshot: Snapshot, cells: int) -> Content:
    """Return the line about a run, of its status, attack, round, what is special about it, its id, target and changed
    parameters, as far as whole ones fit into `cells`.
    """
    summary = snapshot.summary
    glyph, meaning = GLYPHS[summary.status]
    colour = {"good": "$text-success", "bad": "$text-error", "warning": "$text-warning"}.get(meaning, "$text-primary")
    parts = [
        (f"{glyph} {summary.status.words}", f"bold {colour}"),
        (f"  {sanitize(summary.shown_attack)}", "bold"),
        (f" on {sanitize(summary.round)}", ""),
        *([(" blind", "$text-warning")] if summary.is_blind else []),
        *([(" partial", "$text-warning")] if summary.is_partial else []),
        (f"  {sanitize(summary.id)}", "$foreground 70%"),
        *([(f"  target {sanitize(summary.target)}", "$foreground 70%")] if summary.target is not None else []),
        *([(f"  {sanitize(summary.changed_text)}", "$foreground 70%")] if summary.changed else []),
    ]
    ends = accumulate(len(text) for text, _ in parts)
    shown = [part for number, (part, end) in enumerate(zip(parts, ends, strict=True)) if end <= cells or number < 3]
    return Content.assemble(*shown)
