"""The screen of one audit: its figures, a plot of one of them, its progress and its newest rows."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from harness.core.text import pluralize, shorten
from harness.runs.folder import RunFolder
from harness.tui.audit_feed import AuditFeed
from harness.tui.axes import Axis, ClockAxis, axis_up_to
from harness.tui.columns import Column, Row
from harness.tui.screens.watch import WatchScreen
from harness.tui.snapshot import AuditSnapshot, FigureHistory
from harness.tui.widgets.key_footer import KeyFooter
from harness.tui.widgets.line_tail import LineTail
from harness.tui.widgets.list_table import ListTable
from harness.tui.widgets.log_drawer import LogDrawer
from harness.tui.widgets.panel_text import figure_cells, progress_lines, row_line
from harness.tui.widgets.panels import Panel, PanelGroup
from harness.tui.widgets.plot import Line, Plot, PlotView
from harness.tui.widgets.run_figures import bars

_COLUMNS = (
    Column("figure", least=16, fills=True),
    Column("value", is_right=True),
    Column("95 % interval"),
    Column("n", is_right=True),
)
_MAX_TITLE = 40


class RowTail(LineTail):
    """The newest rows."""

    HELP = "The newest rows of the audit's tables, with their texts. `harness audit show` writes all rows."


class AuditBody(PanelGroup):
    """The figures and the plot of one above the progress and the rows."""

    DEFAULT_CSS = """
    AuditBody {
        &.-all > Horizontal { height: 1fr; }
        &.-all #progress { width: 1fr; }
        &.-all #rows { width: 2fr; }
        #progress-text { padding: 0 1; height: auto; }
    }
    """
    ROOMY: ClassVar[tuple[int, int]] = (100, 20)

    def compose_panels(self) -> ComposeResult:
        with Horizontal():
            yield Panel(ListTable(id="figure-table"), id="figures", label="Figures")
            yield Panel(PlotView(id="figure-plot"), id="plot", label="Plot", title="Figure vs. time")
        with Horizontal():
            progress = VerticalScroll(Static("reading …", id="progress-text"), id="progress-scroll")
            yield Panel(progress, id="progress", label="Progress")
            yield Panel(RowTail(id="row-lines"), id="rows", label="Rows")


class AuditScreen(WatchScreen[AuditSnapshot]):
    """The figures, plot, progress, rows and log of an audit."""

    DEFAULT_CSS = "AuditScreen #bars { height: auto; padding: 0 1; }"
    HELP = "A live view of an audit. Closing this screen or the application does not affect the audit."
    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, folder: RunFolder) -> None:
        super().__init__(folder)
        self._histories: Mapping[str, FigureHistory] = {}

    def compose(self) -> ComposeResult:
        yield from self.compose_header()
        yield Static("", id="bars")
        yield AuditBody(id="audit-body")
        yield LogDrawer()
        yield KeyFooter()

    def open_feed(self) -> AuditFeed:
        """Return the audit's feed."""
        return AuditFeed(self.folder)

    def show(self, snapshot: AuditSnapshot) -> None:
        """Update figures, plot, progress and rows."""
        self._histories = snapshot.histories
        self.query_one("#bars", Static).update(bars(snapshot))
        rows = [Row(figure.name, figure_cells(figure)) for figure in snapshot.figures]
        self.query_one("#figure-table", ListTable).show(_COLUMNS, rows)
        self.query_one("#figures", Panel).show_empty("" if rows else "none yet")
        self.query_one("#progress-text", Static).update(Content("\n".join(progress_lines(snapshot))))
        warnings = f" · {pluralize(len(snapshot.warnings), 'warning')}" if snapshot.warnings else ""
        self.query_one("#progress", Panel).set_title(f"Progress{warnings}")
        self.query_one(RowTail).show(tuple(map(row_line, snapshot.rows)))
        self.query_one("#rows", Panel).show_empty("" if snapshot.rows else "none yet")
        self._draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide the actions that need a submission."""
        if action in ("package", "report"):
            return False
        return super().check_action(action, parameters)

    @on(ListTable.Highlighted, "#figure-table")
    def _draw(self) -> None:
        name = self.query_one("#figure-table", ListTable).key_under_cursor
        history = None if name is None else self._histories.get(name)
        panel, view = self.query_one("#plot", Panel), self.query_one("#figure-plot", PlotView)
        if name is None or history is None:
            view.show_text("No figure yet.")
            return
        panel.set_title(f"{shorten(name, _MAX_TITLE)} vs. time")
        has_bounds = bool(np.isfinite(history.low).any() and np.isfinite(history.high).any())
        low, high = (history.low, history.high) if has_bounds else (None, None)
        values = [history.value, *([history.low, history.high] if has_bounds else [])]
        finite = np.concatenate([one[np.isfinite(one)] for one in values])
        if not len(finite):
            view.show_text("No number yet.")
            return
        y: Axis = axis_up_to("value", [finite], least=1e-9, low=min(0.0, float(finite.min())))
        x = ClockAxis("time", 0.0, max(1.0, float(history.spent[-1])))
        view.show(Plot(x, y, [Line(history.spent, history.value, low=low, high=high)]))
