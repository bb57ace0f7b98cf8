"""One field of a form: its name, the control that it is typed in, what is amiss in it, and its help."""

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
from harness.tui.faults import PATH_KINDS
from harness.tui.form import Field, Kind
from harness.tui.widgets.path_suggester import PathSuggester

_MAX_TEXT = 1000
_MAX_HELP = 240
_NO_CONTROLS = r"[^\x00-\x1f\x7f-\x9f]*"


class FieldRow(Vertical):
    """A field on the screen. `text` is what stands in it, as the command line would take it."""

    class Edited(Message):
        """Another text stands in the row."""

        def __init__(self, row: "FieldRow") -> None:
            super().__init__()
            self.row = row

    def __init__(self, field: Field, text: str) -> None:
        super().__init__()
        self.field = field
        self.text = self._first = text
        self._beside = Static(Content(""), classes="beside")
        self._help = Static(_words(field.description), classes="help")

    def compose(self) -> ComposeResult:
        with Horizontal(classes="line"):
            yield Label(Content(sanitize(self.field.name)), classes="name")
            yield self._control()
            yield self._beside
        yield self._help

    def show_fault(self, fault: str | None, *, note: str = "") -> None:
        """Say beside the control what is amiss, else which values there are; a `note` takes the place of the help."""
        self.set_class(fault is not None, "-faulty")
        # A switch shows its position by colour, which not every terminal has.
        facts = f"{self.text}; {self.field.facts}" if self.field.kind is Kind.SWITCH else self.field.facts
        self._beside.update(Content(sanitize(facts if fault is None else f"✗ {fault}")))
        self._help.update(_words(note or self.field.description))
        self._help.set_class(not (note or self.field.description), "-empty")

    def focus_control(self) -> None:
        """Give the control the focus."""
        self.query_one(".control").focus()

    def on_descendant_focus(self) -> None:
        """Mark the row, and keep its help in view along with the control."""
        self.add_class("-focused")
        self.scroll_visible(animate=False)

    def on_descendant_blur(self) -> None:
        self.remove_class("-focused")

    def _control(self) -> Widget:
        if self.field.kind is Kind.SWITCH:
            return Switch(self.text == "true", animate=False, classes="control")
        if self.field.kind is Kind.CHOICE:
            # Rich's text is never read as markup.
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
            select_on_focus=False,
            classes="control",
        )

    def _suggester(self) -> Suggester | None:
        if self.field.kind is Kind.ROUND:
            return SuggestFromList(shipped_rounds())
        return PathSuggester() if self.field.kind in PATH_KINDS else None

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        # A value that cannot be shown as it is keeps its text for as long as nobody touches it.
        self._take(self._first if event.value == _shown(self._first) else event.value)

    @on(Select.Changed)
    def _chosen(self, event: Select.Changed) -> None:
        event.stop()
        self._take(event.value if isinstance(event.value, str) else self._first)

    @on(Switch.Changed)
    def _switched(self, event: Switch.Changed) -> None:
        event.stop()
        self._take("true" if event.value else "false")

    def _take(self, text: str) -> None:
        if text != self.text:
            self.text = text
            self.post_message(self.Edited(self))


def _shown(text: str) -> str:
    return shorten(sanitize(text), _MAX_TEXT)


def _words(text: str) -> Content:
    return Content(sanitize(shorten(" ".join(text.split()), _MAX_HELP)))
