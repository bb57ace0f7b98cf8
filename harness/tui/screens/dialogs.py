"""Dialogs."""

from collections.abc import Callable, Mapping
from typing import ClassVar, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from harness.core.errors import HarnessError
from harness.core.rounds import built_in_rounds, load_round
from harness.core.text import sanitize, shorten
from harness.tui.columns import Column, Row
from harness.tui.form import round_description
from harness.tui.saved_state import recent_rounds
from harness.tui.widgets.list_table import ListTable

ResultT = TypeVar("ResultT")


class Dialog(ModalScreen[ResultT]):
    """A box in the middle of the screen."""

    CSS_PATH = "dialogs.tcss"
    HELP = "Enter confirms; Escape cancels."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back", tooltip="Cancel"),
        # The keys of the application do not reach a dialog.
        Binding("question_mark,f1", "app.keys(False)", "Help", tooltip="Show the keys of this dialog"),
    ]

    def show_problem(self, text: str) -> None:
        """Show in `#problem` why the input cannot be used; nothing for an empty text."""
        problem = self.query_one("#problem", Static)
        problem.update(Content(sanitize(text)))
        problem.display = bool(text)


class ConfirmDialog(Dialog[bool]):
    """Asks a yes-or-no question; the result is True for yes."""

    HELP = "`y` confirms; `n` and Escape cancel."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes", tooltip="Confirm"),
        Binding("n,escape", "dismiss(False)", "No", tooltip="Cancel"),
    ]

    def __init__(self, question: str, *, deletes: bool = False) -> None:
        """`deletes`: it is about a deletion, which the Enter key does not confirm."""
        super().__init__(classes="-deletes" if deletes else None)
        self._question, self._deletes = question, deletes

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "Delete" if self._deletes else None
            yield Static(Content(self._question))
            with Horizontal():
                label = "Delete (y)" if self._deletes else "Yes (y)"
                yield Button(label, variant="error" if self._deletes else "primary", id="yes")
                yield Button("No (n)", id="no")

    def on_mount(self) -> None:
        self.query_one("#no" if self._deletes else "#yes").focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Close the dialog with the answer of the button."""
        self.dismiss(event.button.id == "yes")


class NameDialog(Dialog[str | None]):
    """Asks for a line of text; the result is None if the user cancels."""

    def __init__(
        self, label: str, text: str, *, check: Callable[[str], object] = lambda text: None, may_be_empty: bool = False
    ) -> None:
        """`check` raises HarnessError for a text that cannot be used, which keeps the dialog open."""
        super().__init__()
        self._label, self._initial, self._check, self._may_be_empty = label, text, check, may_be_empty

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Content(self._label))
            yield Input(self._initial, id="name", compact=True)
            yield Static("", id="problem")

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        text = event.value.strip()
        if not text and not self._may_be_empty:
            return
        try:
            self._check(text)
        except HarnessError as error:
            self.show_problem(str(error))
        else:
            self.dismiss(text)


class ChoiceDialog(Dialog[str | None]):
    """Asks for one of several things, each with a description; the result is its key, or None."""

    def __init__(self, title: str, choices: Mapping[str, str], current: str = "") -> None:
        """current: the key under the cursor at first, if it is listed."""
        super().__init__()
        self._title, self._choices, self._current = title, choices, current

    def compose(self) -> ComposeResult:
        with Vertical():
            yield ListTable(id="choices", opens=True)

    def on_mount(self) -> None:
        box = self.query_one(Vertical)
        box.border_title, box.border_subtitle = self._title, "⏎ choose · esc close"
        self.query_one(ListTable).styles.height = min(len(self._choices) + 1, 8)
        self.show(self._choices)
        self.query_one(ListTable).move_to(self._current)

    def show(self, choices: Mapping[str, str]) -> None:
        """List these choices."""
        rows = [Row(key, [[(self.label(key), "bold")], [(words, "dim")]]) for key, words in choices.items()]
        self.query_one(ListTable).show((Column("", min_width=12), Column("", fills=True, min_width=10)), rows)

    @on(ListTable.Opened)
    def _choose_listed(self, event: ListTable.Opened) -> None:
        self.choose(event.key)

    def label(self, key: str) -> str:
        """Return the text of a key."""
        return key

    def choose(self, key: str) -> None:
        """Close the dialog with the key."""
        self.dismiss(key)


class ThemeDialog(ChoiceDialog):
    """Asks for a theme. The one under the cursor is shown at once; Escape returns to the one before."""

    HELP = "The theme under the cursor is shown. The next start shows it too, unless config.toml sets `theme`."

    @on(ListTable.Highlighted)
    def _preview(self) -> None:
        self.app.theme = self.query_one(ListTable).key_under_cursor or self._current


class RoundDialog(ChoiceDialog):
    """Asks for a round: one of a list that the typed text filters, or a file.

    The result is a name or path that can be loaded, "" for all rounds, or None if the user cancels.
    """

    HELP = "The lists show this round, and the form of a new run opens with it."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("down", "move(1)", "Down", show=False, priority=True),
    ]

    def __init__(self, current: str | None) -> None:
        names = ["", *built_in_rounds(), *recent_rounds(), current or ""]
        super().__init__("Round", {name: _round_facts(name) for name in dict.fromkeys(names)}, current or "")

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Input(placeholder="search, or type the path of a .toml file", id="round", compact=True)
            table = ListTable(id="choices", opens=True)
            table.can_focus = False
            yield table
            yield Static("", id="problem")

    @on(Input.Changed)
    def _filter(self, event: Input.Changed) -> None:
        self.show_problem("")
        words = event.value.strip().casefold()
        matches = (key for key, facts in self._choices.items() if words in f"{self.label(key)} {facts}".casefold())
        self.show({key: self._choices[key] for key in matches})

    def label(self, key: str) -> str:
        """Return the name of a round, or what no name means."""
        return key or "all rounds"

    def action_move(self, rows: int) -> None:
        self.query_one(ListTable).action_move(rows)

    @on(Input.Submitted)
    def _choose_typed(self, event: Input.Submitted) -> None:
        key = self.query_one(ListTable).key_under_cursor
        self.choose(event.value.strip() if key is None else key)

    def choose(self, key: str) -> None:
        """Close the dialog with a round that can be loaded."""
        try:
            if key:
                load_round(key)
        except (HarnessError, OSError) as error:
            self.show_problem(str(error))
        else:
            self.dismiss(key)


def _round_facts(name: str) -> str:
    try:
        return round_description(load_round(name)) if name else "runs of every round are listed"
    except (HarnessError, OSError) as error:
        return shorten(str(error))
