"""Runs of one round side by side: curves, scores, pace, what differs; a pair also example by example."""

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import ClassVar

import numpy as np
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, ScrollableContainer, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from harness.analysis import comparison_tables as tables
from harness.analysis.comparison import Comparison, compare_runs
from harness.core.errors import HarnessError
from harness.core.scoring import DRAWN_POINTS, Score
from harness.core.text import align_columns, sanitize, shorten_middle
from harness.runs.folder import RunFolder
from harness.tui.screens.example import ExampleScreen
from harness.tui.screens.paneled import PaneledScreen
from harness.tui.widgets.curve_plot import Curve, CurvePlot, ErrorsPlot, HistoryPlot, headroom, marker
from harness.tui.widgets.key_footer import KeyFooter
from harness.tui.widgets.keyed_table import KeyedTable, Row

_CELL = 28
_LEAST_SECONDS = 2.0
_SHARE_OF_TIME = 0.1


class ScoreTables(ScrollableContainer, can_focus=True):
    """The tables of all runs."""

    HELP = "Each run's score, interval and pace; the same on the part that its training rows do not give away."


class PairTable(KeyedTable):
    """The examples that one of a pair solves and the other does not."""

    HELP = "Examples that one run solves within the cap and the other does not. Enter opens one with all candidates."


class SettingsTable(KeyedTable):
    """What was set or found differently."""

    HELP = "Parameters, versions and hardware that are not the same for all runs."


class CompareScreen(PaneledScreen[None]):
    """Two runs or more, drawn anew while any of them goes on."""

    CSS_PATH = "compare.tcss"
    HELP = "Runs of one round. `u` draws the curves on the part that training rows do not give away, and back."
    PANELS: ClassVar[dict[str, str]] = {
        "curves": "recall | errors",
        "history": "recall | time",
        "scores": "runs",
        "pair": "solved by one alone",
        "settings": "what differs",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "part", "All | unreachable", tooltip="Draw all examples, or those that cannot be reached"),
        Binding("y", "copy_command", "Copy command", tooltip="Copy the command that prints this comparison"),
    ]

    @dataclass
    class Compared(Message):
        """What the runs come to beside each other now."""

        comparison: Comparison

    @dataclass
    class Failed(Message):
        """Why they cannot be compared, at least now."""

        reason: str

    def __init__(self, folders: Sequence[RunFolder]) -> None:
        super().__init__()
        self._folders = tuple(folders)
        self._comparison: Comparison | None = None
        self._is_on_part = False
        self._is_gone = Event()

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
        """Begin to compare."""
        self._compare()

    def on_unmount(self) -> None:
        """No more comparisons."""
        self._is_gone.set()

    @work(thread=True, exclusive=True, group="compare")
    def _compare(self) -> None:
        while not self._is_gone.is_set():
            before = time.monotonic()
            try:
                comparison = compare_runs(self._folders)
                self.post_message(self.Compared(comparison))
                if all(run.status.is_over for run in comparison.runs):
                    return
            except HarnessError as error:
                self.post_message(self.Failed(str(error)))
            took = time.monotonic() - before
            self._is_gone.wait(max(_LEAST_SECONDS, took / _SHARE_OF_TIME))

    @on(Failed)
    def _say_fault(self, event: Failed) -> None:
        self.query_one("#header", Static).update(Content(sanitize(event.reason)))

    @on(Compared)
    def _take(self, event: Compared) -> None:
        self._comparison = event.comparison
        with self.app.batch_update():
            self.query_one("#body").remove_class("-empty")
            self._show()

    def _show(self) -> None:
        comparison = self._comparison
        if comparison is None:
            return
        part = comparison.unreachable if self._is_on_part and comparison.unreachable is not None else comparison.whole
        which = "" if part is comparison.whole else " that cannot be reached"
        words = f"{len(comparison.runs)} runs of {sanitize(comparison.round)} · {len(part):,} examples{which}"
        going_on = sum(not run.status.is_over for run in comparison.runs)
        if going_on:
            words += f" · {going_on} not over yet: figures are of now"
        legend = "  ".join(f"{marker(place)} {sanitize(run.id)}" for place, run in enumerate(comparison.runs))
        self.query_one("#header", Static).update(Content(f"{words}\n{legend}"))
        self._draw_curves(comparison, cap=part.cap, is_on_part=part is comparison.unreachable)
        self._draw_history(comparison, is_on_part=part is comparison.unreachable)
        self.query_one("#scores-text", Static).update(Content("\n\n".join(_score_sections(comparison))))
        self._show_pair(comparison)
        differing = tables.differing_settings(comparison)
        self.query_one("#settings-text").display = not differing
        table = self.query_one(SettingsTable)
        table.display = bool(differing)
        if differing:
            header, *rows = differing
            table.fill(header, [Row(row[0], [shorten_middle(cell, _CELL) for cell in row]) for row in rows])

    def _draw_curves(self, comparison: Comparison, *, cap: int, is_on_part: bool) -> None:
        scores = [run.unreachable if is_on_part else run.score for run in comparison.runs]
        curves = [_curve(score, place) for place, score in enumerate(scores) if score is not None]
        mark = float(np.log10(1 + cap))
        self.query_one("#curves-plot", CurvePlot).show(
            curves,
            mark=mark,
            x_most=max(mark * 1.05, *(float(curve.x[-1]) for curve in curves)),
            y_most=headroom(curves),
        )

    def _draw_history(self, comparison: Comparison, *, is_on_part: bool) -> None:
        histories = [run.unreachable_over_time if is_on_part else run.recall_over_time for run in comparison.runs]
        points = [np.array(history or ()).reshape(-1, 2) for history in histories]  # [points, (spent, recall)]
        curves = [Curve(of_run[:, 0], of_run[:, 1], place, is_marked=True) for place, of_run in enumerate(points)]
        self.query_one("#history-plot", CurvePlot).show(
            curves,
            x_most=max(1.0, *(float(curve.x.max(initial=0.0)) for curve in curves)),
            y_most=headroom(curves),
        )

    def _show_pair(self, comparison: Comparison) -> None:
        contrasts = tables.contrasts(comparison)
        if not contrasts:
            self.query_one("#pair-text", Static).update("two runs, and no more, are compared example by example")
            return
        words = [line for where, found in contrasts for line in tables.contrast_lines(comparison, found, where)]
        self.query_one("#pair-text", Static).update(Content("\n".join(map(sanitize, words))))
        _, whole = contrasts[0]
        part = comparison.whole if comparison.unreachable is None else comparison.unreachable
        unreachable = set(part.ids.tolist())
        rows = [
            Row(str(id_), (f"{id_}", f"{marker(place)} {run.id}", "" if id_ in unreachable else "gives it away"))
            for place, (run, ids) in enumerate(zip(comparison.runs, (whole.only_first, whole.only_second), strict=True))
            for id_ in ids.tolist()
        ]
        self.query_one(PairTable).fill(("example", "solved by", "a training row"), rows)
        title = f"{self.PANELS['pair']}: {len(whole.only_first):,} and {len(whole.only_second):,}"
        self.panel("pair").border_title = Content(title)

    @on(PairTable.RowSelected)
    def _open_example(self, event: PairTable.RowSelected) -> None:
        table = self.query_one(PairTable)
        if event.data_table is table and event.row_key.value is not None:
            ids = [int(str(table.get_row_at(row)[0])) for row in range(table.row_count)]
            self.app.push_screen(ExampleScreen(self._folders, ids, int(event.row_key.value)))

    def action_part(self) -> None:
        """Draw all examples, or those that cannot be reached from the training rows."""
        comparison = self._comparison
        if comparison is not None and comparison.unreachable is None:
            self.notify(sanitize(tables.unreachable_heading(comparison)), markup=False)
            return
        self._is_on_part = not self._is_on_part
        self._show()

    def action_copy_command(self) -> None:
        """Copy the command that prints this comparison."""
        command = shlex.join(["harness", "compare", *(folder.id for folder in self._folders)])
        self.app.copy_to_clipboard(command)
        self.notify(f"copied {sanitize(command)}", markup=False)


def _curve(score: Score, place: int) -> Curve:
    curve = score.recall_curve(DRAWN_POINTS)
    return Curve(np.log10(1.0 + curve.errors), curve.recall, place, is_marked=True)


def _score_sections(comparison: Comparison) -> list[str]:
    """The tables of all runs as text, each run with its marker."""
    sign = {run.id: f"{marker(place)} {run.id}" for place, run in enumerate(comparison.runs)}
    in_text = partial(_in_text, sign)
    return [
        in_text("", tables.scores_and_pace(comparison)),
        in_text(tables.unreachable_heading(comparison), tables.scores_on_unreachable(comparison)),
        in_text(tables.recall_over_budget_heading(comparison), tables.recall_over_budget(comparison)),
    ]


def _in_text(sign: dict[str, str], title: str, table: tables.Table) -> str:
    rows = [(sanitize(sign.get(row[0], row[0])), *map(sanitize, row[1:])) for row in table]
    return "\n".join(filter(None, (sanitize(title), align_columns(rows) if rows else "")))
