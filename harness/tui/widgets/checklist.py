"""The checklist of a run that is to be packaged: a point a row, below an unmet one how to mend it."""

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from harness.core.text import sanitize
from harness.submit.checklist import Check
from harness.tui.packaging import CheckState, Packaging

_STYLES = {
    CheckState.MET: "$text-success",
    CheckState.UNMET: "bold $text-error",
    CheckState.ACCEPTED: "bold $text-warning",
}
_LEAST_CELLS = 20
_ACCEPTED = "packaged all the same, and the manifest says so; Space takes that back"


class Checklist(OptionList):
    """Rows that change in place, under a cursor that stays where it is."""

    HELP = (
        "What must hold before the run is packaged: ✓ is met, ✗ is not, – is accepted as it is. Space accepts a point "
        "that may be, and takes that back; the manifest names what was accepted. All is checked again by itself."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space,a", "accept", "Accept", tooltip="Accept this point as it is, or no longer"),
    ]

    class Toggled(Message):
        """The point `name` is to be accepted, or no longer."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, compact=True, markup=False)
        self._shown: dict[str, Content] = {}
        self._packaging: Packaging | None = None

    def show(self, packaging: Packaging) -> None:
        """Bring the rows up to date; only those that would look different are drawn."""
        self._packaging = packaging
        rows = {check.name: self._row(check, packaging.standing(check)) for check in packaging.checks}
        if list(rows) != list(self._shown):
            self.clear_options()
            self.add_options(Option(row, id=name) for name, row in rows.items())
            unmet = [i for i, check in enumerate(packaging.checks) if packaging.standing(check) is CheckState.UNMET]
            self.highlighted = unmet[0] if unmet else 0 if rows else None
            # Where there is little room, the first thing to mend would else be below the edge.
            self.call_after_refresh(self.scroll_to_highlight)
        else:
            for name, row in rows.items():
                if row != self._shown[name]:
                    self.replace_option_prompt(name, row)
        self._shown = rows

    def go_to(self, name: str) -> None:
        """Put the cursor on the point `name`."""
        self.highlighted = self.get_option_index(name)

    def on_resize(self, event: events.Resize) -> None:
        """Wrap the sentences to what room there is."""
        if self._packaging is not None:
            self.show(self._packaging)

    def action_accept(self) -> None:
        """Accept the point under the cursor, or no longer."""
        if self.highlighted_option is not None and self.highlighted_option.id is not None:
            self.post_message(self.Toggled(self.highlighted_option.id))

    def _row(self, check: Check, standing: CheckState) -> Content:
        names = max(len(other.name) for other in self._packaging.checks) if self._packaging else 0
        indent = len(standing) + 1 + names + 2
        room = max(_LEAST_CELLS, self.scrollable_content_region.width - indent)
        style = _STYLES[standing]
        lines = Content(sanitize(check.sentence)).wrap(room)
        if standing is not CheckState.MET:
            lines += _after_arrow(_mend(check, standing), room)
        head = Content.assemble((f"{standing} ", style), (f"{check.name:<{names}}  ", style))
        return head + Content(f"\n{' ' * indent}").join(lines)


def _mend(check: Check, standing: CheckState) -> str:
    if standing is CheckState.ACCEPTED:
        return _ACCEPTED
    return f"{check.mend}; or Space accepts it" if check.can_be_accepted else check.mend


def _after_arrow(words: str, room: int) -> list[Content]:
    arrow, beside = "→ ", "  "
    lines = Content(sanitize(words)).wrap(room - len(arrow))
    return [Content(arrow if number == 0 else beside) + line for number, line in enumerate(lines)]
