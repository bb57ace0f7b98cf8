"""The screen of one audit: its answer, its figures as bars, passages and the progress."""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from harness.core.text import pluralize
from harness.core.times import format_duration
from harness.runs.folder import RunFolder
from harness.runs.status import Status
from harness.tui.audit_feed import AuditFeed
from harness.tui.audit_page import bar_table, passages, places, verdict
from harness.tui.screens.watch import WatchScreen
from harness.tui.snapshot import AuditSnapshot
from harness.tui.widgets.bars import KeyFooter
from harness.tui.widgets.heat_map_view import HeatMapView, Place
from harness.tui.widgets.list_table import ListTable
from harness.tui.widgets.log_drawer import LogDrawer
from harness.tui.widgets.panel_text import figure_table, progress_lines
from harness.tui.widgets.panels import Panel, PanelGroup
from harness.tui.widgets.run_figures import bars


class AuditBody(PanelGroup):
    """The bars, or the figures before there are bars, above the passages and the progress."""

    ROOMY: ClassVar[tuple[int, int]] = (100, 20)

    def compose_panels(self) -> ComposeResult:
        with Horizontal():
            yield Panel(ListTable(id="bar-table"), id="bar-chart", label="Findings")
            yield Panel(ListTable(id="figure-table"), id="figures", label="Figures")
        with Horizontal():
            texts = VerticalScroll(Static("", id="passages-text"), id="passages-scroll")
            yield Panel(texts, id="passages", label="Passages")
            progress = VerticalScroll(Static("reading …", id="progress-text"), id="progress-scroll")
            yield Panel(progress, id="progress", label="Progress")

    def show_map(self, chart: Mapping[str, Any], places: Collection[Place]) -> None:
        """Show a heat map in a panel of its own, which is the first one. places: those that have a passage."""
        if not self.query("#map"):
            panel = Panel(HeatMapView(id="heat-map"), id="map", label="Map")
            self.mount(panel, after=self.query_one(".tabs"))
            self.call_after_refresh(self._show_in_map, chart, places)
        else:
            self._show_in_map(chart, places)

    def _show_in_map(self, chart: Mapping[str, Any], places: Collection[Place]) -> None:
        self.query_one("#map", Panel).set_title(str(chart["title"]))
        self.query_one("#heat-map", HeatMapView).show(chart, places)
        self._arrange()


class AuditScreen(WatchScreen[AuditSnapshot]):
    """The figures, progress, rows and log of an audit."""

    CSS_PATH = ["watch.tcss", "audit.tcss"]  # noqa: RUF012  as Textual declares it
    HELP = "A live view of an audit. Closing this screen or the application does not affect the audit."
    TAB = "Audits"

    def __init__(self, folder: RunFolder) -> None:
        super().__init__(folder)
        self._findings: Mapping[str, Any] = {}
        self._place: Place | None = None
        """The place of the passage that is shown first."""

    def on_mount(self) -> None:
        for name in ("bar-chart", "passages"):
            self.query_one(f"#{name}", Panel).show_empty("reading …")

    def compose(self) -> ComposeResult:
        yield from self.compose_header()
        yield Static("", id="verdict")
        yield Static("", id="bars")
        yield AuditBody(id="audit-body")
        yield LogDrawer()
        yield KeyFooter()

    def open_feed(self) -> AuditFeed:
        """Return the audit's feed."""
        return AuditFeed(self.folder)

    def show(self, snapshot: AuditSnapshot) -> None:
        """Update figures, progress and rows."""
        self.query_one("#bars", Static).update(bars(snapshot))
        self.query_one("#figure-table", ListTable).show(*figure_table(snapshot.figures))
        none = "none" if snapshot.summary.status.is_over else "none yet"
        self.query_one("#figures", Panel).show_empty("" if snapshot.figures else none)
        self.query_one("#progress-text", Static).update(Content("\n".join(progress_lines(snapshot))))
        warnings = f" · {pluralize(len(snapshot.warnings), 'warning')}" if snapshot.warnings else ""
        panel = self.query_one("#progress", Panel)
        panel.set_title(f"Progress{warnings}")
        is_done = snapshot.summary.status is Status.FINISHED and not warnings
        self.query_one(AuditBody).set_absent("progress", is_absent=is_done)
        self.query_one("#bars").display = not snapshot.summary.status.is_over
        if snapshot.findings and snapshot.findings is not self._findings:
            self._findings = snapshot.findings
            self._show_findings(snapshot)
        elif not snapshot.findings:
            for name in ("bar-chart", "passages"):
                self.query_one(f"#{name}", Panel).show_empty(none)

    def _show_findings(self, snapshot: AuditSnapshot) -> None:
        findings, is_over = snapshot.findings, snapshot.summary.status is Status.FINISHED
        when = "" if is_over else f"  (at {format_duration(snapshot.findings_spent)})"
        self.query_one("#verdict", Static).update(verdict(findings).append(Content.styled(when, "$foreground 70%")))
        panel, charts = self.query_one("#bar-chart", Panel), findings.get("bar_charts", ())
        panel.show_empty("" if charts else "no bars")
        if charts:
            panel.set_title(str(charts[0]["title"]))
            self.query_one("#bar-table", ListTable).show(*bar_table(charts[0]))
        # The bars show the figures, with more of them.
        self.query_one(AuditBody).set_absent("figures", is_absent=bool(charts))
        for chart in findings.get("heat_maps", ()):
            self.query_one(AuditBody).show_map(chart, places(findings))
        text = passages(findings, self._place)
        self.query_one("#passages", Panel).show_empty("" if text.plain else "none")
        self.query_one("#passages-text", Static).update(text)

    @on(HeatMapView.Chosen)
    def _show_passage(self, event: HeatMapView.Chosen) -> None:
        """Show the passage of a place of the map first."""
        self._place = event.place
        self.query_one("#passages-text", Static).update(passages(self._findings, event.place))
        self.query_one("#passages-scroll").scroll_home(animate=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide the actions that need a submission or an attack."""
        if action in ("package", "report", "duplicate", "compare", "new_run"):
            return False
        return super().check_action(action, parameters)
