"""The page of the audits: the list, and the answer and the figures of the audit under the cursor."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from harness.audits.registry import AUDITS
from harness.core.settings import default_round
from harness.core.text import sanitize
from harness.core.times import day_and_time, format_duration
from harness.runs.folder import RunFolder
from harness.runs.summary import RunSummary
from harness.tui.audit_page import read_findings, verdict
from harness.tui.columns import GLYPHS, Column
from harness.tui.dialog_results import if_answered
from harness.tui.overview import Overview
from harness.tui.pages.runs import RunListPage
from harness.tui.run_list import STATUS_CELLS, run_name, status_cell
from harness.tui.screens.dialogs import ChoiceDialog
from harness.tui.screens.new_run import NewAuditScreen
from harness.tui.screens.run_actions import RUN_BINDINGS
from harness.tui.tables import CellsOf, table_of
from harness.tui.widgets.list_table import ListTable
from harness.tui.widgets.panels import Panel

_COLUMNS: CellsOf[RunSummary] = {
    Column("audit", min_width=8): lambda run: [GLYPHS[run.status], (f" {run_name(run)}", "bold")],
    Column("measures", min_width=10): lambda run: run.attack.removeprefix("audit "),
    Column("of", min_width=12, fills=True): lambda run: run.round,
    Column("status", min_width=STATUS_CELLS): status_cell,
    Column("time", is_right=True): lambda run: format_duration(run.elapsed_s),
    Column("started", width=14): lambda run: [(day_and_time(run.created_at), "dim")],
}
_ACTIONS = ("stop", "resume", "tag", "note", "delete", "restore", "copy_id")
_EMPTY = "No audits yet. An audit measures which of your texts a model has memorized. n starts one."


class AuditsPage(RunListPage):
    """All audits, and the answer and the figures of one."""

    HELP = "All audits on this machine. Enter opens one."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "new_audit", "New audit", tooltip="Choose an audit and open its form"),
        *(binding for binding in RUN_BINDINGS if isinstance(binding, Binding) and binding.action in _ACTIONS),
    ]

    def __init__(self) -> None:
        super().__init__(id="audits-page")
        self._round = ""

    def compose_panels(self) -> ComposeResult:
        with Horizontal():
            yield Panel(ListTable(id="audits", sorts=True, opens=True), id="audit-list", label="Audits")
            figures = VerticalScroll(Static("", id="answer-text"))
            yield Panel(figures, id="audit-figures", label="Figures")

    def show(self, overview: Overview) -> None:
        """Show all audits, newest first."""
        self._round = overview.round_choice or default_round()
        self._runs = {run.id: run for run in overview.runs if not run.has_score}
        self.table.show(*table_of(_COLUMNS, self._runs))
        self.show_nothing("" if self._runs else _EMPTY)
        self.preview()

    def read_preview(self, folder: RunFolder, summary: RunSummary) -> Content:
        """Return the answer of the audit so far."""
        return verdict(read_findings(folder))

    def show_preview(self, summary: RunSummary | None, content: Content | str) -> None:
        """Show the answer and the figures of the audit."""
        panel = self.query_one("#audit-figures", Panel)
        panel.show_empty("" if content else "none" if summary is None or summary.status.is_over else "none yet")
        if summary is not None:
            panel.set_title(summary.id)
            text = Content(sanitize(content)) if isinstance(content, str) else content
            self.query_one("#answer-text", Static).update(text)

    @on(ListTable.Opened, "#audits")
    def _open(self, event: ListTable.Opened) -> None:
        self.open_run(event.key)

    def action_new_audit(self) -> None:
        def open_form(audit: str) -> None:
            self.app.push_screen(NewAuditScreen(audit, round_name=self._round), if_answered(self.open_run))

        choices = {name: entry.question for name, entry in AUDITS.items()}
        self.app.push_screen(ChoiceDialog("New audit", choices), if_answered(open_form))
