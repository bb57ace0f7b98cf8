"""The screen that compares runs of one round: curves, scores, pace and settings, and for two runs each example."""

import shlex
import time
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import numpy as np
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, ScrollableContainer, Vertical
from textual.content import Content
from textual.widgets import Static
from textual.worker import get_current_worker

from harness.analysis import comparison_tables as tables
from harness.analysis.comparison import Comparison, compare_runs
from harness.core.errors import HarnessError
from harness.core.scoring import DRAWN_POINTS
from harness.core.text import align_columns, sanitize, shorten_middle
from harness.runs.folder import RunFolder
from harness.tui.screens.example import ExampleScreen
from harness.tui.screens.panels import PanelScreen
from harness.tui.widgets.curve_plot import Curve, ErrorsPlot, HistoryPlot, marker
from harness.tui.widgets.key_footer import KeyFooter
from harness.tui.widgets.keyed_table import KeyedTable, Row

_MAX_CELL = 28
_MIN_POLL_SECONDS = 2.0
_POLL_TIME_SHARE = 0.1


class ScoreTables(ScrollableContainer, can_focus=True):
    """The scores of all runs."""

    HELP = "The score, its interval and the pace of each run, on all examples and on the unreachable examples."


class PairTable(KeyedTable):
    """The examples that one run of a pair solves and the other does not."""

    HELP = "Examples that only one of the two runs solves within the error cap. Enter opens one with all candidates."


class SettingsTable(KeyedTable):
    """The settings that differ."""

    HELP = "Parameters, versions and hardware that are not the same for all runs."


class CompareScreen(PanelScreen[None]):
    """Two or more runs, compared again while any of them is running."""

    CSS_PATH = "compare.tcss"
    HELP = (
        "A comparison of runs of one round. `u` switches between all examples and the unreachable ones, whose answers "
        "no training row contains."
    )
    PANELS: ClassVar[dict[str, str]] = {
        "curves": "Recall vs. errors",
        "history": "Recall vs. time",
        "scores": "Runs",
        "pair": "Solved by one run only",
        "settings": "Differences",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "part", "All | unreachable", tooltip="Switch between all and unreachable examples"),
        Binding("y", "copy_command", "Copy command", tooltip="Copy the command that prints this comparison"),
    ]

    def __init__(self, folders: Sequence[RunFolder]) -> None:
        super().__init__()
        self._folders = tuple(folders)
        self._comparison: Comparison | None = None
        self._shows_unreachable = False

    def compose(self) -> ComposeResult:
        yield Static("comparing …", id="header")
        yield Static("", id="tabs")
        with Container(id="body", classes="-empty"):
            with Vertical(id="curves", classes="panel"):
                yield ErrorsPlot(id="curves-plot")
            with Vertical(id="history", classes="panel"):
                yield HistoryPlot(id="history-plot")
            with Vertical(id="scores", classes="panel"), ScoreTables(id="scores-scroll"):
                yield Static("", id="scores-text")
            with Vertical(id="pair", classes="panel"):
                yield Static("", id="pair-text")
                yield PairTable(id="pair-table")
            with Vertical(id="settings", classes="panel"):
                yield Static(tables.NOTHING_DIFFERS, id="settings-text")
                yield SettingsTable(id="settings-table")
        yield KeyFooter()

    def on_mount(self) -> None:
        self._compare()

    @work(thread=True, exclusive=True, group="compare")
    def _compare(self) -> None:
        worker = get_current_worker()
        while not worker.is_cancelled:
            started = time.monotonic()
            try:
                comparison = compare_runs(self._folders)
                self.call_later(self._apply, comparison)
                if all(run.status.is_over for run in comparison.runs):
                    return
            except HarnessError as error:
                self.call_later(self._show_error, str(error))
            worker.cancelled_event.wait(max(_MIN_POLL_SECONDS, (time.monotonic() - started) / _POLL_TIME_SHARE))

    def _show_error(self, reason: str) -> None:
        self.query_one("#header", Static).update(Content(sanitize(reason)))

    def _apply(self, comparison: Comparison) -> None:
        self._comparison = comparison
        with self.app.batch_update():
            self.query_one("#body").remove_class("-empty")
            self._update()

    def _update(self) -> None:
        comparison = self._comparison
        if comparison is None:
            return
        unreachable = comparison.unreachable if self._shows_unreachable else None
        part = comparison.whole if unreachable is None else unreachable
        noun = "examples" if unreachable is None else "unreachable examples"
        title = f"{len(comparison.runs)} runs of {sanitize(comparison.round)} · {len(part):,} {noun}"
        running = sum(not run.status.is_over for run in comparison.runs)
        if running:
            title += f" · {running} still running: the scores will change"
        legend = "  ".join(f"{marker(index)} {sanitize(run.id)}" for index, run in enumerate(comparison.runs))
        self.query_one("#header", Static).update(Content(f"{title}\n{legend}"))
        on_part = [run.unreachable for run in comparison.runs if run.unreachable is not None]
        drawn = [run.whole for run in comparison.runs] if unreachable is None else on_part
        recalls = [run.score.recall_curve(DRAWN_POINTS) for run in drawn]
        curves = [
            Curve(recall.errors.astype(float), recall.recall, index, is_marked=True)
            for index, recall in enumerate(recalls)
        ]
        self.query_one(ErrorsPlot).show_recall(curves, cap=part.cap)
        # Each has shape [points, (spent, recall)].
        points = [np.array(run.recall_over_time).reshape(-1, 2) for run in drawn]
        history = [Curve(run[:, 0], run[:, 1], index, is_marked=True) for index, run in enumerate(points)]
        self.query_one(HistoryPlot).show_history(history)
        self.query_one("#scores-text", Static).update(Content("\n\n".join(_score_sections(comparison))))
        self._show_pair(comparison)
        settings = tables.differing_settings(comparison)
        self.query_one("#settings-text").display = not settings
        table = self.query_one(SettingsTable)
        table.display = bool(settings)
        if settings:
            header, *rows = settings
            table.fill(header, [Row(row[0], [shorten_middle(cell, _MAX_CELL) for cell in row]) for row in rows])

    def _show_pair(self, comparison: Comparison) -> None:
        contrasts = tables.contrasts(comparison)
        if not contrasts:
            self.query_one("#pair-text", Static).update("Only two runs are compared example by example.")
            return
        lines = [line for where, contrast in contrasts for line in tables.contrast_lines(comparison, contrast, where)]
        self.query_one("#pair-text", Static).update(Content("\n".join(map(sanitize, lines))))
        _, whole = contrasts[0]
        part = comparison.whole if comparison.unreachable is None else comparison.unreachable
        unreachable = set(part.ids.tolist())
        rows = [
            Row(str(id_), (f"{id_}", f"{marker(index)} {run.id}", "no" if id_ in unreachable else "yes"))
            for index, (run, ids) in enumerate(zip(comparison.runs, (whole.only_first, whole.only_second), strict=True))
            for id_ in ids.tolist()
        ]
        self.query_one(PairTable).fill(("example", "solved by", "reachable"), rows)
        title = f"{self.PANELS['pair']}: {len(whole.only_first):,} and {len(whole.only_second):,}"
        self.panel("pair").border_title = Content(title)

    @on(PairTable.RowSelected)
    def _open_example(self, event: PairTable.RowSelected) -> None:
        table = self.query_one(PairTable)
        if event.data_table is table and event.row_key.value is not None:
            ids = [int(str(table.get_row_at(row)[0])) for row in range(table.row_count)]
            self.app.push_screen(ExampleScreen(self._folders, ids, int(event.row_key.value)))

    def action_part(self) -> None:
        comparison = self._comparison
        if comparison is not None and comparison.unreachable is None:
            self.notify(sanitize(tables.unreachable_heading(comparison)), markup=False)
            return
        self._shows_unreachable = not self._shows_unreachable
        self._update()

    def action_copy_command(self) -> None:
        command = shlex.join(["harness", "compare", *(folder.id for folder in self._folders)])
        self.app.copy_to_clipboard(command)
        self.notify(f"Copied {sanitize(command)}", markup=False)


def _score_sections(comparison: Comparison) -> list[str]:
    """Return the tables of all runs as text, each run with its marker."""
    names = {run.id: f"{marker(index)} {run.id}" for index, run in enumerate(comparison.runs)}
    section = partial(_section, names)
    return [
        section("", tables.scores_and_pace(comparison)),
        section(tables.unreachable_heading(comparison), tables.scores_on_unreachable(comparison)),
        section(tables.recall_over_budget_heading(comparison), tables.recall_over_budget(comparison)),
    ]


def _section(names: dict[str, str], title: str, table: tables.Table) -> str:
    rows = [(sanitize(names.get(row[0], row[0])), *map(sanitize, row[1:])) for row in table]
    return "\n".join(filter(None, (sanitize(title), align_columns(rows) if rows else "")))
