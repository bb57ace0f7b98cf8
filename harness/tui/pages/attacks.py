"""The page of the attacks: the list, what the attack under the cursor does and has achieved, and its source."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.highlight import highlight
from textual.message import Message
from textual.widgets import Static
from textual.worker import get_current_worker

from harness.core.errors import HarnessError
from harness.core.files import read_start, write_atomically
from harness.core.text import NO_VALUE, format_score, pluralize, sanitize
from harness.plugins.discovery import BUILT_IN, AttackFile
from harness.plugins.scaffold import new_attack
from harness.plugins.schema import AttackSchema, fetch_schema
from harness.tui.columns import Column
from harness.tui.dialog_results import if_answered
from harness.tui.editor import open_in_editor
from harness.tui.overview import Overview
from harness.tui.pages import Page
from harness.tui.screens.dialogs import ConfirmDialog, NameDialog
from harness.tui.tables import CellsOf, table_of
from harness.tui.widgets.list_table import ListTable
from harness.tui.widgets.panels import Panel

_MAX_SOURCE = 200_000


def results_by_round(attack: AttackFile, overview: Overview) -> str:
    """Return the best recall of the attack on each round, one per line; empty without results."""
    rounds = dict.fromkeys(run.round for run in overview.runs if run.attack == attack.name and run.has_score)
    lines = [
        f"  {sanitize(name)}: {format_score(best)}"
        for name in rounds
        if (best := overview.best_recall(attack.name, name)) is not None
    ]
    return "\n".join(["Best recall per round (runs on all examples)", *lines]) if lines else ""


def attack_description(attack: AttackFile, schema: AttackSchema | None = None) -> str:
    """Return the text about `attack`; without its schema, only its summary or why it is broken."""
    if attack.error is not None:
        return f"{sanitize(attack.name)} is broken\n\n{sanitize(attack.error)}"
    if schema is None:
        return f"{sanitize(attack.shown_name)}\n\n{sanitize(attack.summary)}"
    paragraphs = [" ".join(paragraph.split()) for paragraph in schema.doc.split("\n\n")]
    lines = [sanitize(attack.shown_name), "", *(f"{sanitize(paragraph)}\n" for paragraph in paragraphs)]
    if attack.reference:
        lines += [f"Reference: {sanitize(attack.reference)}", ""]
    lines += [sanitize(f"{parameter.name}: {parameter.in_words}") for parameter in schema.parameters]
    return "\n".join(lines)


class AttacksPage(Page):
    """All attacks: the list and the description of one at the left, its source at the right."""

    HELP = "All attacks. Enter opens the form of a new run; saving a file updates the list."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "new_run", "New run", tooltip="Open the form of a new run of this attack"),
        Binding("t", "new_run(True)", "Tune", tooltip="Search the parameters of this attack on training examples"),
        Binding("e", "edit", "Edit", tooltip="Open the attack in the editor"),
        Binding("a", "new_attack", "New attack", tooltip="Create a new attack and open it in the editor"),
    ]

    @dataclass
    class NewRun(Message):
        """The user wants to run an attack, or to tune it."""

        attack: AttackFile
        is_tuned: bool = False

    def __init__(self) -> None:
        super().__init__(id="attacks-page")
        self._overview = Overview((), (), {})
        self._described: tuple[object, ...] = ()
        self._is_choosing = False

    def compose_panels(self) -> ComposeResult:
        with Horizontal():
            with Vertical():
                yield Panel(ListTable(id="attacks", sorts=True, opens=True), id="attack-list", label="Attacks")
                about = VerticalScroll(Static("", id="about-text"), id="about-scroll")
                yield Panel(about, id="about", label="About")
            source = VerticalScroll(Static("", id="source-text"), id="source-scroll")
            yield Panel(source, id="source", label="Source")

    def show(self, overview: Overview) -> None:
        """Show the attacks, with their best recall on the round."""
        self._overview = overview
        columns = _columns(overview)
        self.table.show(*table_of(columns, {str(attack.path): attack for attack in overview.attacks}))
        panel = self.query_one("#attack-list", Panel)
        panel.show_empty(overview.fault or "")
        best = "" if overview.round_name is None else f" · best on {overview.round_name}"
        panel.set_title(f"{'Choose an attack for the new run with Enter' if self._is_choosing else 'Attacks'}{best}")
        self._describe()

    def focus_main(self) -> None:
        """Focus the table; who comes here again does not choose for a new run."""
        self._is_choosing = False
        super().focus_main()

    def choose(self) -> None:
        """Say that the user chooses an attack for a new run."""
        self._is_choosing = True
        self.show(self._overview)

    def action_back_out(self) -> None:
        """Return to the runs if the user chooses for a new run; otherwise remove the filter."""
        if self._is_choosing and not self.query_one("#filter").display:
            self.call_later(self.run_action, "app.go_to_page('Runs')")
        super().action_back_out()

    @on(ListTable.Highlighted, "#attacks")
    def _describe(self) -> None:
        attack, overview = self._attack(), self._overview
        if attack is None:
            return
        runs = [run for run in overview.runs if run.attack == attack.name and run.has_score]
        key = (attack.path, attack.sha256, tuple((run.id, run.status, run.recall_at_cap) for run in runs))
        if key == self._described:
            return
        if self._described[:2] != key[:2]:
            self._show_about([attack_description(attack)])
        self._described = key
        self._read(attack, overview)

    @work(thread=True, exclusive=True, group="describe")
    def _read(self, attack: AttackFile, overview: Overview) -> None:
        worker, source = get_current_worker(), _source_of(attack.path)
        if worker.is_cancelled:
            return
        self.call_later(self._show_source, attack, source)
        parts = [attack_description(attack)]
        if attack.error is None:
            try:
                parts = [attack_description(attack, fetch_schema(attack.path, digest=attack.sha256))]
            except HarnessError as error:
                parts.append(sanitize(str(error)))
        parts.append(results_by_round(attack, overview))
        if not worker.is_cancelled:
            self.call_later(self._show_about, parts)

    def _show_about(self, parts: Sequence[str]) -> None:
        self.query_one("#about-text", Static).update(Content("\n\n".join(filter(None, parts))))

    def _show_source(self, attack: AttackFile, source: str) -> None:
        # A path below the current directory is shown as one would type it.
        path = attack.path.relative_to(Path.cwd()) if attack.path.is_relative_to(Path.cwd()) else attack.path
        self.query_one("#source", Panel).set_title(f"{path} · {pluralize(source.count(chr(10)), 'line')}")
        self.query_one("#source-text", Static).update(highlight(source, language="python"))
        self.query_one("#source-scroll").scroll_home(animate=False)

    def _attack(self) -> AttackFile | None:
        key = self.table.key_under_cursor
        return next((attack for attack in self._overview.attacks if str(attack.path) == key), None)

    @on(ListTable.Opened, "#attacks")
    def _open(self) -> None:
        self.action_new_run()

    def action_new_run(self, is_tuned: bool = False) -> None:
        attack = self._attack()
        if attack is None:
            return
        if attack.error is not None:
            self.notify(attack.error, severity="error")
            return
        self._is_choosing = False
        self.post_message(self.NewRun(attack, is_tuned))

    def action_new_attack(self) -> None:
        folder = self._own_folder

        def create(name: str) -> None:
            self.table.move_to(str(new_attack(name, folder).resolve()))

        def created(name: str) -> None:
            # After the dialog has closed, because the editor gets the whole terminal.
            self.call_after_refresh(self._edit, (folder / f"{name}.py").resolve())

        existing = {path.stem for path in folder.glob("*.py")}
        number = next(number for number in count(1) if f"my_attack_{number}" not in existing)
        label = sanitize(f"Name of the new attack in {folder}:")
        self.app.push_screen(NameDialog(label, f"my_attack_{number}", check=create), if_answered(created))

    def action_edit(self) -> None:
        attack = self._attack()
        if attack is None:
            return
        if attack.origin != BUILT_IN or attack.path.parent == self._own_folder.resolve():
            self._edit(attack.path)
            return
        copy = self._own_folder / attack.path.name
        question = f"{attack.name} is part of the package. Copy it to {copy} and edit the copy?"
        edit = partial(self.call_after_refresh, self._edit_copy, attack.path, copy)
        self.app.push_screen(ConfirmDialog(sanitize(question)), if_answered(lambda _: edit()))

    @property
    def _own_folder(self) -> Path:
        return self._overview.attacks_folder or Path("attacks")

    def _edit_copy(self, built_in: Path, copy: Path) -> None:
        try:
            if copy.exists():
                raise HarnessError(f"{copy} already exists. Choose it in the list to edit it.")
            copy.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(copy, built_in.read_text(encoding="utf-8"))
        except (HarnessError, OSError) as error:
            self.notify(str(error), severity="error")
            return
        self.table.move_to(str(copy.resolve()))
        self._edit(copy)

    def _edit(self, path: Path) -> None:
        try:
            open_in_editor(self.app, path)
        except HarnessError as error:
            self.notify(str(error), severity="error")


def _columns(overview: Overview) -> CellsOf[AttackFile]:
    """Return the columns, with the best recall if a round is chosen, and the origins if there are several."""

    def runs(attack: AttackFile) -> int:
        return sum(run.attack == attack.name and run.has_score for run in overview.runs)

    def meaning(attack: AttackFile) -> str:
        return "" if attack.error is None else "bad"

    best: CellsOf[AttackFile] = {
        Column("best", is_right=True): lambda attack: format_score(
            overview.best_recall(attack.name, overview.round_name)
        )
    }
    origin: CellsOf[AttackFile] = {Column("from", min_width=7): lambda attack: [(attack.origin, "dim")]}
    return {
        Column("attack", min_width=12): lambda attack: [(attack.shown_name, f"bold {meaning(attack)}")],
        **(best if overview.round_name else {}),
        Column("runs", is_right=True): lambda attack: str(runs(attack) or NO_VALUE),
        **(origin if any(attack.origin != BUILT_IN for attack in overview.attacks) else {}),
        Column("summary", min_width=12, fills=True): lambda attack: [
            (f"broken: {attack.error}" if attack.error else attack.summary, meaning(attack))
        ],
    }


def _source_of(path: Path) -> str:
    try:
        return read_start(path, _MAX_SOURCE).decode(errors="replace").replace("\t", "    ")
    except (OSError, HarnessError) as error:
        return f"# cannot be read: {getattr(error, 'strerror', error)}"
