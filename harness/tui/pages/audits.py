"""The page of the audits: the list, and the answer and the figures of the audit under the cursor."""

import time
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Static
from textual.worker import get_current_worker

from harness.audits.registry import AUDITS
from harness.core.errors import HarnessError
from harness.core.settings import default_round
from harness.core.text import format_number, sanitize
from harness.core.times import day_and_time, format_duration
from harness.runs.status import Status
from harness.runs.summary import RunSummary
from harness.tui.audit_page import verdict
from harness.tui.columns import GLYPHS, Column, Row
from harness.tui.overview import Overview
from harness.tui.pages.runs import RunListPage
from harness.tui.run_list import STATUS_CELLS, run_name, status_cell
from harness.tui.screens.dialogs import ChoiceDialog
from harness.tui.screens.new_run import NewAuditScreen
from harness.tui.screens.run_actions import RUN_BINDINGS
from harness.tui.subprocesses import run_command
from harness.tui.widgets.bars import label_facts
from harness.tui.widgets.list_table import ListTable
from harness.tui.widgets.panels import Panel

_COLUMNS = (
    Column("audit", min_width=8),
    Column("measures", min_width=14),
    Column("of", min_width=12, fills=True),
    Column("status", min_width=STATUS_CELLS),
    Column("time", is_right=True),
    Column("started", width=14),
)
_ACTIONS = ("stop", "resume", "tag", "note", "delete", "restore", "copy_id")
_ANSWER_SECONDS = 0.3
_RETRY_SECONDS = 10.0
"""Seconds before an audit is asked again after its answer could not be read."""
_EMPTY = "no audits yet. n starts one"


class AuditsPage(RunListPage):
    """All audits, and the answer and the figures of one."""

    HELP = "All audits on this machine. Enter opens one."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "new_audit", "New audit", tooltip="Choose an audit and open its form"),
        *(binding for binding in RUN_BINDINGS if isinstance(binding, Binding) and binding.action in _ACTIONS),
    ]

    def __init__(self) -> None:
        super().__init__(id="audits-page")
        self._round: str | None = None
        self._answers: dict[tuple[str, Status, int], Content] = {}
        self._failures: dict[str, tuple[str, float]] = {}

    def compose_panels(self) -> ComposeResult:
        with Horizontal():
            yield Panel(ListTable(id="audits", sorts=True, opens=True), id="audit-list", label="Audits")
            figures = VerticalScroll(Static("", id="answer-text"), Static("", id="figures-text"))
            yield Panel(figures, id="audit-figures", label="Figures")

    def show(self, overview: Overview, *, round_name: str | None) -> None:
        """Show all audits, newest first."""
        self._round = round_name
        self._runs = {run.id: run for run in overview.runs if not run.has_score}
        self.table.show(_COLUMNS, [_row(run) for run in self._runs.values()])
        self.query_one("#audit-list", Panel).show_empty("" if self._runs else _EMPTY)
        self._show_figures()

    @on(ListTable.Highlighted, "#audits")
    def _show_figures(self) -> None:
        run = self.run_under_cursor
        panel = self.query_one("#audit-figures", Panel)
        panel.show_empty("" if run is not None and run.figures else "none yet")
        if run is not None:
            panel.set_title(run.id)
            figures = [(name, format_number(value)) for name, value in run.figures.items()]
            self.query_one("#figures-text", Static).update(label_facts(figures))
            answer = self._answers.get((run.id, run.status, run.guesses))
            reason, retry_at = self._failures.get(run.id, ("", 0.0))
            self.query_one("#answer-text", Static).update(reason if answer is None else answer)
            if answer is None and run.status.is_over and time.monotonic() >= retry_at:
                self._read_answer(run)

    @work(thread=True, exclusive=True, group="answer")
    def _read_answer(self, run: RunSummary) -> None:
        worker = get_current_worker()
        # A cursor that moves on within this time asks for nothing.
        if worker.cancelled_event.wait(_ANSWER_SECONDS):
            return
        try:
            answer = run_command(["show", run.id], on_progress=lambda line: None)
        except HarnessError as error:
            self._failures[run.id] = (sanitize(str(error)), time.monotonic() + _RETRY_SECONDS)
            self.call_later(self.set_timer, 1.1 * _RETRY_SECONDS, self._show_figures)
        else:
            self._answers[run.id, run.status, run.guesses] = verdict((answer or {}).get("findings") or {})
        if not worker.is_cancelled:
            self.call_later(self._show_figures)

    @on(ListTable.Opened, "#audits")
    def _open(self, event: ListTable.Opened) -> None:
        self.open_run(event.key)

    def action_new_audit(self) -> None:
        def opened(id_: str | None) -> None:
            if id_:
                self.open_run(id_)

        def open_form(audit: str | None) -> None:
            if audit is not None:
                self.app.push_screen(NewAuditScreen(audit, round_name=self._round or default_round()), opened)

        self.app.push_screen(
            ChoiceDialog("New audit", {name: entry.question for name, entry in AUDITS.items()}), open_form
        )


def _row(run: RunSummary) -> Row:
    glyph, meaning = GLYPHS[run.status]
    return Row(
        run.id,
        [
            [(glyph, meaning), (f" {run_name(run)}", "bold")],
            run.attack.removeprefix("audit "),
            run.round,
            status_cell(run),
            format_duration(run.elapsed_s),
            [(day_and_time(run.created_at), "dim")],
        ],
    )
