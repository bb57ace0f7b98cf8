"""The screen that compares runs of one round: scores, paired differences, curves, examples and settings."""

import contextlib
import time
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static
from textual.worker import get_current_worker

from harness.analysis import comparison_tables as tables
from harness.analysis.comparison import Comparison, compare_runs
from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.files import write_atomically
from harness.core.text import sanitize
from harness.runs.folder import RunFolder
from harness.tui.axes import ClockAxis, axis_up_to
from harness.tui.compare_state import SOURCE, Compared, answer_texts, compared_on, header_of, tables_of
from harness.tui.editor import open_in_editor
from harness.tui.plot import Line, Plot
from harness.tui.screens.example import ExampleScreen
from harness.tui.source_diff import source_diff
from harness.tui.widgets.bars import KeyFooter, TopBar
from harness.tui.widgets.list_table import ListTable
from harness.tui.widgets.panels import Panel, PanelGroup, PanelScreen
from harness.tui.widgets.plot_view import PlotView, moments_plot, plot_of_scores

_MIN_POLL_SECONDS = 2.0
_POLL_TIME_SHARE = 0.1


class CompareBody(PanelGroup):
    """Scores and curves at the left, differences, examples and settings at the right."""

    ROOMY: ClassVar[tuple[int, int]] = (110, 24)

    def compose_panels(self) -> ComposeResult:
        with Horizontal():
            with Vertical():
                yield Panel(ListTable(id="score-table", sorts=True), id="scores", label="Scores")
                yield Panel(PlotView(id="curves-plot"), id="curves", label="Curves")
            with Vertical():
                yield Panel(ListTable(id="difference-table"), id="differences", label="Difference")
                yield Panel(ListTable(id="example-table", sorts=True, opens=True), id="examples", label="Examples")
                settings = ListTable(id="setting-table", opens=True)
                yield Panel(settings, id="settings", label="Settings", title="Settings that differ")


class CompareScreen(PanelScreen):
    """Two or more runs, compared again while any of them is running."""

    CSS_PATH = "compare.tcss"
    HELP = (
        "A comparison of runs of one round. Enter opens an example, or in the editor the difference of the sources. "
        "u switches to the examples that are not in the training rows: no training row contains their answers."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "right_square_bracket",
            "plot(1)",
            "Next plot",
            key_display="]",
            tooltip="Show the curves over errors, over time, or of one run at several times and after several trials",
        ),
        Binding("left_square_bracket", "plot(-1)", "Last plot", False, tooltip="Show the plot before", key_display="["),
        Binding(
            "u",
            "part",
            "All | not in training rows",
            tooltip="Switch between all examples and those not in the training rows",
        ),
    ]

    def __init__(self, folders: Sequence[RunFolder]) -> None:
        super().__init__()
        self._folders = tuple(folders)
        self._compared: Compared | None = None
        self._answers: list[str] = []
        self._shows_not_in_train = False
        self._plot = 0
        """0: over errors; 1: over time; then two of each run, at several times and after several trials."""

    def compose(self) -> ComposeResult:
        yield TopBar()
        yield Static("comparing …", id="header")
        yield CompareBody(id="compare-body")
        yield KeyFooter()

    def on_mount(self) -> None:
        self._compare()

    @work(thread=True, exclusive=True, group="compare")
    def _compare(self) -> None:
        worker = get_current_worker()
        while not worker.is_cancelled:
            started = time.monotonic()
            try:
                comparison = compare_runs(self._folders, takes_other_limits=True)
                # Without a tokenizer there are no texts.
                with contextlib.suppress(HarnessError):
                    self._answers = self._answers or answer_texts(self._folders[0])
                compared = compared_on(comparison, not_in_train=self._shows_not_in_train)
                self.call_later(self._apply, compared)
                if all(run.status.is_over for run in comparison.runs):
                    return
            except HarnessError as error:
                self.call_later(self._show_error, str(error))
                # Later, a record may be locked for a moment.
                if self._compared is None:
                    return
            worker.cancelled_event.wait(max(_MIN_POLL_SECONDS, (time.monotonic() - started) / _POLL_TIME_SHARE))

    @work(thread=True, exclusive=True, group="part")
    def _compare_part(self, comparison: Comparison) -> None:
        self.call_later(self._apply, compared_on(comparison, not_in_train=self._shows_not_in_train))

    def _show_error(self, reason: str) -> None:
        self.query_one("#header", Static).update(Content(sanitize(reason)))
        self.set_class(self._compared is None, "-nothing")

    def _apply(self, compared: Compared) -> None:
        is_first, self._compared = self._compared is None, compared
        with self.app.batch_update():
            self.query_one("#header", Static).update(Content("\n".join(map(sanitize, header_of(compared)))))
            content = tables_of(compared, self._answers, is_dark=self.app.current_theme.dark)
            for name, (columns, rows) in content.items():
                view = self.query_one(f"#{name}-table", ListTable)
                view.show(columns, rows)
                view.styles.min_height = min(len(rows) + 1, 8)
            count = self.query_one("#example-table", ListTable).row_count
            self.query_one("#examples", Panel).set_title(f"Examples that not all runs solve: {count:,}")
            none = "all runs solve the same" if compared.attacked.all(axis=0).any() else "none is attacked by all runs"
            self.query_one("#examples", Panel).show_empty("" if count else none)
            self.query_one("#settings", Panel).show_empty("" if compared.comparison.differing else "all are the same")
            self._draw(compared)
        if is_first:
            self.refresh_bindings()
            group = self.query_one(PanelGroup)
            group.go_to("examples" if count and group.has_class("-all") else "scores")

    def _draw(self, compared: Compared) -> None:
        panel, view = self.query_one("#curves", Panel), self.query_one("#curves-plot", PlotView)
        if self._plot > 1:
            number, by_trials = divmod(self._plot - 2, 2)
            run, when = compared.comparison.runs[number], "after several trials" if by_trials else "at several times"
            panel.set_title(f"{compared.names[number]} {when} · [ ]")
            view.show(moments_plot(run.moments, by_trials=bool(by_trials)))
            return
        labels = [f"{run.id.partition('-')[0]} {run.attack}" for run in compared.comparison.runs]
        labelled = list(zip(labels, compared.trajectories, strict=True))
        if self._plot == 0:
            panel.set_title("Recall vs. errors · [ ]")
            view.show(plot_of_scores([(label, trajectory.score) for label, trajectory in labelled]))
            return
        lines = []
        for number, (label, trajectory) in enumerate(labelled):
            x, y = np.array(trajectory.recall_over_time, np.float64).T
            lines.append(Line(x, y, number, label, is_marked=True))
        # Leads are on all examples of the round.
        lead = "" if compared.is_not_in_train or compared.is_limited else tables.last_lead(compared.comparison)
        panel.set_title(f"Recall vs. {', '.join(filter(None, ('time', lead)))} · [ ]")
        end = max(1.0, *(float(line.x[-1]) for line in lines))
        y_axis = axis_up_to("Recall", [line.y for line in lines], min_high=0.05)
        view.show(Plot(ClockAxis("time", 0.0, end), y_axis, lines))

    def action_plot(self, step: int) -> None:
        self._plot = (self._plot + step) % (2 + 2 * len(self._folders))
        self.show_panel("curves")
        if self._compared is not None:
            self._draw(self._compared)

    @on(ListTable.Opened, "#example-table")
    def _open_example(self, event: ListTable.Opened) -> None:
        ids = [int(key) for key in event.table.keys]
        self.app.push_screen(ExampleScreen(self._folders, ids, int(event.key)))

    @on(ListTable.Opened, "#setting-table")
    def _open_sources(self, event: ListTable.Opened) -> None:
        """Show the difference of the sources in the editor."""
        if event.key == SOURCE:
            try:
                # Some editors read the file after they have returned.
                file = paths.state_home() / "reports" / "sources.diff"
                file.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(file, "\n".join(source_diff(*self._folders)))
                open_in_editor(self.app, file)
            except (HarnessError, OSError) as error:
                self.notify(str(error), severity="error")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer what there is to switch to."""
        if action == "part":
            return self._compared is not None and self._compared.comparison.not_in_train is not None
        return action != "plot" or self._compared is not None

    def action_part(self) -> None:
        assert self._compared is not None
        self._shows_not_in_train = not self._shows_not_in_train
        self._compare_part(self._compared.comparison)
