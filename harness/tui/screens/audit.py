"""One audit, live: its figures as they come, one of them in time, and what it measures right now."""

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
from harness.tui.widgets.audit_panels import FIGURE_COLUMNS, figure_rows, progress_lines, row_line
from harness.tui.widgets.curve_plot import Curve, FigurePlot
from harness.tui.widgets.key_footer import KeyFooter
from harness.tui.widgets.keyed_table import KeyedTable
from harness.tui.widgets.line_tail import LineTail

_LONGEST_TITLE = 40


class FigureTable(KeyedTable):
    """The figures so far; the one under the cursor is drawn."""

    HELP = "What was measured so far. The figure under the cursor is drawn in time; `n` and `N` go on from anywhere."


class RowTail(LineTail):
    """The newest rows."""

    HELP = "The newest rows of what is measured, with their texts. `harness audit show` writes all of them."


class AuditScreen(WatchScreen[AuditSnapshot]):
    """An audit's header, figures, plot, progress, rows and log."""

    CSS_PATH = "audit.tcss"
    NOUN = "audit"
    PAUSED_PANEL = "figures"
    HELP = "An audit, live. Leaving this screen, or ending the application, changes nothing for the audit."
    PANELS: ClassVar[dict[str, str]] = {
        "figures": "figures",
        "plot": "figure | time",
        "progress": "progress",
        "rows": "rows",
        "log": "log",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "stop", "Stop", tooltip="Stop this audit; it can be resumed"),
        Binding("r", "resume", "Resume", tooltip="Resume this audit within what is left of its budget"),
        Binding("n", "next_figure(1)", "Next figure", tooltip="Draw the next figure in time"),
        Binding("N", "next_figure(-1)", "Previous figure", show=False, tooltip="Draw the figure before in time"),
        Binding("p", "pause", "Pause", tooltip="Hold the view still, or let it go on"),
        Binding("y", "copy_id", "Copy id", show=False, tooltip="Copy the audit's id"),
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
                yield WorkerLog()
        yield KeyFooter()

    def opened(self) -> AuditFeed:
        """The audit's feed."""
        return AuditFeed(self._folder)

    def show(self, snapshot: AuditSnapshot) -> None:
        """Figures, the chosen one in time, progress and rows."""
        self._histories = snapshot.histories
        self.query_one(FigureTable).fill(FIGURE_COLUMNS, figure_rows(snapshot.figures))
        self.query_one("#progress-text", Static).update(Content("\n".join(progress_lines(snapshot))))
        warned = f" · {pluralize(len(snapshot.warnings), 'warning')}" if snapshot.warnings else ""
        self.panel("progress").border_title = Content(f"{self.PANELS['progress']}{warned}")
        self.query_one(RowTail).show(tuple(map(row_line, snapshot.rows)))
        self._draw()

    def action_next_figure(self, step: int) -> None:
        """Draw the next figure in time."""
        table = self.query_one(FigureTable)
        if table.row_count:
            table.move_cursor(row=(table.cursor_row + step) % table.row_count)

    @on(DataTable.RowHighlighted, "#figure-table")
    def _draw(self) -> None:
        name = self.query_one(FigureTable).key_under_cursor
        history = None if name is None else self._histories.get(name)
        if name is None or history is None:
            return
        self.panel("plot").border_title = Content(f"{sanitize(shorten(name, _LONGEST_TITLE))} | time")
        bounds = [
            Curve(history.spent, bound, None) for bound in (history.low, history.high) if np.isfinite(bound).any()
        ]
        curves = [*bounds, Curve(history.spent, history.value)]
        heights = np.concatenate([curve.y[np.isfinite(curve.y)] for curve in curves])
        if not len(heights):
            return
        most, least = float(heights.max()), min(0.0, float(heights.min()))
        self.query_one(FigurePlot).show(
            curves,
            x_most=max(1.0, float(history.spent[-1])),
            y_most=most + 0.15 * (most - least) if most > least else 1.0,
            y_least=1.15 * least,
        )
