"""The screen of one audit: its figures, a plot of one of them, and its progress."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import DataTable, Static

from harness.core.text import pluralize, sanitize, shorten
from harness.runs.folder import RunFolder
from harness.tui.audit_feed import AuditFeed
from harness.tui.screens.watch import WatchScreen, WorkerLog
from harness.tui.snapshot import AuditSnapshot, FigureHistory
from harness.tui.widgets.curve_plot import Curve, FigurePlot
from harness.tui.widgets.key_footer import KeyFooter
from harness.tui.widgets.keyed_table import KeyedTable
from harness.tui.widgets.line_tail import LineTail
from harness.tui.widgets.panel_text import FIGURE_COLUMNS, figure_rows, progress_lines, row_line

_MAX_TITLE = 40


class FigureTable(KeyedTable):
    """The figures of the audit; the plot shows the one under the cursor."""

    HELP = "The figures measured so far. The plot shows the figure under the cursor; `n` and `N` move the cursor."


class RowTail(LineTail):
    """The newest rows."""

    HELP = "The newest rows of the audit's tables, with their texts. `harness audit show` writes all rows."


class AuditScreen(WatchScreen[AuditSnapshot]):
    """The header, figures, plot, progress, rows and log of an audit."""

    CSS_PATH = "audit.tcss"
    NOUN = "audit"
    MAIN_PANEL = "figures"
    HELP = "A live view of an audit. Closing this screen or the application does not affect the audit."
    PANELS: ClassVar[dict[str, str]] = {
        "figures": "Figures",
        "plot": "Figure vs. time",
        "progress": "Progress",
        "rows": "Rows",
        "log": "Log",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "next_figure(1)", "Next figure", tooltip="Plot the next figure"),
        Binding("N", "next_figure(-1)", "Previous figure", show=False, tooltip="Plot the previous figure"),
    ]

    def __init__(self, folder: RunFolder) -> None:
        super().__init__(folder)
        self._histories: Mapping[str, FigureHistory] = {}

    def compose(self) -> ComposeResult:
        yield from self.compose_header()
        with Container(id="body"):
            with Vertical(id="figures", classes="panel"):
                yield FigureTable(id="figure-table")
            with Vertical(id="plot", classes="panel"):
                yield FigurePlot(id="figure-plot")
            with VerticalScroll(id="progress", classes="panel"):
                yield Static("reading …", id="progress-text")
            with Vertical(id="rows", classes="panel"):
                yield RowTail(id="row-lines")
            with Vertical(id="log", classes="panel"):
                yield WorkerLog(id="log-lines")
        yield KeyFooter()

    def open_feed(self) -> AuditFeed:
        """Return the audit's feed."""
        return AuditFeed(self._folder)

    def show(self, snapshot: AuditSnapshot) -> None:
        """Update figures, plot, progress and rows."""
        self._histories = snapshot.histories
        self.query_one(FigureTable).fill(FIGURE_COLUMNS, figure_rows(snapshot.figures))
        self.query_one("#progress-text", Static).update(Content("\n".join(progress_lines(snapshot))))
        warnings = f" · {pluralize(len(snapshot.warnings), 'warning')}" if snapshot.warnings else ""
        self.panel("progress").border_title = Content(f"{self.PANELS['progress']}{warnings}")
        self.query_one(RowTail).show(tuple(map(row_line, snapshot.rows)))
        self._draw()

    def action_next_figure(self, step: int) -> None:
        table = self.query_one(FigureTable)
        if table.row_count:
            table.move_cursor(row=(table.cursor_row + step) % table.row_count)

    @on(DataTable.RowHighlighted, "#figure-table")
    def _draw(self) -> None:
        name = self.query_one(FigureTable).key_under_cursor
        history = None if name is None else self._histories.get(name)
        if name is None or history is None:
            return
        self.panel("plot").border_title = Content(f"{sanitize(shorten(name, _MAX_TITLE))} vs. time")
        bounds = [
            Curve(history.spent, bound, None) for bound in (history.low, history.high) if np.isfinite(bound).any()
        ]
        curves = [*bounds, Curve(history.spent, history.value)]
        y = np.concatenate([curve.y[np.isfinite(curve.y)] for curve in curves])
        if not len(y):
            return
        y_max, y_min = float(y.max()), min(0.0, float(y.min()))
        self.query_one(FigurePlot).show(
            curves,
            x_max=max(1.0, float(history.spent[-1])),
            y_max=y_max + 0.15 * (y_max - y_min) if y_max > y_min else 1.0,
            y_min=1.15 * y_min,
        )
