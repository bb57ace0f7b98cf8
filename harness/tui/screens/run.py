"""One run, live, for as long as anybody looks: closing this screen changes nothing for the run."""

import logging
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from harness.analysis.decoded_text import TokenText, text_of_run
from harness.analysis.reference_curve import ReferenceCurve, best_earlier_curve
from harness.core.errors import HarnessError
from harness.core.live_score import Figures
from harness.core.text import sanitize
from harness.runs.folder import RunFolder
from harness.tui.feed import RunFeed
from harness.tui.screens.example import ExampleScreen
from harness.tui.screens.watch import WatchScreen, WorkerLog
from harness.tui.snapshot import Snapshot
from harness.tui.widgets.curve_plot import Curve, CurvePlot, ErrorsPlot, HistoryPlot, ScoreAxis, headroom
from harness.tui.widgets.guess_panel import GuessPanel
from harness.tui.widgets.guess_stream import GuessStream
from harness.tui.widgets.key_footer import KeyFooter
from harness.tui.widgets.panels import figure_lines, resource_lines

_LOG = logging.getLogger(__name__)
_YARDSTICK = "baseline"


class RunScreen(WatchScreen[Snapshot]):
    """A run's header, curves, stream, figures and log."""

    CSS_PATH = "run.tcss"
    NOUN = "run"
    PAUSED_PANEL = "figures"
    HELP = "A run, live. Leaving this screen, or ending the application, changes nothing for the run."
    PANELS: ClassVar[dict[str, str]] = {
        "curve": "recall | errors",
        "history": "recall | time",
        "guesses": "guesses",
        "figures": "figures",
        "log": "log",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stop", "Stop", tooltip="Stop this run; it can be resumed"),
        Binding("r", "resume", "Resume", tooltip="Resume this run within what is left of its budget"),
        Binding("f", "follow", "Follow", tooltip="Follow the newest guess"),
        Binding("p", "pause", "Pause", tooltip="Hold the view still, or let it go on"),
        Binding("slash", "search", "Search", tooltip="Search the guesses by example id or text"),
        Binding("x", "example", "Example", show=False, tooltip="Open the example of the guess under the cursor"),
        # `p` has long been the pause.
        Binding("P", "package", "Package", tooltip="Package this run for its organizers"),
        Binding("y", "copy_id", "Copy id", show=False, tooltip="Copy the run's id"),
    ]

    @dataclass
    class Opened(Message):
        """The run can be read; what was found amiss in its tokenizer."""

        feed: RunFeed
        text: TokenText
        fault: str | None

    @dataclass
    class Measured(Message):
        """The curve that this run's is to be seen beside."""

        reference: ReferenceCurve

    def __init__(self, folder: RunFolder) -> None:
        super().__init__(folder)
        self._feed: RunFeed | None = None
        self._reference: ReferenceCurve | None = None
        self._snapshot: Snapshot | None = None

    def compose(self) -> ComposeResult:
        yield from self.compose_header()
        with Container(id="body"):
            with Vertical(id="curve", classes="panel"):
                yield ErrorsPlot(id="curve-plot")
            with Vertical(id="history", classes="panel"):
                yield HistoryPlot(id="history-plot")
            with VerticalScroll(id="figures", classes="panel"):
                yield Static("reading …", id="figures-text")
            yield GuessPanel(id="guesses", classes="panel")
            with Vertical(id="log", classes="panel"):
                yield WorkerLog()
        yield KeyFooter()

    def opened(self) -> RunFeed:
        """The run's feed; what was found amiss in its tokenizer is told."""
        feed, fault = RunFeed(self._folder), None
        try:
            text = text_of_run(feed.folder, feed.spec)
        except HarnessError as error:
            text, fault = TokenText(None), str(error)
        self.post_message(self.Opened(feed, text, fault))
        return feed

    @work(thread=True, exclusive=True, group="reference")
    def _measure(self, feed: RunFeed) -> None:
        try:
            reference = best_earlier_curve(_YARDSTICK, feed.spec)
        except HarnessError as error:
            _LOG.warning("no curve to compare with: %s", error)
            return
        if reference is not None:
            self.post_message(self.Measured(reference))

    @on(Opened)
    def _take_feed(self, event: Opened) -> None:
        self._feed = event.feed
        self.query_one(GuessPanel).tell(event.feed, event.text)
        if event.fault is not None:
            self.notify(sanitize(event.fault), severity="error", markup=False)
        self._measure(event.feed)

    @on(Measured)
    def _take_reference(self, event: Measured) -> None:
        self._reference = reference = event.reference
        words = f"{self.PANELS['curve']} · dimmed: {sanitize(reference.id)} {reference.recall_at_cap:.3f}"
        self.panel("curve").border_title = Content(words)
        if self._snapshot is not None:
            self._draw(self._snapshot)

    def show(self, snapshot: Snapshot) -> None:
        """Figures, guesses and curves."""
        if self._feed is None:
            return
        self._snapshot = snapshot
        lines = [*figure_lines(snapshot), *resource_lines(snapshot, self._feed.spec.round.suffix_length)]
        self.query_one("#figures-text", Static).update(Content("\n".join(lines)))
        self.query_one(GuessPanel).show(snapshot.lines)
        self._draw(snapshot)

    def _draw(self, snapshot: Snapshot) -> None:
        figures, history, reference = snapshot.figures, snapshot.history, self._reference
        if figures.errors is not None and figures.recall is not None:
            curves = [Curve(np.log10(1.0 + figures.errors), figures.recall)]
            if reference is not None:
                curves.insert(0, Curve(np.log10(1.0 + reference.errors), reference.recall, None))
            cap = float(np.log10(1 + snapshot.summary.error_cap))
            most = max(cap * 1.05, *(float(curve.x.max(initial=0.0)) for curve in curves))
            self.query_one("#curve-plot", CurvePlot).show(curves, mark=cap, x_most=most, y_most=headroom(curves))
        else:
            self._draw_scores(figures)
        if len(history.spent):
            y = history.guesses.astype(float) if history.recall is None else history.recall
            curves = [Curve(history.spent, y)]
            x_most = max(1.0, float(history.spent[-1]))
            self.query_one("#history-plot", CurvePlot).show(curves, x_most=x_most, y_most=headroom(curves))

    def _draw_scores(self, figures: Figures) -> None:
        """Of a blind round how the best scores are spread, and how many guesses there were."""
        self.panel("curve").border_title = Content("examples | best score")
        self.panel("history").border_title = Content("guesses | time")
        edges, counts = figures.score_edges, figures.score_counts.astype(float)
        self.query_one("#curve-plot", CurvePlot).show(
            [Curve(np.arange(len(edges), dtype=float), np.append(counts, counts[-1:]))],
            x_most=float(len(counts)),
            y_most=1.15 * max(1.0, float(counts.max(initial=0.0))),
            x_axis=ScoreAxis(edges),
        )

    def action_search(self) -> None:
        """Search the guesses, by example id or by text."""
        self.go_to_panel("guesses")
        self.query_one(GuessPanel).begin_search()

    @on(GuessStream.Chosen)
    def _open_example(self, event: GuessStream.Chosen) -> None:
        if self._feed is not None:
            self.app.push_screen(ExampleScreen([self._folder], range(self._feed.spec.examples), event.line.example))

    def action_example(self) -> None:
        """Open the example of the guess under the cursor."""
        self.query_one(GuessStream).action_choose()

    def action_follow(self) -> None:
        """Follow the newest guess, or stop doing so; a search is left."""
        self.query_one(GuessPanel).follow()

    def action_package(self) -> None:
        """Go through the checklist of a package, and write it."""
        # Here: the first paint needs nothing of it.
        from harness.tui.screens.package import PackageScreen

        self.app.push_screen(PackageScreen(self._folder))

    def action_leave(self) -> None:
        """Leave the search, else the screen; the run goes on."""
        panel = self.query_one(GuessPanel)
        if panel.is_searching:
            panel.leave_search()
        else:
            self.dismiss()
