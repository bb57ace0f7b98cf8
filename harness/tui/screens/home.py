"""Home: the attacks there are, what the chosen one does, and the runs so far."""

import time
from pathlib import Path
from threading import Event
from typing import ClassVar, Literal

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from harness.core.durations import clock
from harness.core.errors import HarnessError
from harness.core.visible import visible
from harness.runs.discovery import AttackFile
from harness.runs.folder import RunFolder, runs_home
from harness.runs.parameters import parameters_in
from harness.runs.scaffold import new_attack
from harness.runs.schema import fetch_schema
from harness.runs.summary import RunSummary
from harness.tui.overview import Overview, OverviewFeed
from harness.tui.screens.new_run import NewRunScreen
from harness.tui.screens.run import RunScreen

_POLL_SECONDS = 1.0
Sorting = Literal["started", "recall", "attack", "status"]
_SORTINGS: tuple[Sorting, ...] = ("started", "recall", "attack", "status")


class HomeScreen(Screen[None]):
    """Attacks on the left, the chosen one on the right, runs below."""

    CSS_PATH = "home.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012  as Textual declares it
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "new_run", "New run"),
        Binding("slash", "filter", "Filter"),
        Binding("o", "sort", "Sort"),
        Binding("a", "new_attack", "New attack"),
        Binding("e", "edit", "Edit"),
        Binding("q", "app.quit", "Quit"),
        Binding("escape", "leave_filter", show=False),
    ]

    class Looked(Message):
        """What there is now."""

        def __init__(self, overview: Overview) -> None:
            super().__init__()
            self.overview = overview

    class Described(Message):
        """What the attack of this key does, in words."""

        def __init__(self, key: str, words: str) -> None:
            super().__init__()
            self.key, self.words = key, words

    def __init__(self, *, attacks_folder: Path | None, round_name: str) -> None:
        super().__init__()
        self._is_gone = Event()
        self._attacks_folder = attacks_folder
        self._round_name = round_name
        self._overview: Overview | None = None
        self._sorting: Sorting = "started"
        self._described: str | None = None

    def compose(self) -> ComposeResult:
        with Horizontal(id="above"):
            yield DataTable(id="attacks", cursor_type="row", zebra_stripes=True)
            with VerticalScroll(id="description"):
                yield Static("", id="words")
        with Vertical(id="below"):
            yield Input(placeholder="filter runs: any part of id, attack, round, status", id="filter")
            yield DataTable(id="runs", cursor_type="row", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        """Begin to poll."""
        self.query_one("#attacks").border_title = f"attacks · best on {visible(self._round_name)}"
        self.query_one("#description").border_title = "attack"
        self.query_one("#runs").border_title = "runs"
        self.query_one("#attacks", DataTable).add_columns("attack", "best", "from", "what it does")
        self.query_one("#runs", DataTable).add_columns(
            "run", "status", "attack", "round", "recall at cap", "elapsed / budget", "started"
        )
        self.query_one("#filter").display = False
        self.query_one("#attacks").focus()
        self._poll()

    @work(thread=True, exclusive=True, group="poll")
    def _poll(self) -> None:
        feed = OverviewFeed(self._attacks_folder)
        while not self._is_gone.is_set():
            self.post_message(self.Looked(feed.poll()))
            self._is_gone.wait(_POLL_SECONDS)

    def on_unmount(self) -> None:
        """No more polls."""
        self._is_gone.set()

    @on(Looked)
    def _take(self, event: Looked) -> None:
        if event.overview != self._overview:
            self._overview = event.overview
            self._show()

    def _show(self) -> None:
        overview = self._overview
        if overview is None:
            return
        with self.app.batch_update():
            attacks = self.query_one("#attacks", DataTable)
            _fill(attacks, [(str(attack.path), self._attack_cells(attack)) for attack in overview.attacks])
            runs = self.query_one("#runs", DataTable)
            _fill(runs, [(run.id, _run_cells(run)) for run in self._chosen_runs()])
            unreadable = f" · {len(overview.unreadable)} cannot be read" if overview.unreadable else ""
            runs.border_title = f"runs · by {self._sorting}{unreadable}"
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
        if self._sorting == "recall":
            return sorted(runs, key=lambda run: -1.0 if run.recall_at_cap is None else run.recall_at_cap, reverse=True)
        if self._sorting == "attack":
            return sorted(runs, key=lambda run: run.attack)
        if self._sorting == "status":
            return sorted(runs, key=lambda run: str(run.status))
        return runs

    def _attack_cells(self, attack: AttackFile) -> tuple[Text, ...]:
        assert self._overview is not None
        best = self._overview.best_recall(attack.name, self._round_name)
        what = attack.summary if attack.error is None else f"broken: {attack.error}"
        cells = (attack.name, "–" if best is None else f"{best:.3f}", attack.origin, what)
        style = "" if attack.error is None else "red"
        return tuple(Text(visible(cell), style=style) for cell in cells)

    def _attack(self) -> AttackFile | None:
        key = _key_under_cursor(self.query_one("#attacks", DataTable))
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
            lines = [visible(attack.name), *map(visible, schema.doc.splitlines()), ""]
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
        screen = NewRunScreen(attack, attacks_folder=self._attacks_folder, round_name=self._round_name)
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

    def action_leave_filter(self) -> None:
        """Show all runs again."""
        field = self.query_one("#filter", Input)
        if field.display:
            field.value = ""
            field.display = False
            self.query_one("#runs").focus()

    def action_sort(self) -> None:
        """Sort the runs by the next column."""
        self._sorting = _SORTINGS[(_SORTINGS.index(self._sorting) + 1) % len(_SORTINGS)]
        self._show()

    def action_new_attack(self) -> None:
        """Write a scaffold and open it in the editor."""
        folder = self._attacks_folder or Path("attacks")
        taken = {path.stem for path in folder.glob("*.py")}
        number = next(number for number in range(1, 1000) if f"my_attack_{number}" not in taken)
        try:
            self._edit(new_attack(f"my_attack_{number}", folder))
        except HarnessError as error:
            self.notify(visible(str(error)), severity="error", markup=False)

    def action_edit(self) -> None:
        """Open the chosen attack in the editor."""
        attack = self._attack()
        if attack is not None:
            self._edit(attack.path)

    def _edit(self, path: Path) -> None:
        from harness.tui.editing import edited

        try:
            edited(self.app, path)
        except HarnessError as error:
            self.notify(visible(str(error)), severity="error", markup=False)


def _run_cells(run: RunSummary) -> tuple[Text, ...]:
    recall = "blind" if run.is_blind else "–"
    if run.recall_at_cap is not None:
        bounds = "" if run.recall_interval is None else " [{:.3f}, {:.3f}]".format(*run.recall_interval)
        recall = f"{run.recall_at_cap:.3f}{bounds}"
    started = time.strftime("%b %d %H:%M", time.localtime(run.created_at))
    cells = (
        run.id,
        run.status.words,
        run.attack,
        run.round,
        recall,
        f"{clock(run.elapsed_s)} / {clock(run.budget_s)}",
        started,
    )
    return tuple(Text(visible(cell)) for cell in cells)


def _key_under_cursor(table: DataTable[Text]) -> str | None:
    if not table.row_count:
        return None
    return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value


def _fill(table: DataTable[Text], rows: list[tuple[str, tuple[Text, ...]]]) -> None:
    """Replace the rows; the cursor stays with what it stood on."""
    before, place = _key_under_cursor(table), table.cursor_row
    table.clear()
    for key, cells in rows:
        table.add_row(*cells, key=key)
    for number, column in enumerate(table.ordered_columns):
        # Before the rows are drawn: the table widens its columns too late for rows that come in one batch.
        widths = [cells[number].cell_len for _, cells in rows]
        column.content_width = max([column.label.cell_len, *widths])
    keys = [key for key, _ in rows]
    if keys:
        table.move_cursor(row=keys.index(before) if before in keys else min(place, len(keys) - 1), animate=False)
