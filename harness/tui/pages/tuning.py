"""The page of the tunings: the list, and the settings that the tuning under the cursor has tried."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static
from textual.worker import get_current_worker

from harness.core.errors import HarnessError
from harness.core.text import format_score, pluralize
from harness.core.times import day_and_time
from harness.plugins.search_space import Span
from harness.sweeps.tuning import (
    TUNINGS,
    Setting,
    Tuning,
    best_of,
    importances,
    is_pruned,
    runs_of,
    searched_space,
    settings_tried,
)
from harness.tui.axes import Axis, axis_up_to
from harness.tui.columns import Cell, Column, Row
from harness.tui.overview import Overview
from harness.tui.pages import Page
from harness.tui.plot import Line, Plot
from harness.tui.screens.opening import screen_for
from harness.tui.tables import CellsOf, table_of
from harness.tui.widgets.bars import label_facts
from harness.tui.widgets.list_table import ListTable
from harness.tui.widgets.panels import Panel
from harness.tui.widgets.plot_view import PlotView

_BAR_CELLS = 20
_EMPTY = "no tunings yet. `harness tune ATTACK` starts one"


@dataclass(frozen=True)
class TuningView:
    """A tuning and what it has tried.

    settings: with the number of each, from 1 in the order of the tuning, and True if it was pruned; best first.
    importances: the share of each parameter, largest first.
    """

    tuning: Tuning
    run_count: int
    parameters: tuple[str, ...]
    settings: tuple[tuple[int, Setting, bool], ...]
    importances: dict[str, float]

    @property
    def best(self) -> float | None:
        """The mean recall of the first setting."""
        return self.settings[0][1].recall if self.settings else None


def read_tunings() -> list[TuningView]:
    """Return all tunings, newest first. Raises HarnessError if a record cannot be read."""
    return [_view(TUNINGS.read(id_)) for id_ in TUNINGS.ids()]


def _view(tuning: Tuning) -> TuningView:
    runs = runs_of(tuning.id)
    space: dict[str, Span] = {}
    with contextlib.suppress(HarnessError):
        space = searched_space(tuning, runs)
    tried = settings_tried(space, runs)
    settings = [
        (number, setting, is_pruned(space, tried[:number], tuning.folds)) for number, setting in enumerate(tried, 1)
    ]
    # As `harness tune` chooses: a setting with more folds comes first, because one fold may be an easy one.
    settings.sort(
        key=lambda item: (-1, len(item[1].recalls)) if item[1].recall is None else (len(item[1].runs), item[1].recall),
        reverse=True,
    )
    return TuningView(tuning, len(runs), tuple(space), tuple(settings), importances(space, tried, tuning.folds))


def _rounded(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _round_name(view: TuningView) -> str:
    name = view.tuning.request.round
    return Path(name).stem if name.endswith(".toml") else name


_COLUMNS: CellsOf[TuningView] = {
    Column("tuning", min_width=8): lambda view: [(view.tuning.id.partition("-")[0], "bold")],
    Column("attack", min_width=10): lambda view: view.tuning.request.attack,
    Column("round", min_width=8, fills=True): _round_name,
    Column("runs", is_right=True): lambda view: str(view.run_count),
    Column("best", is_right=True): lambda view: format_score(view.best),
    Column("started", width=14): lambda view: [(day_and_time(view.tuning.created_at), "dim")],
}


class TuningPage(Page):
    """The tunings, the importance of the parameters and the progress at the left, the settings at the right."""

    HELP = (
        "All tunings on this machine, and the settings that each has tried, best first. Enter on a setting opens its "
        "first run."
    )

    def __init__(self) -> None:
        super().__init__(id="tuning-page")
        self._views: dict[str, TuningView] = {}
        self._parents: object = None

    def compose_panels(self) -> ComposeResult:
        with Horizontal():
            with Vertical():
                yield Panel(ListTable(id="tunings", sorts=True), id="tuning-list", label="Tunings")
                importance = Static("", id="importance-text")
                yield Panel(importance, id="importance", label="Importance", title="Importance of parameters (fANOVA)")
                yield Panel(PlotView(id="best-plot"), id="best", label="Best so far")
            yield Panel(ListTable(id="settings", sorts=True, opens=True), id="setting-list", label="Settings")

    def on_mount(self) -> None:
        self.query_one("#tuning-list", Panel).show_empty("reading …")
        self.query_one("#setting-list", Panel).show_empty("none")

    def show(self, overview: Overview) -> None:
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
        self._views = {view.tuning.id: view for view in views}
        self.table.show(*table_of(_COLUMNS, self._views))
        self.query_one("#tuning-list", Panel).show_empty(fault or ("" if views else _EMPTY))
        self._show_settings()

    @on(ListTable.Highlighted, "#tunings")
    def _show_settings(self) -> None:
        view = self._views.get(self.table.key_under_cursor or "")
        panel = self.query_one("#setting-list", Panel)
        panel.show_empty("" if view is not None and view.settings else "none yet")
        if view is None:
            for name in ("importance", "best"):
                self.query_one(f"#{name}", Panel).show_empty("none")
            return
        self.query_one("#best", Panel).show_empty("")
        panel.set_title(f"{view.tuning.id} · {pluralize(len(view.settings), 'setting')}")
        self._show_progress(view)
        columns = [
            Column("#", is_right=True),
            Column("recall", is_right=True),
            *(Column(name, min_width=6) for name in view.parameters),
            *(Column(fold, is_right=True) for fold in view.tuning.folds),
            Column(""),
        ]
        rows = []
        for number, setting, pruned in view.settings:
            recalls = {run.fold: format_score(run.recall) for run in setting.runs}
            cells: list[Cell] = [
                str(number),
                [(format_score(setting.recall), "bold good" if setting.recall == view.best else "bold")],
                *(_rounded(setting.params.get(name)) for name in view.parameters),
                *(recalls.get(fold, "") for fold in view.tuning.folds),
                [("pruned" if pruned else setting.missing_folds(view.tuning.folds), "dim")],
            ]
            rows.append(Row(str(number), cells))
        self.query_one("#settings", ListTable).show(columns, rows)

    @on(ListTable.Opened, "#settings")
    def _open(self, event: ListTable.Opened) -> None:
        """Open the first run of a setting."""
        view = self._views.get(self.table.key_under_cursor or "")
        for number, setting, _ in () if view is None else view.settings:
            if str(number) == event.key:
                self.app.push_screen(screen_for(setting.runs[0].folder))

    def _show_progress(self, view: TuningView) -> None:
        """Show the importances, and the recall of each setting with the best so far."""
        bars = [(name, f"{'━' * round(share * _BAR_CELLS)} {share:.0%}") for name, share in view.importances.items()]
        self.query_one("#importance-text", Static).update(label_facts(bars))
        self.query_one("#importance", Panel).show_empty("" if bars else "needs four complete settings")
        past = [setting for _, setting, _ in sorted(view.settings, key=lambda item: item[0])]
        tried = [
            (number, setting.recall, best.recall)
            for number, setting in enumerate(past, 1)
            if setting.recall is not None and (best := best_of(past[:number])) is not None
        ]
        plot = self.query_one("#best-plot", PlotView)
        if not tried:
            plot.show("No setting is complete yet.")
            return
        # As in the table, a setting with more folds is better than one with fewer, so that the best recall can fall.
        numbers, recalls, bests = np.array(tried, np.float64).T
        lines = [Line(numbers, recalls, None, "each setting", is_step=False), Line(numbers, bests, 0, "best so far")]
        x = Axis("setting", 1.0, max(2.0, float(numbers[-1])), min_step=1.0)
        plot.show(Plot(x, axis_up_to("Recall", [recalls], min_high=0.05), lines))
