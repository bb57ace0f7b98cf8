"""A question that is asked once, with yes and no."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static


class Question(ModalScreen[bool]):
    """Answers True for yes; Escape and n are no."""

    HELP = "`y` does it, `n` and Escape leave everything as it is."
    DEFAULT_CSS = """
    Question { align: center middle; }
    Question > Vertical {
        width: 60; max-width: 90%; height: auto; border: thick $primary; padding: 1 2; background: $surface;
    }
    Question Horizontal { height: auto; align: center middle; margin-top: 1; }
    Question Button { margin: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", tooltip="Do it"),
        Binding("n,escape", "answer(False)", "No", tooltip="Leave everything as it is"),
    ]

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Content(self._words))
            with Horizontal():
                yield Button("Yes (y)", variant="primary", id="yes")
                yield Button("No (n)", id="no")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """A click or Enter on a button."""
        self.dismiss(event.button.id == "yes")

    def action_answer(self, is_yes: bool) -> None:
        """A key."""
        self.dismiss(is_yes)
