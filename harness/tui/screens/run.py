"""The screen of one run. Closing it does not affect the run."""

import logging
from typing import ClassVar

import numpy as np
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from harness.analysis.decoded_text import TokenText, text_of_run
from harness.analysis.reference_curve import ReferenceCurve, best_earlier_curve
from harness.core.errors import HarnessError
from harness.core.live_score import Figures
from harness.core.text import sanitize
from harness.runs.folder import RunFolder
from harness.tui.run_feed import RunFeed
from harness.tui.screens.example import ExampleScreen
from harness.tui.screens.watch import WatchScreen, WorkerLog
from harness.tui.snapshot import RunSnapshot
from harness.tui.widgets.curve_plot import Curve, ErrorsPlot, HistoryPlot, ScoreAxis
from harness.tui.widgets.guess_panel import GuessPanel
from harness.tui.widgets.guess_stream import GuessStream
from harness.tui.widgets.key_footer import KeyFooter
from harness.tui.widgets.panel_text import metric_lines, resource_lines

_LOG = logging.getLogger(__name__)
_REFERENCE_ATTACK = "baseline"


class RunScreen(WatchScreen[RunSnapshot]):
    """The header, curves, guesses, metrics and log of a run."""

    CSS_PATH = "run.tcss"
    NOUN = "run"
    MAIN_PANEL = "metrics"
    HELP = "A live view of a run. Closing this screen or the application does not affect the run."
    PANELS: ClassVar[dict[str, str]] = {
        "curve": "Recall vs. errors",
        "history": "Recall vs. time",
        "guesses": "Guesses",
        "metrics": "Metrics",
        "log": "Log",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "follow", "Follow", tooltip="Follow the newest guess"),
        Binding("slash", "search", "Search", tooltip="Search the guesses by example id or text"),
        Binding("x", "example", "Example", show=False, tooltip="Open the example of the guess under the cursor"),
        # `p` is the pause here, so packaging is `P`.
        Binding("P", "package", "Package", tooltip="Package this run for its organizers"),
    ]

    def __init__(self, folder: RunFolder) -> None:
        super().__init__(folder)
        self._feed: RunFeed | None = None
        self._reference: ReferenceCurve | None = None
        self._snapshot: RunSnapshot | None = None

    def compose(self) -> ComposeResult:
        yield from self.compose_header()
        with Container(id="body"):
            with Vertical(id="curve", classes="panel"):
                yield ErrorsPlot(id="curve-plot")
            with Vertical(id="history", classes="panel"):
                yield HistoryPlot(id="history-plot")
            with VerticalScroll(id="metrics", classes="panel"):
                yield Static("reading …", id="metrics-text")
            yield GuessPanel(id="guesses", classes="panel")
            with Vertical(id="log", classes="panel"):
                yield WorkerLog(id="log-lines")
        yield KeyFooter()

    def open_feed(self) -> RunFeed:
        """Return the run's feed, and let the guesses be decoded."""
        feed, fault = RunFeed(self._folder), ""
        try:
            text = text_of_run(feed.folder, feed.spec)
        except HarnessError as error:
            text, fault = TokenText(None), str(error)
        self.call_later(self._use_feed, feed, text, fault)
        return feed

    @work(thread=True, exclusive=True, group="reference")
    def _load_reference(self, feed: RunFeed) -> None:
        try:
            reference = best_earlier_curve(_REFERENCE_ATTACK, feed.spec)
        except HarnessError as error:
            _LOG.warning("no reference curve: %s", error)
            return
        if reference is not None:
            self.call_later(self._use_reference, reference)

    def _use_feed(self, feed: RunFeed, text: TokenText, fault: str) -> None:
        self._feed = feed
        self.query_one(GuessPanel).set_source(feed, text)
        if fault:
            self.notify(sanitize(fault), severity="error", markup=False)
        self._load_reference(feed)

    def _use_reference(self, reference: ReferenceCurve) -> None:
        self._reference = reference
        title = f"{self.PANELS['curve']} · dim: {sanitize(reference.id)} {reference.recall_at_cap:.3f}"
        self.panel("curve").border_title = Content(title)
        if self._snapshot is not None:
            self._draw(self._snapshot)

    def show(self, snapshot: RunSnapshot) -> None:
        """Update metrics, guesses and curves."""
        if self._feed is None:
            return
        self._snapshot = snapshot
        lines = [*metric_lines(snapshot), *resource_lines(snapshot, self._feed.spec.round.suffix_length)]
        self.query_one("#metrics-text", Static).update(Content("\n".join(lines)))
        self.query_one(GuessPanel).show(snapshot.lines)
        self._draw(snapshot)

    def _draw(self, snapshot: RunSnapshot) -> None:
        figures, history, reference = snapshot.figures, snapshot.history, self._reference
        if figures.errors is not None and figures.recall is not None:
            curves = [Curve(figures.errors.astype(float), figures.recall)]
            if reference is not None:
                curves.insert(0, Curve(reference.errors.astype(float), reference.recall, None))
            self.query_one(ErrorsPlot).show_recall(curves, cap=snapshot.summary.error_cap)
        else:
            self._draw_scores(figures)
        if len(history.spent):
            y = history.guesses.astype(float) if history.recall is None else history.recall
            self.query_one(HistoryPlot).show_history([Curve(history.spent, y)])

    def _draw_scores(self, figures: Figures) -> None:
        """Draw the plots of a blind round: a histogram of the best scores, and the guesses over time."""
        self.panel("curve").border_title = Content("Examples by best score")
        self.panel("history").border_title = Content("Guesses vs. time")
        edges, counts = figures.score_edges, figures.score_counts.astype(float)
        self.query_one(ErrorsPlot).show(
            [Curve(np.arange(len(edges), dtype=float), np.append(counts, counts[-1:]))],
            x_max=float(len(counts)),
            y_max=1.15 * max(1.0, float(counts.max(initial=0.0))),
            x_axis=ScoreAxis(edges),
        )

    def action_search(self) -> None:
        self.go_to_panel("guesses")
        self.query_one(GuessPanel).open_search()

    @on(GuessStream.Chosen)
    def _open_example(self, event: GuessStream.Chosen) -> None:
        if self._feed is not None:
            self.app.push_screen(ExampleScreen([self._folder], range(self._feed.spec.examples), event.line.example))

    def action_example(self) -> None:
        self.query_one(GuessStream).action_choose()

    def action_follow(self) -> None:
        self.query_one(GuessPanel).toggle_follow()

    def action_package(self) -> None:
        # Imported here to keep the first paint fast.
        from harness.tui.screens.package import PackageScreen

        self.app.push_screen(PackageScreen(self._folder))

    def action_leave(self) -> None:
        """Close the search if there is one, otherwise the screen."""
        panel = self.query_one(GuessPanel)
        if panel.is_searching:
            panel.close_search()
        else:
            self.dismiss()
