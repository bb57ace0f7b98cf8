"""The screen of one run. Closing it does not affect the run."""

import logging
from functools import partial
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll

from harness.analysis.decoded_text import TokenText, text_of_run
from harness.analysis.replay import ReferenceCurve, best_other_curve
from harness.core.errors import HarnessError
from harness.runs.folder import RunFolder
from harness.tui.plot import Plot
from harness.tui.run_feed import RunFeed
from harness.tui.run_list import BASELINE
from harness.tui.screens.example import ExampleScreen
from harness.tui.screens.watch import WatchScreen
from harness.tui.snapshot import RunSnapshot
from harness.tui.widgets.bars import Facts, KeyFooter
from harness.tui.widgets.guess_table import GuessTable
from harness.tui.widgets.log_drawer import LogDrawer
from harness.tui.widgets.panel_text import metric_facts, resource_facts
from harness.tui.widgets.panels import Panel, PanelGroup
from harness.tui.widgets.plot_view import PlotView, RunPlot, plot_of
from harness.tui.widgets.run_figures import RunFigures

_LOG = logging.getLogger(__name__)
_BASELINE_SECONDS = 60.0


class RunPanels(PanelGroup):
    """The plot and the figures above the guesses."""

    ROOMY: ClassVar[tuple[int, int]] = (100, 20)

    def compose_panels(self) -> ComposeResult:
        with Horizontal():
            views = Horizontal(PlotView(id="plot-view"), PlotView(id="time-view"))
            yield Panel(views, id="plot", label="Plot")
            details = VerticalScroll(Facts("reading …", id="details-text"), id="details-scroll")
            yield Panel(details, id="details", label="Figures")
        yield GuessTable(id="guesses")


class RunScreen(WatchScreen[RunSnapshot]):
    """Three large figures, one plot, all figures, the guesses and the log of a run."""

    CSS_PATH = ["watch.tcss", "run.tcss"]  # noqa: RUF012  as Textual declares it
    HORIZONTAL_BREAKPOINTS = [(0, "-one-plot"), (160, "-two-plots")]  # noqa: RUF012
    HELP = "A live view of a run. Closing this screen or the application does not affect the run."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right_square_bracket", "plot(1)", "Next plot", tooltip="Show the next plot", key_display="]"),
        Binding("left_square_bracket", "plot(-1)", "Last plot", False, tooltip="Show the plot before", key_display="["),
        Binding("slash", "search", "Search", tooltip="Search the guesses by example id or text"),
        Binding("m", "verdict", "All | right | near | wrong", tooltip="Show right guesses, near misses, or wrong ones"),
    ]

    def __init__(self, folder: RunFolder) -> None:
        super().__init__(folder)
        self._feed: RunFeed | None = None
        self._reference: ReferenceCurve | None = None
        self._baseline_words = "reading the baseline"
        self._plot = RunPlot.ERRORS
        self._plots: list[RunPlot] = []
        """The plots that have something to show."""

    def compose(self) -> ComposeResult:
        yield from self.compose_header()
        yield RunFigures(id="figures")
        yield RunPanels(id="run-body")
        yield LogDrawer()
        yield KeyFooter()

    def open_feed(self) -> RunFeed:
        """Return the run's feed, and let the guesses be decoded."""
        feed, fault = RunFeed(self.folder), ""
        try:
            text = text_of_run(feed.folder, feed.spec)
        except HarnessError as error:
            text, fault = TokenText(None), str(error)
        self.call_later(self._use_feed, feed, text, fault)
        return feed

    @work(thread=True, exclusive=True, group="reference")
    def _load_reference(self, feed: RunFeed) -> None:
        try:
            reference = best_other_curve(BASELINE, feed.spec)
        except HarnessError as error:
            _LOG.warning("no reference curve: %s", error)
            reference = None
        self.call_later(self._use_reference, feed, reference)

    def _use_feed(self, feed: RunFeed, text: TokenText, fault: str) -> None:
        self._feed = feed
        self.query_one(GuessTable).set_source(feed, text)
        if fault:
            self.notify(fault, severity="error")
        self._load_reference(feed)

    def _use_reference(self, feed: RunFeed, reference: ReferenceCurve | None) -> None:
        self._reference, self._baseline_words = reference, "no finished baseline"
        if reference is None and not feed.spec.is_partial:
            # One may finish while this screen is open.
            self.set_timer(_BASELINE_SECONDS, partial(self._load_reference, feed))
        elif self._snapshot is not None:
            self.show(self._snapshot)

    def show(self, snapshot: RunSnapshot) -> None:
        """Update figures, plot and guesses."""
        if self._feed is None:
            return
        baseline = None if self._reference is None else self._reference.recall_at_cap
        self.query_one(RunFigures).show(snapshot, baseline, self._baseline_words)
        self.query_one(Facts).show([*metric_facts(snapshot), *resource_facts(snapshot)])
        self.query_one(GuessTable).show(snapshot)
        self._draw(snapshot)

    def _draw(self, snapshot: RunSnapshot) -> None:
        contents = {kind: plot_of(kind, snapshot, self._reference) for kind in RunPlot}
        self._plots = [kind for kind, content in contents.items() if isinstance(content, Plot)]
        shown = self._plot if self._plot in self._plots or not self._plots else self._plots[0]
        has_room, time_view = self.has_class("-two-plots"), self.query_one("#time-view", PlotView)
        time_view.display = has_room and shown is RunPlot.ERRORS and RunPlot.TIME in self._plots
        place = f" · {self._plots.index(shown) + 1} of {len(self._plots)}, [ ]" if len(self._plots) > 1 else ""
        # Where both plots are visible, there is none to go to.
        self.query_one("#plot", Panel).set_title(f"{shown.value}{' and time' if time_view.display else place}")
        self.query_one("#plot-view", PlotView).show(contents[shown])
        time_view.show(contents[RunPlot.TIME])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer other plots only if there are some."""
        return len(self._plots) > 1 if action == "plot" else super().check_action(action, parameters)

    def action_plot(self, step: int) -> None:
        self.show_panel("plot")
        if self._snapshot is not None and self._plots:
            at = self._plots.index(self._plot) if self._plot in self._plots else 0
            self._plot = self._plots[(at + step) % len(self._plots)]
            self._draw(self._snapshot)

    def action_verdict(self) -> None:
        self.show_panel("guesses")
        self.query_one(GuessTable).action_verdict()

    def action_search(self) -> None:
        self.query_one(PanelGroup).go_to("guesses")
        self.query_one(GuessTable).open_search()

    @on(GuessTable.Chosen)
    def _open_example(self, event: GuessTable.Chosen) -> None:
        if self._feed is not None:
            self.app.push_screen(ExampleScreen([self.folder], range(self._feed.spec.examples), event.line.example))
