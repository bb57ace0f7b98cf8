"""The page of the runs: the list, a preview of the run under the cursor, and everything that can be done with runs."""

from abc import abstractmethod
from collections.abc import Set
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Click
from textual.screen import ModalScreen
from textual.widgets import Static
from textual.worker import get_current_worker

from harness.analysis.replay import ReferenceCurve, curve_of
from harness.core.errors import HarnessError
from harness.core.paths import in_home, runs_home
from harness.runs.facts import facts_about
from harness.runs.folder import RunFolder
from harness.runs.status import Status
from harness.runs.summary import RunSummary
from harness.tui.columns import Row
from harness.tui.overview import Overview
from harness.tui.pages import Page
from harness.tui.plot import Line, Plot
from harness.tui.run_list import BASELINE, HEADING, NEWEST_FIRST, ListState, best_other, list_rows
from harness.tui.screens.opening import screen_for
from harness.tui.screens.run_actions import RUN_BINDINGS, RunActions
from harness.tui.series import read_recall
from harness.tui.subprocesses import run_command
from harness.tui.widgets.bars import Facts
from harness.tui.widgets.list_table import NO_MATCH, ListTable
from harness.tui.widgets.panels import Panel
from harness.tui.widgets.plot_view import PlotView, above_reference, plot_over_time

_PREVIEW_SECONDS = 0.15
_MAX_LIVE_GUESSES = 20_000
"""Guesses of a run at work from which on its curve is not read again and again."""
_RETRY_SECONDS = 10.0
"""Seconds before a run whose record could not be read is read again."""
_FACTS = (
    *("recall", "exact_at_1", "any_guess_correct", "status", "round", "parameters", "tags", "parent"),
    *("target", "time", "guesses", "device", "created", "note"),
)
"""The facts of the preview, in its order."""
_NO_RUNS = "No runs of this round. n starts one, b chooses another round."
_NEED_A_RUN = ("mark", "compare", "sort", "delete")
FIRST_RUN = ["run", "baseline", "--round", "demo", "--preset", "--detach"]
FIRST_PREFIX = "across the careful furnace. Motarn lifted the keen lantern near a"
FIRST_CONTINUATION = " valley of Nerlula. Nobody in Nerlula followed Kangovex's pillar beside the pale compass."
"""Example 995 of the demo, and how the bundled model continues it."""
_WAYS_IN = {
    "enter  demo": "Attack the bundled model: about a minute, no download. Guesses and the curve grow while you watch.",
    "n  your model": "Attack a hub model, a directory or a GGUF file. `harness new round` makes a round from your "
    "texts. 3 n starts an audit.",
    "6 f  SaTML 2023": "Fetch the 15,000 prefixes of the challenge: 14 MB. Its target has 1.3 B parameters.",
}


class FirstRun(Vertical, can_focus=True):
    """The purpose of the program, one example, and three ways in; shown while there are no runs."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "start", "Attack the bundled model", tooltip="Start the baseline on the demo round"),
    ]

    def compose(self) -> ComposeResult:
        yield Static(
            Content.assemble(
                ("How much of its training data does a language model give away?", "bold"),
                "\n\nAn attack shows it the beginning of a training text and asks for the rest:\n\n",
                ("prefix  ", "$foreground 70%"),
                f"…{FIRST_PREFIX}\n",
                ("model   ", "$foreground 70%"),
                (FIRST_CONTINUATION.strip(), "bold $text-success"),
                ("  ✓ word for word", "$text-success"),
                "\n\nRecall@100 is the share of texts extracted before the 100th wrong guess.",
            )
        )
        with Horizontal():
            for title, words in _WAYS_IN.items():
                key, _, name = title.partition("  ")
                text = Content.assemble((key, "bold $text-accent"), (f"  {name}\n", "bold"), words)
                yield Static(text, name=key.partition(" ")[0])
        place = f"Runs are kept in {in_home(runs_home())}. HARNESS_HOME or --home changes it."
        yield Static(Content.styled(place, "$foreground 70%"), id="place-of-runs")

    def on_click(self, event: Click) -> None:
        """Press the key of the box that was clicked."""
        if event.widget is not None and event.widget.name:
            self.app.simulate_key(event.widget.name)

    def action_start(self) -> None:
        self.query_ancestor(RunsPage).start_first_run()


class RunListPage(Page, RunActions):
    """A page with a table of runs, and a preview of the run under its cursor."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._runs: dict[str, RunSummary] = {}
        self._previewed: RunSummary | None = None

    @abstractmethod
    def read_preview(self, folder: RunFolder, summary: RunSummary) -> Any:
        """Return what the record says; called in a thread. Raises HarnessError if it cannot be read."""

    @abstractmethod
    def show_preview(self, summary: RunSummary | None, content: Any) -> None:
        """Show what was read of the run, or the reason as a text; without a run, that there is none."""

    @property
    def run_under_cursor(self) -> RunSummary | None:
        """The run under the cursor; None if it cannot be read, or if there is none."""
        return self._runs.get(self.table.key_under_cursor or "")

    def run_under_action(self) -> RunFolder | None:
        key = self.table.key_under_cursor
        return None if key is None or key.startswith(HEADING) else RunFolder.of(key)

    def status_under_action(self) -> Status | None:
        return None if self.run_under_cursor is None else self.run_under_cursor.status

    def open_run(self, id_: str) -> None:
        """Open the screen of a run."""
        self.app.push_screen(screen_for(RunFolder.of(id_)))

    @on(ListTable.Highlighted)
    def preview(self) -> None:
        """Read the run under the cursor again if it has changed."""
        summary, before = self.run_under_cursor, self._previewed
        if summary is None:
            self._previewed = None
            self.show_preview(None, "")
        elif summary != before and self._is_visible:
            self._previewed = summary
            self._read_preview(summary)
        if summary is not before:
            self.refresh_bindings()

    @property
    def _is_visible(self) -> bool:
        """True if no screen or only dialogs are above this one."""
        stack = self.app.screen_stack
        return all(isinstance(above, ModalScreen) for above in stack[stack.index(self.screen) + 1 :])

    @work(thread=True, exclusive=True, group="preview")
    def _read_preview(self, summary: RunSummary) -> None:
        worker = get_current_worker()
        # A cursor that moves on within this time has no preview.
        if worker.cancelled_event.wait(_PREVIEW_SECONDS):
            return
        try:
            content = self.read_preview(RunFolder.of(summary.id), summary)
        except HarnessError as error:
            content = str(error)
            self.call_later(self.set_timer, _RETRY_SECONDS, partial(self._retry, summary))
        if not worker.is_cancelled:
            self.call_later(self._show_preview, summary, content)

    def _show_preview(self, summary: RunSummary, content: Any) -> None:
        if summary is self._previewed:
            self.show_preview(summary, content)

    def _retry(self, summary: RunSummary) -> None:
        if summary is self._previewed:
            self._previewed = None
            self.preview()


class RunsPage(RunListPage):
    """All runs of attacks, and a preview of one."""

    HELP = "All runs of attacks on this machine. Enter opens a run; marked runs are compared, or deleted together."
    FILTER = "words, or status:running round:demo attack:base tag:best group:name"
    BINDINGS: ClassVar[list[BindingType]] = [
        *RUN_BINDINGS,
        Binding("space", "mark", "Mark", tooltip="Mark the run to compare or delete it, or unmark it"),
        Binding("slash", "filter", "Filter", tooltip="Filter the runs"),
        Binding("o", "sort", "Sort", show=False, tooltip="Sort the runs by the next column"),
    ]

    def __init__(self) -> None:
        super().__init__(id="runs-page")
        self._overview: Overview | None = None
        self._state = ListState()
        self._reference: tuple[RunSummary, ReferenceCurve | None] | None = None
        """The run of the baseline behind the last preview, and its curve: a run at work is previewed every second."""

    def compose_panels(self) -> ComposeResult:
        with Horizontal():
            first_run = Vertical(FirstRun(id="first-run"), id="first-run-place")
            yield Panel(first_run, ListTable(id="runs", opens=True), id="list", label="Runs")
            yield Panel(PlotView(id="preview-plot"), Facts(id="facts"), id="preview", label="Preview")

    def show(self, overview: Overview) -> None:
        """Show the runs of the round, or of all rounds."""
        self._overview = overview
        self._runs = {run.id: run for run in overview.runs if run.has_score}
        marked = self._state.marked & (self._runs.keys() | overview.unreadable.keys())
        self._state = replace(self._state, round=overview.round_name, marked=marked)
        self._update()

    def focus_main(self) -> None:
        """Focus the list, or the card of the first run."""
        is_first = bool(self.query_one("#first-run-place").display)
        self.screen.set_focus(self.query_one(FirstRun) if is_first else self.table)

    def _update(self) -> None:
        overview, state = self._overview, self._state
        if overview is None:
            return
        columns, rows, matches = list_rows(list(self._runs.values()), overview.unreadable, state)
        if self._runs and not rows:
            columns, rows = (), [Row(HEADING, [NO_MATCH if state.query else _NO_RUNS], spans=True)]
        is_first = not self._runs and not overview.unreadable
        table, place = self.table, self.query_one("#first-run-place")
        if is_first != bool(place.display) or table.display is is_first:
            place.display, table.display = is_first, not is_first
            self.set_absent("preview", is_absent=is_first)
            if self.screen.focused is None or self.screen.focused in (table, *place.query("*")):
                self.focus_main()
        table.show(columns, rows, sort_key=state.sort_key, is_descending=state.is_descending)
        facts = ["Runs"] if state.sort_key == NEWEST_FIRST else ["Runs", f"by {state.sort_key}"]
        if matches < len(self._runs):
            facts.append(f"{matches} of {len(self._runs)}")
        if state.marked:
            facts.append(f"{len(state.marked)} marked")
        self.query_one("#list", Panel).set_title(" · ".join(facts))
        self.preview()

    # The preview.

    def read_preview(self, folder: RunFolder, summary: RunSummary) -> Plot | str:
        """Return the recall of the run vs. errors above the baseline; vs. time if the round is blind or it takes long.

        The curve of a run at work is read again with each change.
        """
        if summary.is_blind or (summary.guesses > _MAX_LIVE_GUESSES and not summary.status.is_over):
            series = read_recall(folder, summary)
            return plot_over_time(series, end=summary.elapsed_s) if len(series.at) > 1 else "no curve yet"
        curve = curve_of(folder, summary) if summary.guesses else None
        if curve is None:
            return "no guesses" if summary.status.is_over else "no guesses yet"
        best = best_other(summary, self._runs.values())
        if best is None or best.attack != BASELINE:
            self._reference = None
        elif self._reference is None or self._reference[0] is not best:
            self._reference = best, curve_of(RunFolder.of(best.id), best)
        reference = None if self._reference is None else self._reference[1]
        line = Line(curve.errors.astype(float), curve.recall, 0, "this run")
        return above_reference(line, reference, summary.error_cap, curve.recall_at_cap)

    def show_preview(self, summary: RunSummary | None, content: Plot | str) -> None:
        """Show the curve of the run, and what it was given."""
        panel, plot = self.query_one("#preview", Panel), self.query_one("#preview-plot", PlotView)
        panel.show_empty("no run under the cursor" if summary is None else "")
        if summary is None:
            # In a small terminal the panel is not collapsed.
            plot.show("")
            self.query_one(Facts).show([])
            return
        panel.set_title(f"{summary.id} · {summary.shown_attack}")
        plot.show(content)
        self.query_one(Facts).show([(fact.label, fact.text) for fact in facts_about(summary, _FACTS)])

    # The list.

    def filter(self, query: str) -> None:
        """Show the runs that match."""
        self._state = replace(self._state, query=query)
        self._update()

    def action_back_out(self) -> None:
        """Remove the filter, or unmark all runs."""
        is_filtered = self.query_one("#filter").display
        super().action_back_out()
        if not is_filtered and self._state.marked:
            self._state = replace(self._state, marked=frozenset())
            self._update()

    def action_sort(self) -> None:
        self._state = self._state.sorted_next()
        self._update()

    @on(ListTable.TitleClicked, "#runs")
    def _sort_by_column(self, event: ListTable.TitleClicked) -> None:
        self._state = replace(self._state, sort_key=event.key)
        self._update()

    def action_mark(self) -> None:
        """Mark the run under the cursor for a comparison, or unmark it; open or close a group."""
        key = self.table.key_under_cursor
        if key is None:
            return
        if key.startswith(HEADING):
            self._state = replace(self._state, toggled=self._state.toggled ^ {key})
        else:
            # The cursor stays, so that a second Space undoes the first.
            self._state = replace(self._state, marked=self._state.marked ^ {key})
        self._update()

    @on(ListTable.Opened, "#runs")
    def _open(self, event: ListTable.Opened) -> None:
        if event.key.startswith(HEADING):
            self.action_mark()
        else:
            self.open_run(event.key)

    # The runs.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide what needs a run while there is none."""
        return (action not in _NEED_A_RUN or bool(self._runs)) and super().check_action(action, parameters)

    def runs_to_delete(self) -> list[RunFolder]:
        """Return the run under the cursor, and if it is marked all marked runs."""
        marked = self._state.marked if self.table.key_under_cursor in self._state.marked else ()
        return [RunFolder.of(id_) for id_ in sorted(marked)] or super().runs_to_delete()

    def action_compare(self) -> None:
        marked = self._state.marked & self._runs.keys()
        self.compare(marked if len(marked) > 1 else marked | {self.table.key_under_cursor or ""})

    def compare(self, chosen: Set[str]) -> None:
        """Compare runs; a single run is compared with the best run of the baseline, or of any attack.

        A run with the same limit is preferred.
        """
        # Newest first, so that a positive difference is an improvement.
        ids = [id_ for id_ in self._runs if id_ in chosen]
        if len(ids) == 1:
            run, runs = self._runs[ids[0]], self._runs.values()
            best = best_other(run, runs) or best_other(run, runs, any_limit=True)
            ids += [] if best is None else [best.id]
        if not ids:
            self.notify("Put the cursor on a run, or mark runs with Space.")
            return
        if len(ids) < 2:
            self.notify("There is no other run of this round to compare with. Start one with n.")
            return
        # Imported here to keep the first paint fast.
        from harness.tui.screens.compare import CompareScreen

        self._state = replace(self._state, marked=frozenset())
        self._update()
        self.app.push_screen(CompareScreen([RunFolder.of(id_) for id_ in ids]))

    def start_first_run(self) -> None:
        """Start the baseline on the demo round, and open its screen."""
        # A second start would cancel only the waiting for the first.
        if not any(worker.group == "start" and not worker.is_finished for worker in self.workers):
            self.notify("Starting the baseline on the demo round …")
            self._start()

    @work(thread=True, exclusive=True, group="start")
    def _start(self) -> None:
        try:
            answer = run_command(FIRST_RUN, on_progress=lambda line: None)
        except HarnessError as error:
            self.notify(str(error), severity="error")
            return
        if answer is not None:
            self.call_later(self._open_started, str(answer["id"]))

    def _open_started(self, id_: str) -> None:
        self.table.move_to(id_)
        if self.screen.is_current:
            self.open_run(id_)
