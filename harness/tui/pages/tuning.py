"""The page of the tunings: the list, and the settings that the tuning under the cursor has tried."""

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.worker import get_current_worker

from harness.core.errors import HarnessError
from harness.core.text import format_score, pluralize
from harness.core.times import day_and_time, format_duration
from harness.plugins import search_space
from harness.sweeps.tuning import (
    TUNINGS,
    Setting,
    Tuning,
    best_first,
    importances,
    is_pruned,
    runs_of,
    searched_space,
    seconds_left,
    settings_tried,
)
from harness.sweeps.tuning_process import is_at_work, state_of
from harness.tui.columns import Cell, Column, Row, Span, bar
from harness.tui.dialog_results import if_answered
from harness.tui.overview import Overview
from harness.tui.pages import Page
from harness.tui.run_list import interval_bar, scale_title
from harness.tui.screens.opening import screen_for
from harness.tui.screens.run_actions import RunActions
from harness.tui.subprocesses import run_command
from harness.tui.tables import CellsOf, table_of
from harness.tui.widgets.bars import Facts
from harness.tui.widgets.list_table import ListTable
from harness.tui.widgets.panels import Panel

_BAR_CELLS = 8
_LOOK_SECONDS = 1.0
_MEANINGS = {"finished": "good", "not running": "dim"}
_EMPTY = "No tunings yet. A tuning searches an attack's parameters on training examples. t on an attack starts one."


@dataclass(frozen=True)
class TuningView:
    """A tuning and what it has tried.

    run_count: of those that ended.
    end_at: when it will probably end, in seconds since the epoch.
    settings: with the number of each, from 1 in the order of the tuning, and True if it was pruned; best first.
    importances: the share of each parameter, largest first.
    """

    tuning: Tuning
    run_count: int
    state: str
    end_at: float | None
    parameters: tuple[str, ...]
    settings: tuple[tuple[int, Setting, bool], ...]
    importances: dict[str, float]

    @property
    def best(self) -> float | None:
        """The mean recall of the first setting."""
        return self.settings[0][1].recall if self.settings else None

    @property
    def default(self) -> float | None:
        """The mean recall of the attack's defaults, with which a tuning begins."""
        return next((setting.recall for number, setting, _ in self.settings if number == 1), None)


def read_tunings() -> list[TuningView]:
    """Return all tunings, newest first. Raises HarnessError if a record cannot be read."""
    return [_read_view(TUNINGS.read(id_)) for id_ in TUNINGS.ids()]


def _read_view(tuning: Tuning) -> TuningView:
    runs = runs_of(tuning.id)
    space: dict[str, search_space.Span] = {}
    with contextlib.suppress(HarnessError):
        space = searched_space(tuning, runs)
    tried = settings_tried(space, runs)
    numbered = [(tried.index(setting) + 1, setting) for setting in best_first(tried)]
    settings = tuple((number, item, is_pruned(space, tried[:number], tuning.folds)) for number, item in numbered)
    left, shares = seconds_left(tuning, runs), importances(space, tried, tuning.folds)
    end_at = None if left is None else time.time() + left
    ended = sum(run.status is not None and run.status.is_over for run in runs)
    return TuningView(tuning, ended, state_of(tuning, len(runs)), end_at, tuple(space), settings, shares)


def _state(view: TuningView) -> list[Span]:
    if view.state != "running":
        return [(view.state, _MEANINGS[view.state])]
    share = min(1.0, view.run_count / view.tuning.runs)
    left = "" if view.end_at is None else f" ETA {format_duration(max(0.0, view.end_at - time.time()))}"
    done, open_ = bar(share, _BAR_CELLS)
    return [(done, "active"), (open_, "dim"), (f" {share:.0%}{left}", "active")]


def _round_name(view: TuningView) -> str:
    name = view.tuning.request.round
    return Path(name).stem if name.endswith(".toml") else name


_COLUMNS: CellsOf[TuningView] = {
    Column("tuning", min_width=8): lambda view: [(view.tuning.id.partition("-")[0], "bold")],
    Column("attack", min_width=10): lambda view: view.tuning.request.attack,
    Column("round", min_width=8, fills=True): _round_name,
    Column("runs", is_right=True): lambda view: f"{view.run_count}/{view.tuning.runs}",
    Column("state", min_width=9): _state,
    Column("best", is_right=True): lambda view: [(format_score(view.best), "bold")],
    Column("defaults", is_right=True): lambda view: format_score(view.default),
    Column("started", width=14): lambda view: [(day_and_time(view.tuning.created_at), "dim")],
}


class TuningPage(Page):
    """The tunings and the importance of the parameters at the left, the settings at the right."""

    HELP = (
        "All tunings on this machine, and the settings that each has tried, best first. Enter on a setting opens its "
        "first run. t on an attack starts a tuning."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "run_best", "Run the best", tooltip="Open the form of a run with the best setting, on the round"),
        Binding("s", "change('stop')", "Stop", tooltip="Stop the tuning and its run at work"),
        Binding("r", "change('resume', '--detach')", "Resume", tooltip="Continue the tuning up to its number of runs"),
    ]

    def __init__(self) -> None:
        super().__init__(id="tuning-page")
        self._views: dict[str, TuningView] = {}
        self._parents: object = None

    def compose_panels(self) -> ComposeResult:
        with Vertical():
            yield Panel(ListTable(id="tunings", sorts=True), id="tuning-list", label="Tunings")
            with Horizontal():
                yield Panel(ListTable(id="settings", sorts=True, opens=True), id="setting-list", label="Settings")
                importance = Facts(id="importance-text")
                yield Panel(importance, id="importance", label="Importance", title="Importance (fANOVA)")

    def on_mount(self) -> None:
        self.query_one("#tuning-list", Panel).show_empty("reading …")
        self.query_one("#setting-list", Panel).show_empty("none")
        self.set_interval(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Read again if a tuning has begun or ended; otherwise show the time that is left of one at work."""
        if self.display and any((view.state == "running") != is_at_work(id_) for id_, view in self._views.items()):
            self._read()
        elif self.display and any(view.state == "running" for view in self._views.values()):
            self.table.show(*table_of(_COLUMNS, self._views))

    def select(self, id_: str) -> None:
        """Read the tunings again, and move the cursor to one."""
        self.table.move_to(id_)
        self._read()

    @property
    def _view(self) -> TuningView | None:
        return self._views.get(self.table.key_under_cursor or "")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer what the tuning under the cursor allows."""
        view = self._view
        if action == "change":
            return view is not None and view.state == ("running" if parameters == ("stop",) else "not running")
        if action == "run_best":
            return view is not None and view.best is not None
        return super().check_action(action, parameters)

    def action_run_best(self) -> None:
        if (view := self._view) is not None:
            self.post_message(RunActions.Asked(view.settings[0][1].runs[0].folder))

    def action_change(self, *command: str) -> None:
        # Imported here to keep the first paint fast.
        from harness.tui.screens.dialogs import ConfirmDialog

        id_ = str(self.table.key_under_cursor)
        question = f"Stop {id_} and its run at work? r resumes it." if command == ("stop",) else f"Resume {id_}?"
        self.app.push_screen(ConfirmDialog(question), if_answered(lambda _: self._change(id_, command)))

    @work(thread=True, group="change")
    def _change(self, id_: str, command: tuple[str, ...]) -> None:
        try:
            run_command([*command, id_], on_progress=lambda line: None)
            self.notify(f"{id_} was {'stopped' if command == ('stop',) else 'resumed'}.")
        except HarnessError as error:
            self.notify(str(error), severity="error")
        self.call_later(self._read)

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
        self.refresh_bindings()
        self.show_nothing(fault or ("" if views else _EMPTY))
        self._show_settings()

    @on(ListTable.Highlighted, "#tunings")
    def _show_settings(self) -> None:
        view, panel = self._view, self.query_one("#setting-list", Panel)
        is_over = view is None or view.state != "running"
        panel.show_empty("" if view is not None and view.settings else "none" if is_over else "none yet")
        if view is None:
            self.query_one("#importance", Panel).show_empty("none")
            return
        panel.set_title(f"{view.tuning.id} · {pluralize(len(view.settings), 'setting')}")
        bars = [(name, f"{'━' * round(share * _BAR_CELLS)} {share:.0%}") for name, share in view.importances.items()]
        self.query_one(Facts).show(bars)
        self.query_one("#importance", Panel).show_empty("" if bars else "needs four complete settings")
        recalls = [recall for _, setting, _ in view.settings for recall in setting.recalls]
        low = min(recalls, default=0.0)
        scale = low, max([low + 0.01, *recalls])
        columns = [
            Column("#", is_right=True),
            Column("recall", is_right=True),
            Column(scale_title(*scale), width=16, min_width=8),
            *(Column(name, min_width=6) for name in view.parameters),
            *(Column(fold, is_right=True) for fold in view.tuning.folds),
            Column("", fills=True),
        ]
        rows = []
        for number, setting, pruned in view.settings:
            missing = setting.missing_folds(view.tuning.folds)
            if not setting.recalls:
                rows.append(Row(str(number), [[(f"{number} – {missing}", "bad")]], spans=True))
                continue
            values = [setting.params.get(name) for name in view.parameters]
            of_fold = {run.fold: format_score(run.recall) for run in setting.runs}
            ends, meaning = (min(setting.recalls), max(setting.recalls)), "good" if setting.recall == view.best else ""
            cells: list[Cell] = [
                str(number),
                [(format_score(setting.recall), f"bold {meaning}")],
                interval_bar(setting.recall, ends, scale=scale, colour=meaning or "active"),
                *(f"{value:.3g}" if isinstance(value, float) else str(value) for value in values),
                *(of_fold.get(fold, "") for fold in view.tuning.folds),
                [("pruned" if pruned else missing, "dim")],
            ]
            rows.append(Row(str(number), cells))
        self.query_one("#settings", ListTable).show(columns, rows)

    @on(ListTable.Opened, "#settings")
    def _open(self, event: ListTable.Opened) -> None:
        """Open the first run of a setting."""
        view = self._view
        for number, setting, _ in () if view is None else view.settings:
            if str(number) == event.key:
                self.app.push_screen(screen_for(setting.runs[0].folder))
