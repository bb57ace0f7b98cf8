"""Home: the attacks there are, what the chosen one does, and the runs so far."""

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
from harness.tui.attack_words import in_full, in_short
from harness.tui.editing import edited
from harness.tui.overview import Overview, OverviewFeed
from harness.tui.screens.compare import CompareScreen
from harness.tui.screens.name_prompt import NamePrompt
from harness.tui.screens.new_run import NewRunScreen
from harness.tui.screens.opened import screen_of
from harness.tui.screens.round_chooser import RoundChooser
from harness.tui.watching import watch_folders
from harness.tui.widgets.home_tables import NEWEST_FIRST, AttackTable, RunTable, sorting_after, sorting_of_column
from harness.tui.widgets.key_footer import KeyFooter

_POLL_SECONDS = 1.0
_FILTER = "filter runs by any part of id, attack, round, status, note; enter keeps, escape shows all"


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
        Binding("b", "round", "Round", show=False, tooltip="Choose the round that best recalls are about"),
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
        self._sorting = NEWEST_FIRST
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
        self._marked &= {run.id for run in overview.runs} | set(overview.unreadable)
        with self.app.batch_update():
            self.query_one(AttackTable).show(overview, round_name=self._round_name)
            self.query_one(RunTable).show(
                overview,
                wanted=self.query_one("#filter", Input).value,
                sorting=self._sorting,
                marked=self._marked,
                is_narrow=self.has_class("-narrow"),
            )
            if overview.fault is not None:
                self._described = None
                self.query_one("#words", Static).update(Content(sanitize(overview.fault)))
            else:
                self._describe()

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
        self.query_one("#words", Static).update(Content(in_short(attack)))
        if attack.error is None:
            self._fetch(attack, key)

    @work(thread=True, exclusive=True, group="schema")
    def _fetch(self, attack: AttackFile, key: str) -> None:
        try:
            words = in_full(attack, fetch_schema(attack.path, digest=attack.sha256))
        except HarnessError as error:
            words = sanitize(str(error))
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
            self.notify(sanitize(attack.error), severity="error", markup=False)
            return
        screen = NewRunScreen(attack, attacks_folder=self._attacks_folder, round_name=self._round)
        self.app.push_screen(screen, self._open_run)

    @on(DataTable.RowSelected, "#runs")
    def _open_chosen_run(self, event: DataTable.RowSelected) -> None:
        self._open_run(event.row_key.value)

    def _open_run(self, id_: str | None) -> None:
        if id_:
            self.app.push_screen(screen_of(RunFolder(runs_home() / id_)))

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

    def action_package(self) -> None:
        """Go through the checklist of a package of the run under the cursor, and write it."""
        # Here: the first paint needs nothing of it.
        from harness.tui.screens.package import PackageScreen

        id_ = self.query_one(RunTable).key_under_cursor
        if id_ is not None:
            self.app.push_screen(PackageScreen(RunFolder(runs_home() / id_)))

    def action_compare(self) -> None:
        """Compare the marked runs; a single marked one with the one under the cursor."""
        ids = self._to_compare(self.query_one(RunTable).key_under_cursor)
        if len(ids) < 2:
            self.notify("mark two runs or more with Space, then compare them; unreadable ones do not count")
            return
        self.app.push_screen(CompareScreen([RunFolder(runs_home() / id_) for id_ in ids]))

    def _to_compare(self, here: str | None) -> list[str]:
        """The runs that are marked, a single one with the run `here`; the oldest first."""
        readable = [] if self._overview is None else [run.id for run in reversed(self._overview.runs)]
        marked = self._marked.intersection(readable)
        chosen = marked if len(marked) > 1 else marked | {here}
        return [id_ for id_ in readable if id_ in chosen]

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
        self._sort_by(sorting_after(self._sorting))

    @on(DataTable.HeaderSelected, "#runs")
    def _sort_by_column(self, event: DataTable.HeaderSelected) -> None:
        self._sort_by(sorting_of_column(str(event.label)))

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
                self.notify(sanitize(str(error)), severity="error", markup=False)
                return
            # Once the question is gone: the editor gets the whole terminal.
            self.call_after_refresh(self._edit, path)

        taken = {path.stem for path in folder.glob("*.py")}
        number = next(number for number in count(1) if f"my_attack_{number}" not in taken)
        words = sanitize(f"a new attack in {folder}, called")
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
            self.notify(sanitize(str(error)), severity="error", markup=False)


def _own_name(round_: str) -> str:
    """What runs of the round go by: its own name, where it was named by a path."""
    try:
        return load_round(round_).name
    except (HarnessError, OSError):
        return round_
