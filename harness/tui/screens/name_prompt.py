"""A name asked for, before anything is written under it."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static


class NamePrompt(ModalScreen[str | None]):
    """Dismissed with what was typed, or None."""

    DEFAULT_CSS = """
    NamePrompt { align: center middle; }
    NamePrompt > Vertical {
        width: 60; max-width: 95%; height: auto; border: thick $primary; padding: 0 1; background: $surface;
    }
    """
    HELP = "Enter takes the name, Escape leaves everything as it is."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back", tooltip="Back without anything written"),
    ]

    def __init__(self, words: str, proposed: str) -> None:
        super().__init__()
        self._words, self._proposed = words, proposed

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Content(self._words))
            yield Input(self._proposed, id="name", compact=True)

    @on(Input.Submitted)
    def _take(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)
