"""One field of a form: its name, its control, the validation error and the help."""

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.suggester import Suggester, SuggestFromList
from textual.widget import Widget
from textual.widgets import Input, Label, Select, Static, Switch

from harness.core.rounds import shipped_rounds
from harness.core.text import sanitize, shorten
from harness.tui.form import Field, FieldKind
from harness.tui.validation import PATH_KINDS
from harness.tui.widgets.path_suggester import PathSuggester

_MAX_TEXT = 1000
_MAX_HELP = 240
_NO_CONTROLS = r"[^\x00-\x1f\x7f-\x9f]*"


class FieldRow(Vertical):
    """A field on the screen. `text` is its value as the command line takes it."""

    class Edited(Message):
        """The text of the row has changed."""

        def __init__(self, row: "FieldRow") -> None:
            super().__init__()
            self.row = row

    def __init__(self, field: Field, text: str) -> None:
        super().__init__()
        self.field = field
        self.text = self._initial = text
        self._beside = Static(Content(""), classes="beside")
        self._help = Static(_help(field.description), classes="help")

    def compose(self) -> ComposeResult:
        with Horizontal(classes="line"):
            yield Label(Content(sanitize(self.field.name)), classes="name")
            yield self._control()
            yield self._beside
        yield self._help

    def show_error(self, error: str | None, *, note: str = "") -> None:
        """Show `error` beside the control, or without one the valid values; a `note` replaces the help."""
        self.set_class(error is not None, "-faulty")
        # A switch shows its position only by colour, which some terminals lack.
        facts = f"{self.text}; {self.field.facts}" if self.field.kind is FieldKind.SWITCH else self.field.facts
        self._beside.update(Content(sanitize(facts if error is None else f"✗ {error}")))
        self._help.update(_help(note or self.field.description))
        self._help.set_class(not (note or self.field.description), "-empty")

    def show_placeholder(self, text: str) -> None:
        """Replace the placeholder of the input."""
        self.query_one(Input).placeholder = sanitize(shorten(text))

    def focus_control(self) -> None:
        """Focus the control."""
        self.query_one(".control").focus()

    def on_descendant_focus(self) -> None:
        """Highlight the row and scroll it into view, help included."""
        self.add_class("-focused")
        self.scroll_visible(animate=False)

    def on_descendant_blur(self) -> None:
        self.remove_class("-focused")

    def _control(self) -> Widget:
        if self.field.kind is FieldKind.SWITCH:
            return Switch(self.text == "true", animate=False, classes="control")
        if self.field.kind is FieldKind.CHOICE:
            # A Rich Text is never parsed as markup.
            options = [(Text(sanitize(choice)), choice) for choice in self.field.choices]
            return Select[str](
                options,
                prompt="choose",
                value=self.text if self.text in self.field.choices else Select.NULL,
                allow_blank=self.text not in self.field.choices,
                compact=True,
                classes="control",
            )
        return Input(
            _shown(self.text),
            placeholder=sanitize(shorten(self.field.placeholder)),
            restrict=_NO_CONTROLS,
            suggester=self._suggester(),
            compact=True,
            classes="control",
        )

    def _suggester(self) -> Suggester | None:
        if self.field.kind is FieldKind.ROUND:
            return SuggestFromList(shipped_rounds())
        return PathSuggester() if self.field.kind in PATH_KINDS else None

    @on(Input.Changed)
    def _input_changed(self, event: Input.Changed) -> None:
        event.stop()
        # A value with control characters, which the input cannot show, is kept until the user edits it.
        self._set(self._initial if event.value == _shown(self._initial) else event.value)

    @on(Select.Changed)
    def _select_changed(self, event: Select.Changed) -> None:
        event.stop()
        self._set(event.value if isinstance(event.value, str) else self._initial)

    @on(Switch.Changed)
    def _switch_changed(self, event: Switch.Changed) -> None:
        event.stop()
        self._set("true" if event.value else "false")

    def _set(self, text: str) -> None:
        if text != self.text:
            self.text = text
            self.post_message(self.Edited(self))


def _shown(text: str) -> str:
    return shorten(sanitize(text), _MAX_TEXT)


def _help(text: str) -> Content:
    return Content(sanitize(shorten(" ".join(text.split()), _MAX_HELP)))
