"""The keys of a screen: all of them in groups (`?`), or those whose action matches a search (ctrl+p).

Textual's HelpPanel shows four keys at 80x24, where this list shows fourteen and runs the chosen one. Textual's
CommandPalette searches after a delay, so that Enter typed right behind the words is lost, and it shows no keys.
"""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Static

from harness.tui.columns import Column, Row
from harness.tui.widgets.list_table import ListTable

_COLUMNS = (Column("action", min_width=10), Column("", min_width=10, fills=True), Column("key", is_right=True))
_MAX_MATCHES = 100
_MOVEMENT = (
    ("Up, down", "k j ↑ ↓"),
    ("First, last row", "g G"),
    ("Next, previous panel", "Tab ⇧Tab"),
    ("Columns left, right", "← →"),
)


class KeyEntry(NamedTuple):
    """One action: its group, name, explanation and key, and how to run it."""

    group: str
    name: str
    explanation: str
    key: str
    action: str
    node: DOMNode


class KeysScreen(ModalScreen[tuple[str, DOMNode] | None]):
    """The actions that are possible on `screen`. The result is the chosen action and the node that runs it."""

    CSS_PATH = "keys.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,f1,ctrl+p", "dismiss(None)", "Back", tooltip="Close the list of keys"),
    ]

    def __init__(self, screen: Screen[object], named: Sequence[KeyEntry] = (), *, is_palette: bool) -> None:
        """`named`: entries that are listed only if the typed words match them."""
        super().__init__()
        self._is_palette, self._named = is_palette, named
        self._help = " ".join(_help_of(screen).split())
        self._entries = entries_of(screen)
        self._matches: list[KeyEntry] = []

    def compose(self) -> ComposeResult:
        with Vertical():
            if self._is_palette:
                yield Input(placeholder="an action, page, run, attack or round", id="words", compact=True)
            elif self._help:
                yield Static(self._help, id="help", markup=False)
            yield ListTable(id="entries", opens=True)

    def on_mount(self) -> None:
        box = self.query_one(Vertical)
        box.border_title, box.border_subtitle = "Actions" if self._is_palette else "Keys", "⏎ run · esc close"
        self._show("")

    @on(Input.Changed)
    def _search(self, event: Input.Changed) -> None:
        self._show(event.value)

    @on(Input.Submitted)
    def _submit(self) -> None:
        self.query_one(ListTable).action_open()

    def _show(self, words: str) -> None:
        parts = words.casefold().split()
        entries = [*self._entries, *(self._named if parts else ())]
        self._matches = [
            entry for entry in entries if all(word in f"{entry.name} {entry.explanation}".casefold() for word in parts)
        ][:_MAX_MATCHES]
        rows: list[Row] = []
        group = ""
        for number, entry in enumerate(self._matches):
            if entry.group != group:
                group = entry.group
                rows.append(Row(f"group {group}", [[(group, "bold active")]], spans=True))
            cells = [[(f"  {entry.name}", "bold")], [(entry.explanation, "dim")], [(entry.key, "key")]]
            rows.append(Row(str(number), cells))
        if not rows:
            rows.append(Row("none", [[("nothing matches: no action, page, run, attack or round", "dim")]], spans=True))
        if not self._is_palette:
            rows.append(Row("group Movement", [[("Movement", "bold active")]], spans=True))
            rows += [Row(f"move {name}", [f"  {name}", "", [(key, "key")]]) for name, key in _MOVEMENT]
        table = self.query_one(ListTable)
        table.styles.height = min(len(rows) + 1, max(4, self.app.size.height - 8))
        table.show(_COLUMNS, rows)
        table.move_to("0")

    @on(ListTable.Opened)
    def _choose(self, event: ListTable.Opened) -> None:
        if event.key.isdigit():
            entry = self._matches[int(event.key)]
            self.dismiss((entry.action, entry.node))


def entries_of(screen: Screen[object]) -> list[KeyEntry]:
    """Return each enabled action of the screen once, those of the focused widget first."""
    entries: dict[tuple[DOMNode, str], KeyEntry] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        if active.enabled and binding.tooltip:
            group = "Everywhere" if active.node is screen.app else "This screen"
            if binding.action.startswith("go_to_page("):
                group = "Pages"
            key = screen.app.get_key_display(binding)
            entry = KeyEntry(group, binding.description, str(binding.tooltip), key, binding.action, active.node)
            entries.setdefault((active.node, binding.action), entry)
    order = ("This screen", "Pages", "Everywhere")
    return sorted(entries.values(), key=lambda entry: order.index(entry.group))


def _help_of(screen: Screen[object]) -> str:
    """Return the help of the focused widget, or of what contains it."""
    return next((node.HELP for node in (screen.focused or screen).ancestors_with_self if node.HELP), "")
