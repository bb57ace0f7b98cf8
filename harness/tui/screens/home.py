"""Home: the list of attacks, the description of the chosen one, and the list of runs."""

import contextlib
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Event
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import DataTable, Input, Static

from harness.core.errors import HarnessError
from harness.core.paths import runs_home
from harness.core.rounds import load_round
from harness.core.text import sanitize
from harness.plugins.discovery import AttackFile, attack_folders
from harness.plugins.scaffold import new_attack
from harness.plugins.schema import fetch_schema
from harness.runs.folder import RunFolder
from harness.runs.summary import RunSummary
from harness.tui.attack_description import attack_description
from harness.tui.editor import open_in_editor
from harness.tui.folder_watcher import watch_folders
from harness.tui.overview import Overview, OverviewFeed
from harness.tui.screens.by_job import screen_for
from harness.tui.screens.compare import CompareScreen
from harness.tui.screens.dialogs import NameDialog, RoundDialog
from harness.tui.screens.new_run import NewRunScreen
from harness.tui.widgets.home_tables import NEWEST_FIRST, AttackTable, RunTable, next_sort_key, sort_key_of_column
from harness.tui.widgets.key_footer import KeyFooter

_POLL_SECONDS = 1.0
_FILTER = "filter by id, attack, round, status or note; Enter keeps the filter, Escape removes it"


class HomeScreen(Screen[None]):
    """Attacks at the top left, the description at the top right, runs below."""

    CSS_PATH = "home.tcss"
    HELP = "Attacks above, runs below; Tab switches between them."
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012  as Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-low"), (16, "-high")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "new_run", "New run", tooltip="Open the form of a new run of the chosen attack"),
        Binding("c", "compare", "Compare", tooltip="Compare the marked runs"),
        Binding("slash", "filter", "Filter", tooltip="Filter the runs"),
        Binding("o", "sort", "Sort", show=False, tooltip="Sort the runs by the next column"),
        Binding("b", "round", "Round", show=False, tooltip="Choose the round for best recalls and new runs"),
        Binding("i", "about", "About", show=False, tooltip="Show the description of the chosen attack, or hide it"),
        Binding("a", "new_attack", "New attack", show=False, tooltip="Create a new attack and open it in the editor"),
        Binding("e", "edit", "Edit", show=False, tooltip="Open the chosen attack in the editor"),
        Binding("q", "app.quit", "Quit", tooltip="Close the application; runs continue"),
        Binding("escape", "back_out", show=False),
    ]

    @dataclass
    class RunEnded(Message):
        """A run has ended while the screen was open."""

        summary: RunSummary

    def __init__(self, *, attacks_folder: Path | None, round_name: str) -> None:
        super().__init__()
        self._is_closed = Event()
        self._poll_now = Event()
        self._attacks_folder = attacks_folder
        self._use_round(round_name)
        self._marked: set[str] = set()
        self._running_ids: set[str] = set()
        self._feed = OverviewFeed(attacks_folder)
        self._overview: Overview | None = None
        self._sort_key = NEWEST_FIRST
        self._described: str | None = None

    def compose(self) -> ComposeResult:
        with Horizontal(id="above"):
            yield AttackTable(id="attacks")
            with VerticalScroll(id="description"):
                yield Static("", id="words")
        with Vertical(id="below"):
            yield Input(placeholder=_FILTER, id="filter")
            yield RunTable(id="runs")
        yield KeyFooter()

    def on_mount(self) -> None:
        self.query_one("#description").border_title = "Attack"
        self.query_one("#filter").display = False
        self.query_one("#attacks").focus()
        self._poll()
        self._watch_attacks()

    @work(thread=True, exclusive=True, group="poll")
    def _poll(self) -> None:
        while not self._is_closed.is_set():
            self._poll_now.clear()
            self.call_later(self._apply, self._feed.poll())
            self._poll_now.wait(_POLL_SECONDS)

    @work(thread=True, exclusive=True, group="watch")
    def _watch_attacks(self) -> None:
        def changed() -> None:
            self._feed.attacks_changed()
            self._poll_now.set()

        watch_folders(lambda: tuple(attack_folders(self._attacks_folder)), changed, stop=self._is_closed)

    def on_resize(self) -> None:
        """Show the columns that fit."""
        self.call_after_refresh(self._update)

    def on_unmount(self) -> None:
        self._is_closed.set()
        self._poll_now.set()

    def _apply(self, overview: Overview) -> None:
        if overview != self._overview:
            for run in overview.runs:
                if run.id in self._running_ids and run.status.is_over:
                    self.post_message(self.RunEnded(run))
            self._running_ids = {run.id for run in overview.runs if not run.status.is_over}
            self._overview = overview
            self._update()

    @on(Input.Changed, "#filter")
    def _update(self) -> None:
        overview = self._overview
        if overview is None:
            return
        self._marked &= {run.id for run in overview.runs} | set(overview.unreadable)
        with self.app.batch_update():
            self.query_one(AttackTable).show(overview, round_name=self._round_name, error_cap=self._error_cap)
            self.query_one(RunTable).show(
                overview,
                query=self.query_one("#filter", Input).value,
                sort_key=self._sort_key,
                marked=self._marked,
                is_narrow=self.has_class("-narrow"),
            )
            if overview.fault is not None:
                self._described = None
                self._show_description(None, sanitize(overview.fault))
            else:
                self._describe()

    def _show_description(self, key: str | None, text: str) -> None:
        if key == self._described:
            self.query_one("#words", Static).update(Content(text))

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
        self._show_description(key, attack_description(attack))
        if attack.error is None:
            self._fetch_description(attack, key)

    @work(thread=True, exclusive=True, group="schema")
    def _fetch_description(self, attack: AttackFile, key: str) -> None:
        try:
            text = attack_description(attack, fetch_schema(attack.path, digest=attack.sha256))
        except HarnessError as error:
            text = sanitize(str(error))
        self.call_later(self._show_description, key, text)

    @on(DataTable.RowSelected, "#attacks")
    def action_new_run(self) -> None:
        attack = self._attack()
        if attack is None:
            return
        if attack.error is not None:
            self._notify_error(attack.error)
            return
        screen = NewRunScreen(attack, attacks_folder=self._attacks_folder, round_name=self._round)
        self.app.push_screen(screen, self._open_run)

    @on(DataTable.RowSelected, "#runs")
    def _open_chosen_run(self, event: DataTable.RowSelected) -> None:
        self._open_run(event.row_key.value)

    def _open_run(self, id_: str | None) -> None:
        if id_:
            self.app.push_screen(screen_for(RunFolder(runs_home() / id_)))

    @on(Input.Submitted, "#filter")
    def _filter_submitted(self) -> None:
        self.query_one("#runs").focus()

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()

    def action_back_out(self) -> None:
        """Hide the description, or unmark all runs, or remove the filter."""
        field = self.query_one("#filter", Input)
        if self.has_class("-about"):
            self.action_about()
        elif self._marked and not field.display:
            self._marked.clear()
            self._update()
        elif field.display:
            field.value = ""
            field.display = False
            self.query_one("#runs").focus()

    def action_mark(self) -> None:
        """Mark the run under the cursor for a comparison, or unmark it."""
        table = self.query_one(RunTable)
        if (id_ := table.key_under_cursor) is not None:
            self._marked ^= {id_}
            self._update()
            table.action_cursor_down()

    def action_package(self) -> None:
        """Open the Package screen of the run under the cursor."""
        # Imported here to keep the first paint fast.
        from harness.tui.screens.package import PackageScreen

        id_ = self.query_one(RunTable).key_under_cursor
        if id_ is not None:
            self.app.push_screen(PackageScreen(RunFolder(runs_home() / id_)))

    def action_compare(self) -> None:
        """Compare the marked runs; a single marked run is compared with the one under the cursor."""
        # Oldest first.
        readable = [] if self._overview is None else [run.id for run in reversed(self._overview.runs)]
        marked = self._marked.intersection(readable)
        chosen = marked if len(marked) > 1 else marked | {self.query_one(RunTable).key_under_cursor}
        ids = [id_ for id_ in readable if id_ in chosen]
        if len(ids) < 2:
            self.notify("Mark at least two readable runs with Space to compare them.")
            return
        self.app.push_screen(CompareScreen([RunFolder(runs_home() / id_) for id_ in ids]))

    def action_round(self) -> None:

        def chosen(name: str | None) -> None:
            if name is not None:
                self._use_round(name)
                self._update()

        self.app.push_screen(RoundDialog(self._round), chosen)

    def _use_round(self, round_: str) -> None:
        """Set the round, given by name or path, its name and its error cap, which is None if it cannot be loaded."""
        self._round = self._round_name = round_
        self._error_cap: int | None = None
        with contextlib.suppress(HarnessError, OSError):
            loaded = load_round(round_)
            self._round_name, self._error_cap = loaded.name, loaded.error_cap

    def action_about(self) -> None:
        self.toggle_class("-about")
        self.query_one("#description" if self.has_class("-about") else "#attacks").focus()

    def action_sort(self) -> None:
        self._sort_by(next_sort_key(self._sort_key))

    @on(DataTable.HeaderSelected, "#runs")
    def _sort_by_column(self, event: DataTable.HeaderSelected) -> None:
        self._sort_by(sort_key_of_column(str(event.label)))

    def _sort_by(self, sort_key: str) -> None:
        self._sort_key = sort_key
        self._update()

    def action_new_attack(self) -> None:
        folder = self._attacks_folder or Path("attacks")

        def named(name: str | None) -> None:
            if name is None:
                return
            try:
                path = new_attack(name, folder)
            except HarnessError as error:
                self._notify_error(str(error))
                return
            # After the dialog has closed, because the editor gets the whole terminal.
            self.call_after_refresh(self._edit, path)

        existing = {path.stem for path in folder.glob("*.py")}
        number = next(number for number in count(1) if f"my_attack_{number}" not in existing)
        label = sanitize(f"Name of the new attack in {folder}:")
        self.app.push_screen(NameDialog(label, f"my_attack_{number}"), named)

    def action_edit(self) -> None:
        attack = self._attack()
        if attack is not None:
            self._edit(attack.path)

    def _edit(self, path: Path) -> None:
        try:
            open_in_editor(self.app, path)
        except HarnessError as error:
            self._notify_error(str(error))

    def _notify_error(self, text: str) -> None:
        self.notify(sanitize(text), severity="error", markup=False)
