"""One run, live, for as long as anybody looks: closing this screen changes nothing for the run."""

import sqlite3
from threading import Event
from typing import ClassVar, Literal

import numpy as np
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, RichLog, Static
from textual.worker import get_current_worker

from harness.core.errors import HarnessError
from harness.core.visible import visible
from harness.runs.folder import RunFolder
from harness.runs.launch import stop_run
from harness.runs.summary import RunSummary
from harness.runs.text import TokenText, text_of_run
from harness.tui.feed import RunFeed
from harness.tui.screens.question import Question
from harness.tui.snapshot import Snapshot
from harness.tui.starting import started_run
from harness.tui.widgets.curve_plot import ClockAxis, Curve, CurvePlot, ErrorsAxis
from harness.tui.widgets.guess_stream import GuessStream
from harness.tui.widgets.panels import figure_lines, header_lines, resource_lines

_POLL_SECONDS = 0.5
_PANELS = ("curve", "history", "guesses", "figures", "log")


class RunScreen(Screen[None]):
    """A run's header, curves, stream, figures and log."""

    CSS_PATH = "run.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012  as Textual declares it
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "leave", "Back"),
        Binding("1", "panel('curve')", "Curve", show=False),
        Binding("2", "panel('history')", "Time", show=False),
        Binding("3", "panel('guesses')", "Guesses", show=False),
        Binding("4", "panel('figures')", "Figures", show=False),
        Binding("5", "panel('log')", "Log", show=False),
        Binding("tab", "next_panel", "Next panel"),
        Binding("f", "follow", "Follow"),
        Binding("p", "pause", "Pause view"),
        Binding("s", "stop", "Stop"),
        Binding("r", "resume", "Resume"),
        Binding("y", "copy_id", "Copy id", show=False),
    ]

    class Ended(Message):
        """A run that was watched has come to its end."""

        def __init__(self, summary: RunSummary) -> None:
            super().__init__()
            self.summary = summary

    class Opened(Message):
        """The run can be read; what was found amiss in its tokenizer."""

        def __init__(self, feed: RunFeed, text: TokenText, fault: str | None) -> None:
            super().__init__()
            self.feed, self.text, self.fault = feed, text, fault

    class Looked(Message):
        """The run as it is now."""

        def __init__(self, snapshot: Snapshot) -> None:
            super().__init__()
            self.snapshot = snapshot

    class Unreadable(Message):
        """Nothing of the run could be read yet."""

        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

    def __init__(self, folder: RunFolder) -> None:
        super().__init__()
        self._folder = folder
        self._panel = "curve"
        self._is_paused = False
        self._suffix_length = 0
        self._log_shown: tuple[str, ...] = ()
        self._was_over: bool | None = None
        self._is_gone = Event()

    def compose(self) -> ComposeResult:
        yield Static(Content(visible(self._folder.id)), id="who")
        yield Static("", id="how-far")
        yield Static("", id="tabs")
        with Container(id="body"):
            with Vertical(id="curve", classes="panel"):
                yield CurvePlot(ErrorsAxis(), id="curve-plot")
            with Vertical(id="history", classes="panel"):
                yield CurvePlot(ClockAxis(), id="history-plot")
            with Vertical(id="figures", classes="panel"):
                yield Static("reading …", id="figures-text")
            with Vertical(id="guesses", classes="panel"):
                yield GuessStream(id="stream")
            with Vertical(id="log", classes="panel"):
                yield RichLog(id="log-lines", max_lines=500, markup=False, highlight=False)
        yield Footer()

    def on_mount(self) -> None:
        """Begin to poll."""
        for name, title in zip(_PANELS, ("recall | errors", "recall | time", "guesses", "figures", "log"), strict=True):
            self.query_one(f"#{name}").border_title = title
        self._show_panel()
        self._poll()

    @work(thread=True, exclusive=True, group="poll")
    def _poll(self) -> None:
        feed: RunFeed | None = None
        while not self._is_gone.is_set():
            wait = _POLL_SECONDS
            try:
                if feed is None:
                    feed = self._opened()
                snapshot = feed.poll()
                self.post_message(self.Looked(snapshot))
                if snapshot.loaded < 1 and snapshot.fault is None:
                    wait = 0.0
            except HarnessError as error:
                self.post_message(self.Unreadable(str(error)))
            self._is_gone.wait(wait)

    def _opened(self) -> RunFeed:
        feed, fault = RunFeed(self._folder), None
        try:
            text = text_of_run(feed.folder, feed.spec)
        except HarnessError as error:
            text, fault = TokenText(None), str(error)
        self.post_message(self.Opened(feed, text, fault))
        return feed

    def on_unmount(self) -> None:
        """No more polls."""
        self._is_gone.set()

    @on(Unreadable)
    def _say_fault(self, event: Unreadable) -> None:
        self.query_one("#how-far", Static).update(Content(visible(event.reason)))

    @on(Opened)
    def _take_feed(self, event: Opened) -> None:
        self._suffix_length = event.feed.spec.round.suffix_length
        self.query_one(GuessStream).tell(event.text, event.feed.prefixes, event.feed.answers)
        if event.fault is not None:
            self.notify(visible(event.fault), severity="error", markup=False)

    @on(Looked)
    def _take(self, event: Looked) -> None:
        """Apply a snapshot in one repaint."""
        snapshot = event.snapshot
        with self.app.batch_update():
            who, how_far = header_lines(snapshot)
            self.query_one("#who", Static).update(Content(who))
            self.query_one("#how-far", Static).update(Content(how_far))
            is_over = snapshot.summary.status.is_over
            if is_over and self._was_over is False:
                self.post_message(self.Ended(snapshot.summary))
            self._was_over = is_over
            if self._is_paused:
                return
            lines = [*figure_lines(snapshot), *resource_lines(snapshot, self._suffix_length)]
            self.query_one("#figures-text", Static).update(Content("\n".join(lines)))
            self.query_one(GuessStream).show(snapshot.lines)
            self._draw(snapshot)
            self._show_log(snapshot.log)

    def _draw(self, snapshot: Snapshot) -> None:
        figures, history = snapshot.figures, snapshot.history
        if figures.errors is not None and figures.recall is not None:
            x = np.log10(1.0 + figures.errors)
            cap = float(np.log10(1 + snapshot.summary.error_cap))
            most = max(float(x[-1]) if len(x) else 0.0, cap * 1.05)
            self.query_one("#curve-plot", CurvePlot).show(
                [Curve(x, figures.recall, "cyan")], mark=cap, x_most=most, y_most=_headroom(figures.recall)
            )
        if len(history.spent):
            y = history.guesses.astype(float) if history.recall is None else history.recall
            self.query_one("#history-plot", CurvePlot).show(
                [Curve(history.spent, y, "cyan")],
                x_most=max(1.0, float(history.spent[-1])),
                y_most=_headroom(y),
            )

    def _show_log(self, lines: tuple[str, ...]) -> None:
        if lines == self._log_shown:
            return
        self._log_shown = lines
        log = self.query_one(RichLog)
        log.clear()
        for line in lines:
            log.write(visible(line))

    def _show_panel(self) -> None:
        for name in _PANELS:
            self.query_one(f"#{name}").set_class(name == self._panel, "-chosen")
        tabs = "  ".join(
            f"[{number} {name}]" if name == self._panel else f" {number} {name} "
            for number, name in enumerate(_PANELS, 1)
        )
        self.query_one("#tabs", Static).update(Content(tabs))

    def action_panel(self, name: str) -> None:
        """Show this panel where not all fit."""
        self._panel = name
        self._show_panel()

    def action_next_panel(self) -> None:
        """Show the next panel."""
        self.action_panel(_PANELS[(_PANELS.index(self._panel) + 1) % len(_PANELS)])

    def action_follow(self) -> None:
        """Follow the newest guess, or stop doing so."""
        stream = self.query_one(GuessStream)
        stream.is_following = not stream.is_following
        self.notify("following the newest guess" if stream.is_following else "the stream stands where it is")

    def action_pause(self) -> None:
        """Hold the view still; the run goes on."""
        self._is_paused = not self._is_paused
        self.notify("the view stands still, the run goes on" if self._is_paused else "the view goes on")

    def action_copy_id(self) -> None:
        """Copy the run's id."""
        self.app.copy_to_clipboard(self._folder.id)
        self.notify(f"copied {visible(self._folder.id)}", markup=False)

    def action_stop(self) -> None:
        """Ask once, then stop the run."""
        self._ask("stop", "Stop this run? What it found stays, and it can be resumed.")

    def action_resume(self) -> None:
        """Ask once, then resume the run."""
        self._ask("resume", "Resume this run within what is left of its budget?")

    def action_leave(self) -> None:
        """Back; the run goes on."""
        self.dismiss()

    def _ask(self, verb: str, question: str) -> None:
        def answered(is_yes: bool | None) -> None:
            if is_yes:
                self._do(verb)

        self.app.push_screen(Question(question), answered)

    @work(thread=True, group="verbs")
    def _do(self, verb: str) -> None:
        words, is_fault = f"{verb}: done", False
        try:
            if verb == "stop":
                words = f"the run is {stop_run(self._folder).words}"
            else:
                nobody = get_current_worker()
                started_run(
                    ["resume", self._folder.id],
                    on_words=lambda said: None,
                    is_given_up=lambda: False,
                    is_left_alone=lambda: nobody.is_cancelled,
                )
        except HarnessError as error:
            words, is_fault = visible(str(error)), True
        except (OSError, sqlite3.Error) as error:
            words, is_fault = visible(f"{self._folder.path}: cannot be read ({error})."), True
        severity: Literal["error", "information"] = "error" if is_fault else "information"
        self.notify(words, severity=severity, markup=False)


def _headroom(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    finite = values[np.isfinite(values)]
    return max(0.05, 1.15 * float(finite.max(initial=0.0)))
