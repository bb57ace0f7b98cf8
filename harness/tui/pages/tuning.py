"""The page of the tunings: the list, and the settings that the tuning under the cursor has tried."""

from pathlib import Path
from typing import ClassVar

import numpy as np
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Static
from textual.worker import get_current_worker

from harness.core.errors import HarnessError
from harness.core.text import format_score
from harness.core.times import day_and_time
from harness.tui.axes import CountAxis, axis_up_to
from harness.tui.columns import Column, Row
from harness.tui.overview import Overview
from harness.tui.plot import Line, Plot
from harness.tui.tuning_state import TuningView, read_tunings
from harness.tui.widgets.labelled_text import labelled
from harness.tui.widgets.list_table import ListTable
from harness.tui.widgets.panels import Panel, PanelGroup
from harness.tui.widgets.plot_view import PlotView

_COLUMNS = (
    Column("tuning", least=8),
    Column("attack", least=10),
    Column("round", least=8, fills=True),
    Column("runs", is_right=True),
    Column("best", is_right=True),
    Column("started", width=14),
)
_BAR_CELLS = 20
_EMPTY = "no tunings yet. `harness tune ATTACK` starts one"


class TuningPanels(PanelGroup):
    """The tunings, the importance of the parameters and the progress at the left, the settings at the right."""

    DEFAULT_CSS = """
    TuningPanels {
        &.-all > Horizontal { height: 1fr; }
        &.-all #importance { height: auto; max-height: 30%; }
        &.-all #importance.-empty { height: 1; }
        #importance-text { height: auto; padding: 0 1; }
    }
    """

    IS_NUMBERED = False

    def compose_panels(self) -> ComposeResult:
        with Horizontal():
            with Vertical():
                yield Panel(ListTable(id="tunings", sorts=True), id="tuning-list", label="Tunings")
                importance = Static("", id="importance-text")
                yield Panel(importance, id="importance", label="Importance", title="Importance of parameters (fANOVA)")
                yield Panel(PlotView(id="best-plot"), id="best", label="Best so far")
            yield Panel(ListTable(id="settings", sorts=True), id="setting-list", label="Settings")


class TuningPage(Vertical):
    """All tunings."""

    HELP = "All tunings on this machine, and the settings that each has tried, best first."
    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self) -> None:
        super().__init__(id="tuning-page")
        self._views: dict[str, TuningView] = {}
        self._parents: object = None

    def compose(self) -> ComposeResult:
        yield TuningPanels(id="tuning-panels")

    def on_mount(self) -> None:
        self.query_one("#tuning-list", Panel).show_empty("reading …")
        self.query_one("#setting-list", Panel).show_empty("none")

    def focus_main(self) -> None:
        """Focus the list."""
        self.screen.set_focus(self.query_one("#tunings", ListTable))

    def show(self, overview: Overview, *, round_name: str | None) -> None:
        """Read the tunings again if a run has changed."""
        runs = tuple((run.id, run.status, run.recall_at_cap) for run in overview.runs)
        if runs != self._parents:
            self._parents = runs
            self._read()

    @work(thread=True, exclusive=True, group="read")
    def _read(self) -> None:
        worker = get_current_worker()
        try:
            views, fault = read_tunings(), ""
        except HarnessError as error:
            views, fault = [], str(error)
        if not worker.is_cancelled:
            self.call_later(self._show_tunings, views, fault)

    def _show_tunings(self, views: list[TuningView], fault: str) -> None:
        self._views = {view.id: view for view in views}
        rows = [
            Row(
                view.id,
                [
                    [(view.id.partition("-")[0], "bold")],
                    view.attack,
                    Path(view.round).stem if view.round.endswith(".toml") else view.round,
                    str(view.run_count),
                    format_score(view.best),
                    [(day_and_time(view.created_at), "dim")],
                ],
            )
            for view in views
        ]
        self.query_one("#tunings", ListTable).show(_COLUMNS, rows)
        self.query_one("#tuning-list", Panel).show_empty(fault or ("" if views else _EMPTY))
        self._show_settings()

    @on(ListTable.Highlighted, "#tunings")
    def _show_settings(self) -> None:
        view = self._views.get(self.query_one("#tunings", ListTable).key_under_cursor or "")
        panel = self.query_one("#setting-list", Panel)
        panel.show_empty("" if view is not None and view.settings else "none yet")
        if view is None:
            for name in ("importance", "best"):
                self.query_one(f"#{name}", Panel).show_empty("none")
            return
        self.query_one("#best", Panel).show_empty("")
        panel.set_title(f"{view.id} · {len(view.settings)} settings")
        self._show_progress(view)
        columns = [
            Column("#", is_right=True),
            Column("recall", is_right=True),
            *(Column(name, least=6) for name in view.parameters),
            *(Column(fold, is_right=True) for fold in view.folds),
            Column(""),
        ]
        rows = [
            Row(
                str(one.number),
                [
                    str(one.number),
                    [(format_score(one.recall), "bold good" if one.recall == view.best else "bold")],
                    *(str(one.params.get(name)) for name in view.parameters),
                    *one.recalls,
                    [("pruned" if one.is_pruned else "", "dim")],
                ],
            )
            for one in view.settings
        ]
        self.query_one("#settings", ListTable).show(columns, rows)

    def _show_progress(self, view: TuningView) -> None:
        """Show the importances, and the recall of each setting with the best so far."""
        bars = [(name, f"{'━' * round(share * _BAR_CELLS)} {share:.0%}") for name, share in view.importances.items()]
        self.query_one("#importance-text", Static).update(labelled(bars))
        self.query_one("#importance", Panel).show_empty("" if bars else "needs four complete settings")
        tried = sorted((one.number, one.recall) for one in view.settings if one.recall is not None)
        plot = self.query_one("#best-plot", PlotView)
        if not tried:
            plot.show_text("No setting is complete yet.")
            return
        numbers, recalls = np.array(tried, np.float64).T
        best = np.maximum.accumulate(recalls)
        lines = [Line(numbers, recalls, None, "each setting", is_step=False), Line(numbers, best, 0, "best so far")]
        x = CountAxis("setting", 1.0, max(2.0, float(numbers[-1])))
        plot.show(Plot(x, axis_up_to("Recall", [recalls], least=0.05), lines))
