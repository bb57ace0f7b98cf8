"""Which round Home is about: chosen from those that are known, or typed as a file's path."""

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from harness.core.errors import HarnessError
from harness.core.rounds import load_round, shipped_rounds
from harness.core.text import sanitize
from harness.tui.faults import round_in_words
from harness.tui.remembered import remembered_rounds


class RoundChooser(ModalScreen[str | None]):
    """Dismissed with a round's name or path that can be loaded, or None."""

    DEFAULT_CSS = """
    RoundChooser { align: center middle; }
    RoundChooser > Vertical {
        width: 70; max-width: 95%; height: auto; max-height: 90%; border: thick $primary; padding: 0 1;
        background: $surface;
    }
    RoundChooser OptionList { height: auto; max-height: 12; }
    """
    HELP = "Home's best recalls and the form of a new run are about this round."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Back", tooltip="Back to the round as it was"),
        Binding("down", "list", "Known rounds", show=False, tooltip="Go to the rounds that are known"),
    ]

    def __init__(self, current: str) -> None:
        super().__init__()
        self._current = current
        self._known = list(dict.fromkeys([*shipped_rounds(), *remembered_rounds(), current]))

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("round: a name, or the path of a .toml file")
            yield Input(placeholder=sanitize(self._current), id="round", compact=True)
            yield OptionList(*(Option(Content(sanitize(name))) for name in self._known), id="known")
            yield Static("", id="words")

    def on_mount(self) -> None:
        """Stand on the current round."""
        known = self.query_one(OptionList)
        known.highlighted = self._known.index(self._current)
        known.focus()

    def action_list(self) -> None:
        """From the field to the list."""
        self.query_one(OptionList).focus()

    @on(OptionList.OptionHighlighted)
    def _tell(self, event: OptionList.OptionHighlighted) -> None:
        try:
            words = round_in_words(self._known[event.option_index])
        except (HarnessError, OSError) as error:
            words = str(error)
        self.query_one("#words", Static).update(Content(sanitize(words)))

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self._take(self._known[event.option_index])

    @on(Input.Submitted)
    def _typed(self, event: Input.Submitted) -> None:
        self._take(event.value or self._current)

    def _take(self, name: str) -> None:
        try:
            load_round(name)
        except (HarnessError, OSError) as error:
            self.query_one("#words", Static).update(Content(sanitize(str(error))))
            return
        self.dismiss(name)
