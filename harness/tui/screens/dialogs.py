"""The dialogs: a yes-or-no question, a name, and the choice of a round."""

from typing import ClassVar, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Input, OptionList, Static
from textual.widgets.option_list import Option

from harness.core.errors import HarnessError
from harness.core.rounds import load_round, shipped_rounds
from harness.core.text import sanitize
from harness.tui.form_history import recent_rounds
from harness.tui.validation import round_description

ResultT = TypeVar("ResultT")


class Dialog(ModalScreen[ResultT]):
    """A box in the middle of the screen."""

    DEFAULT_CSS = """
    Dialog { align: center middle; }
    Dialog > Vertical {
        width: 60; max-width: 95%; height: auto; border: thick $primary; padding: 0 1; background: $surface;
    }
    """


class ConfirmDialog(Dialog[bool]):
    """Asks a yes-or-no question; the result is True for yes."""

    HELP = "`y` confirms; `n` and Escape cancel."
    DEFAULT_CSS = """
    ConfirmDialog > Vertical { max-width: 90%; padding: 1 2; }
    ConfirmDialog Horizontal { height: auto; align: center middle; margin-top: 1; }
    ConfirmDialog Button { margin: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes", tooltip="Confirm"),
        Binding("n,escape", "dismiss(False)", "No", tooltip="Cancel"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Content(self._question))
            with Horizontal():
                yield Button("Yes (y)", variant="primary", id="yes")
                yield Button("No (n)", id="no")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Close the dialog with the answer of the button."""
        self.dismiss(event.button.id == "yes")


class NameDialog(Dialog[str | None]):
    """Asks for a name; the result is None if there is none."""

    HELP = "Enter confirms the name; Escape cancels."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back", tooltip="Cancel"),
    ]

    def __init__(self, label: str, name: str) -> None:
        super().__init__()
        self._label, self._initial = label, name

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Content(self._label))
            yield Input(self._initial, id="name", compact=True)

    @on(Input.Submitted)
    def _submit(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)


class RoundDialog(Dialog[str | None]):
    """Asks for a round; the result is the name or path of a round that can be loaded, or None."""

    DEFAULT_CSS = """
    RoundDialog > Vertical { width: 70; max-height: 90%; }
    RoundDialog OptionList { height: auto; max-height: 12; }
    """
    HELP = "Home shows the best recall on this round, and the form of a new run opens with it."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back", tooltip="Keep the current round"),
        Binding("down", "focus_list", "Known rounds", show=False, tooltip="Go to the list of known rounds"),
    ]

    def __init__(self, current: str) -> None:
        super().__init__()
        self._current = current
        self._known = list(dict.fromkeys([*shipped_rounds(), *recent_rounds(), current]))

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("Round: a name, or the path of a .toml file")
            yield Input(placeholder=sanitize(self._current), id="round", compact=True)
            yield OptionList(*(Option(Content(sanitize(name))) for name in self._known), id="known")
            yield Static("", id="words")

    def on_mount(self) -> None:
        known = self.query_one(OptionList)
        known.highlighted = self._known.index(self._current)
        known.focus()

    def action_focus_list(self) -> None:
        self.query_one(OptionList).focus()

    @on(OptionList.OptionHighlighted)
    def _describe(self, event: OptionList.OptionHighlighted) -> None:
        try:
            text = round_description(self._known[event.option_index])
        except (HarnessError, OSError) as error:
            text = str(error)
        self._show(text)

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self._submit(self._known[event.option_index])

    @on(Input.Submitted)
    def _choose_typed(self, event: Input.Submitted) -> None:
        self._submit(event.value or self._current)

    def _submit(self, name: str) -> None:
        try:
            load_round(name)
        except (HarnessError, OSError) as error:
            self._show(str(error))
        else:
            self.dismiss(name)

    def _show(self, text: str) -> None:
        self.query_one("#words", Static).update(Content(sanitize(text)))
