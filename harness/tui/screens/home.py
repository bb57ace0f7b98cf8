"""Home: the attacks there are, what the chosen one does, and the runs so far."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import DataTable, Input, Static

from harness.core.durations import clock
from harness.core.errors import HarnessError
from harness.core.moments import day_and_time
from harness.core.rounds import load_round
from harness.core.visible import visible
from harness.runs.discovery import AttackFile, attack_folders
from harness.runs.folder import RunFolder, runs_home
from harness.runs.parameters import parameters_in
from harness.runs.scaffold import new_attack
from harness.runs.schema import fetch_schema
from harness.runs.summary import RunSummary
from harness.tui.editing import edited
from harness.tui.overview import Overview, OverviewFeed
from harness.tui.screens.compare import CompareScreen
from harness.tui.screens.name_prompt import NamePrompt
from harness.tui.screens.new_run import NewRunScreen
from harness.tui.screens.round_chooser import RoundChooser
from harness.tui.screens.run import RunScreen
from harness.tui.watching import watch_folders
from harness.tui.widgets.key_footer import KeyFooter
from harness.tui.widgets.keyed_table import KeyedTable, Row

_POLL_SECONDS = 1.0
_FILTER = "any part of id, attack, round, status, note; enter keeps, escape shows all"
_MARK = "●"
_RUN_COLUMNS = ("  run", "status", "attack", "round", "recall at cap", "elapsed / budget", "started")
# A run's id holds its attack and its round.
_RUN_COLUMNS_WHERE_NARROW = ("  run", "status", "recall", "elapsed", "started")
_SORTINGS: dict[str, tuple[Callable[[RunSummary], Any], bool]] = {
    "started": (lambda run: run.created_at, True),
    "recall": (lambda run: -1.0 if run.recall_at_cap is None else run.recall_at_cap, True),
    "attack": (lambda run: run.attack, False),
    "round": (lambda run: run.round, False),
    "status": (lambda run: run.status.value, False),
    "elapsed": (lambda run: run.elapsed_s, True),
}
"""What runs are sorted by, and whether the greatest come first; of equals the newest does."""
_SORTING_OF_COLUMN = {"recall at cap": "recall", "elapsed / budget": "elapsed"} | {name: name for name in _SORTINGS}
_ATTACK_COLUMNS = ("attack", "best", "from", "what it does")


class AttackTable(KeyedTable):
    """The attacks there are."""

    HELP = "Attacks, with their best recall on the chosen round (`b`). Enter fills in a new run; a broken one says why."


class RunTable(KeyedTable):
    """The runs so far."""

    HELP = "Every run of this machine. Enter opens one; Space marks it, and `c` compares the marked ones."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "screen.mark", "Mark", tooltip="Mark this run for a comparison"),
    ]


class HomeScreen(Screen[None]):
    """Attacks on the left, the chosen one on the right, runs below."""

    CSS_PATH = "home.tcss"
    HELP = "Attacks above, runs below; Tab goes from one to the other."
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012  as Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-low"), (16, "-high")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "new_run", "New run", tooltip="Fill in a new run of the chosen attack"),
        Binding("c", "compare", "Compare", tooltip="Compare the marked runs with each other"),
        Binding("slash", "filter", "Filter", tooltip="Filter the runs"),
        Binding("o", "sort", "Sort", show=False, tooltip="Sort the runs by another column"),
        Binding("b", "round", "Round", tooltip="Choose the round that best recalls are about"),
        Binding(
            "i", "about", "About", show=False, tooltip="What the chosen attack does, where there is no room beside it"
        ),
        Binding("a", "new_attack", "New attack", show=False, tooltip="Write a new attack and open it in the editor"),
        Binding("e", "edit", "Edit", show=False, tooltip="Open the chosen attack in the editor"),
        Binding("q", "app.quit", "Quit", tooltip="Leave the screen; runs go on"),
        Binding("escape", "back_out", show=False),
    ]

    @dataclass
    class Looked(Message):
        """What there is now."""

        overview: Overview

    @dataclass
    class Described(Message):
        """What the attack of this key does, in words."""

        key: str
        words: str

    @dataclass
    class Ended(Message):
        """A run that went on while the screen was open has come to its end."""

        summary: RunSummary

    def __init__(self, *, attacks_folder: Path | None, round_name: str) -> None:
        super().__init__()
        self._is_gone = Event()
        self._look_again = Event()
        self._attacks_folder = attacks_folder
        self._round, self._round_name = round_name, _own_name(round_name)
        self._marked: set[str] = set()
        self._going_on: set[str] = set()
        self._feed = OverviewFeed(attacks_folder)
        self._overview: Overview | None = None
        self._sorting = "started"
        self._described: str | None = None

    def compose(self) -> ComposeResult:
        with Horizontal(id="above"):
            yield AttackTable(id="attacks")
            with VerticalScroll(id="description"):
                yield Static("", id="words")
        with Vertical(id="below"):
            yield Input(
                placeholder="filter runs by any part of id, attack, round, status, note; enter keeps, escape shows all",
                id="filter",
            )
            yield RunTable(id="runs")
        yield KeyFooter()

    def on_mount(self) -> None:
        """Begin to poll."""
        self.query_one("#description").border_title = "attack"
        self.query_one("#filter").display = False
        self.query_one("#attacks").focus()
        self._poll()
        self._watch()

    @work(thread=True, exclusive=True, group="poll")
    def _poll(self) -> None:
        while not self._is_gone.is_set():
            self._look_again.clear()
            self.post_message(self.Looked(self._feed.poll()))
            self._look_again.wait(_POLL_SECONDS)

    @work(thread=True, exclusive=True, group="watch")
    def _watch(self) -> None:
        def changed() -> None:
            self._feed.attacks_changed()
            self._look_again.set()

        watch_folders(lambda: tuple(attack_folders(self._attacks_folder)), changed, is_gone=self._is_gone)

    def on_resize(self) -> None:
        """Show the columns that there is room for."""
        self.call_after_refresh(self._show)

    def on_unmount(self) -> None:
        """No more polls."""
        self._is_gone.set()
        self._look_again.set()

    @on(Looked)
    def _take(self, event: Looked) -> None:
        if event.overview != self._overview:
            for run in event.overview.runs:
                if run.id in self._going_on and run.status.is_over:
                    self.post_message(self.Ended(run))
            self._going_on = {run.id for run in event.overview.runs if not run.status.is_over}
            self._overview = event.overview
            self._show()

    def _show(self) -> None:
        overview = self._overview
        if overview is None:
            return
        with self.app.batch_update():
            attacks, runs = self.query_one(AttackTable), self.query_one(RunTable)
            rows = [_attack_row(attack, overview, self._round_name) for attack in overview.attacks]
            attacks.fill(_ATTACK_COLUMNS, rows)
            attacks.border_title = Content(f"attacks · best on {visible(self._round_name)}")
            chosen = self._chosen_runs()
            unreadable = [_unreadable_row(id_, reason) for id_, reason in overview.unreadable.items()]
            self._marked &= {run.id for run in overview.runs} | set(overview.unreadable)
            is_narrow = self.has_class("-narrow")
            rows = [_run_row(run, is_marked=run.id in self._marked, is_narrow=is_narrow) for run in chosen]
            columns = _RUN_COLUMNS_WHERE_NARROW if is_narrow else _RUN_COLUMNS
            runs.fill(columns, [*rows, *(_fitted(row, len(columns)) for row in unreadable)])
            facts = [f"by {self._sorting}"]
            if len(chosen) < len(overview.runs):
                facts.append(f"{len(chosen)} of {len(overview.runs)} match, escape shows all")
            if self._marked:
                facts.append(f"{len(self._marked)} marked")
            if unreadable:
                facts.append(f"{len(unreadable)} cannot be read")
            runs.border_title = " · ".join(["runs", *facts])
            if overview.fault is not None:
                self._described = None
                self.query_one("#words", Static).update(Content(visible(overview.fault)))
            else:
                self._describe()

    def _chosen_runs(self) -> list[RunSummary]:
        assert self._overview is not None
        wanted = self.query_one("#filter", Input).value.casefold()
        runs = [
            run
            for run in self._overview.runs
            if wanted in f"{run.id} {run.attack} {run.round} {run.status} {run.note}".casefold()
        ]
        key, is_reversed = _SORTINGS[self._sorting]
        return sorted(runs, key=key, reverse=is_reversed)

    def _attack(self) -> AttackFile | None:
        key = self.query_one(AttackTable).key_under_cursor
        attacks = () if self._overview is None else self._overview.attacks
        return next((attack for attack in attacks if str(attack.path) == key), None)

    @on(DataTable.RowHighlighted, "#attacks")
    def _describe(self) -> None:
        attack = self._attack()
        if attack is None:
            return
        key = f"{attack.path} {attack.sha256}"
        if key == self._described:
            return
        self._described = key
        if attack.error is not None:
            self.query_one("#words", Static).update(
                Content(f"{visible(attack.name)} is broken\n\n{visible(attack.error)}")
            )
            return
        self.query_one("#words", Static).update(Content(f"{visible(attack.name)}\n\n{visible(attack.summary)}"))
        self._fetch(attack, key)

    @work(thread=True, exclusive=True, group="schema")
    def _fetch(self, attack: AttackFile, key: str) -> None:
        try:
            schema = fetch_schema(attack.path, digest=attack.sha256)
            paragraphs = [" ".join(paragraph.split()) for paragraph in schema.doc.split("\n\n")]
            lines = [visible(attack.name), "", *(f"{visible(paragraph)}\n" for paragraph in paragraphs)]
            if attack.reference:
                lines += [f"reference: {visible(attack.reference)}", ""]
            for parameter in parameters_in(schema.schema):
                lines.append(visible(f"{parameter.name}: {parameter.in_words}"))
            words = "\n".join(lines)
        except HarnessError as error:
            words = visible(str(error))
        self.post_message(self.Described(key, words))

    @on(Described)
    def _take_words(self, event: Described) -> None:
        if event.key == self._described:
            self.query_one("#words", Static).update(Content(event.words))

    @on(DataTable.RowSelected, "#attacks")
    def action_new_run(self) -> None:
        """Fill in a new run of the chosen attack."""
        attack = self._attack()
        if attack is None:
            return
        if attack.error is not None:
            self.notify(visible(attack.error), severity="error", markup=False)
            return
        screen = NewRunScreen(attack, attacks_folder=self._attacks_folder, round_name=self._round)
        self.app.push_screen(screen, self._open_run)

    @on(DataTable.RowSelected, "#runs")
    def _open_chosen_run(self, event: DataTable.RowSelected) -> None:
        self._open_run(event.row_key.value)

    def _open_run(self, id_: str | None) -> None:
        if id_:
            self.app.push_screen(RunScreen(RunFolder(runs_home() / id_)))

    @on(Input.Changed, "#filter")
    def _filter_changed(self) -> None:
        self._show()

    @on(Input.Submitted, "#filter")
    def _filter_done(self) -> None:
        self.query_one("#runs").focus()

    def action_filter(self) -> None:
        """Filter the runs."""
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()

    def action_back_out(self) -> None:
        """Show all runs again; forget the marks; hide what an attack does."""
        field = self.query_one("#filter", Input)
        if self.has_class("-about"):
            self.action_about()
        elif self._marked and not field.display:
            self._marked.clear()
            self._show()
        elif field.display:
            field.value = ""
            field.display = False
            self.query_one("#runs").focus()

    def action_mark(self) -> None:
        """Mark the run under the cursor for a comparison, or take its mark away."""
        table = self.query_one(RunTable)
        if (id_ := table.key_under_cursor) is not None:
            self._marked ^= {id_}
            self._show()
            table.action_cursor_down()

    def action_compare(self) -> None:
        """Compare the marked runs; a single marked one with the one under the cursor."""
        here = self.query_one(RunTable).key_under_cursor
        chosen = self._marked if len(self._marked) > 1 or here is None else self._marked | {here}
        if len(chosen) < 2:
            self.notify("mark two runs or more with Space, then compare them")
            return
        ids = [run.id for run in self._overview.runs if run.id in chosen] if self._overview is not None else []
        self.app.push_screen(CompareScreen([RunFolder(runs_home() / id_) for id_ in reversed(ids)]))

    def action_round(self) -> None:
        """Choose the round that best recalls and new runs are about."""

        def chosen(name: str | None) -> None:
            if name is not None:
                self._round, self._round_name = name, _own_name(name)
                self._show()

        self.app.push_screen(RoundChooser(self._round), chosen)

    def action_about(self) -> None:
        """Put what the chosen attack does in the place of the list, and back."""
        self.toggle_class("-about")
        self.query_one("#description" if self.has_class("-about") else "#attacks").focus()

    def action_sort(self) -> None:
        """Sort the runs by the next column."""
        names = list(_SORTINGS)
        self._sort_by(names[(names.index(self._sorting) + 1) % len(names)])

    @on(DataTable.HeaderSelected, "#runs")
    def _sort_by_column(self, event: DataTable.HeaderSelected) -> None:
        self._sort_by(_SORTING_OF_COLUMN.get(str(event.label).strip(), "started"))

    def _sort_by(self, sorting: str) -> None:
        self._sorting = sorting
        self._show()

    def action_new_attack(self) -> None:
        """Ask for a name, write a scaffold and open it in the editor."""
        folder = self._attacks_folder or Path("attacks")

        def named(name: str | None) -> None:
            if name is None:
                return
            try:
                path = new_attack(name, folder)
            except HarnessError as error:
                self.notify(visible(str(error)), severity="error", markup=False)
                return
            # Once the question is gone: the editor gets the whole terminal.
            self.call_after_refresh(self._edit, path)

        taken = {path.stem for path in folder.glob("*.py")}
        number = next(number for number in count(1) if f"my_attack_{number}" not in taken)
        words = visible(f"a new attack in {folder}, called")
        self.app.push_screen(NamePrompt(words, f"my_attack_{number}"), named)

    def action_edit(self) -> None:
        """Open the chosen attack in the editor."""
        attack = self._attack()
        if attack is not None:
            self._edit(attack.path)

    def _edit(self, path: Path) -> None:
        try:
            edited(self.app, path)
        except HarnessError as error:
            self.notify(visible(str(error)), severity="error", markup=False)


def _own_name(round_: str) -> str:
    """What runs of the round go by: its own name, where it was named by a path."""
    try:
        return load_round(round_).name
    except (HarnessError, OSError):
        return round_


def _attack_row(attack: AttackFile, overview: Overview, round_name: str) -> Row:
    best = overview.best_recall(attack.name, round_name)
    what = attack.summary if attack.error is None else f"broken: {attack.error}"
    cells = (attack.name, "–" if best is None else f"{best:.3f}", attack.origin, what)
    return Row(str(attack.path), cells, "" if attack.error is None else "red")


def _unreadable_row(id_: str, reason: str) -> Row:
    return Row(id_, (f"  {id_}", "unreadable", reason), "red")


def _fitted(row: Row, columns: int) -> Row:
    return row._replace(cells=(*row.cells, *[""] * (columns - len(row.cells))))


def _run_row(run: RunSummary, *, is_marked: bool, is_narrow: bool) -> Row:
    name = f"{_MARK if is_marked else ' '} {run.id}"
    recall = "blind" if run.is_blind else "–" if run.recall_at_cap is None else f"{run.recall_at_cap:.3f}"
    started = day_and_time(run.created_at)
    elapsed, budget = clock(run.elapsed_s), clock(run.budget_s)
    cells: tuple[str, ...] = (name, run.status.words, recall, elapsed, started)
    if not is_narrow:
        if run.recall_interval is not None:
            recall += " [{:.3f}, {:.3f}]".format(*run.recall_interval)
        cells = (name, run.status.words, run.attack, run.round, recall, f"{elapsed} / {budget}", started)
    return Row(run.id, cells, "bold" if is_marked else "")
