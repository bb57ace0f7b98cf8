"""The worker's log at the bottom of a screen, which opens itself when the run crashes."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from harness.core.text import sanitize
from harness.runs.status import Status


class LogLines(VerticalScroll):
    """The last lines of the worker's log. It stays at the newest line until it is scrolled."""

    HELP = "The last lines that the worker printed. `harness show RUN --log` prints all of them."

    def __init__(self, *, id: str) -> None:
        super().__init__(Static("The worker has printed nothing."), id=id)
        self._lines: tuple[str, ...] = ()

    def on_mount(self) -> None:
        self.anchor()

    def show(self, lines: tuple[str, ...]) -> None:
        """Replace the lines."""
        if lines != self._lines:
            self._lines = lines
            self.query_one(Static).update(Content("\n".join(map(sanitize, lines))))


class LogDrawer(Vertical):
    """Closed until it is opened; red after a crash."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "toggle_log", "Close log", show=False, tooltip="Close the log"),
    ]

    def __init__(self) -> None:
        super().__init__(id="log")
        self.border_title = "Log"
        self._status: Status | None = None

    def compose(self) -> ComposeResult:
        yield LogLines(id="log-lines")

    def show(self, lines: tuple[str, ...], status: Status) -> None:
        """Show the last lines; open once if the run has crashed since."""
        self.query_one(LogLines).show(lines)
        has_crashed = status is Status.CRASHED
        self.set_class(has_crashed, "-crashed")
        if has_crashed and self._status is not status:
            self.display = True
        self._status = status

    def action_toggle_log(self) -> None:
        """Open the drawer and focus it, or close it."""
        self.display = not self.display
        if self.display:
            self.screen.set_focus(self.query_one(LogLines))
        else:
            self.screen.focus_next()
