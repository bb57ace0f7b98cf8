"""The base of the screens with a form: fields, the command line that does the same, and a button that runs it."""

import shlex
from abc import abstractmethod
from collections.abc import Iterator
from threading import Event
from typing import TypeVar

from textual import on
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from harness.core.text import sanitize
from harness.tui.widgets.bars import KeyFooter

ResultT = TypeVar("ResultT")
_MAX_COMMANDS = 3


class FormScreen(Screen[ResultT]):
    """Has `#command` with the command line, the button `#submit`, and `#message` beside it."""

    AUTO_FOCUS = None
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (110, "-wide")]  # noqa: RUF012  as Textual declares it

    def __init__(self) -> None:
        super().__init__()
        self._cancelled = Event()
        """Set when the user cancels the running command."""

    @abstractmethod
    def command_lines(self) -> list[list[str]]:
        """Return the arguments of `harness` for the values of the form, or of each of several commands."""

    def compose_foot(self, label: str) -> Iterator[Widget]:
        """Yield the command line, the button and the message, and the footer."""
        with Vertical(id="foot"):
            with VerticalScroll(id="command", can_focus=False):
                yield Static(Content(""))
            with Horizontal(id="start-line"):
                yield Button(label, variant="primary", compact=True, id="submit", disabled=True)
                yield Static(Content(""), id="message")
        yield KeyFooter()

    def action_copy_command(self) -> None:
        """Copy the command line."""
        self.app.copy_to_clipboard("\n".join(self._shell_commands()))
        self.show_message("copied.")

    def show_command(self) -> None:
        """Update the command line; of many, the first ones are shown."""
        commands = self._shell_commands()
        shown = commands[:_MAX_COMMANDS]
        if len(commands) > len(shown):
            shown = [*shown[:-1], f"… and {len(commands) - len(shown) + 1} more"]
        self.query_one("#command Static", Static).update(Content("\n".join(map(sanitize, shown))))

    def show_message(self, text: str, *, is_error: bool = False) -> None:
        """Show `text` beside the button."""
        show_text(self.query_one("#message", Static), text, is_error=is_error)

    def _shell_commands(self) -> list[str]:
        return [shlex.join(["harness", *line]) for line in self.command_lines()]

    @on(Input.Submitted)
    def _focus_next_field(self) -> None:
        self.focus_next()


def show_text(static: Static, text: str, *, is_error: bool) -> None:
    """Show `text`, in red for an error; without text the widget takes no room."""
    static.update(Content(sanitize(text)))
    static.display = bool(text)
    static.set_class(is_error, "-error")
