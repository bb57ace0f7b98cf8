"""The checklist of a run to package: one row for each check, and below an unmet one how to meet it."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from harness.core.text import sanitize
from harness.submit.checklist import Check
from harness.tui.package_state import PackageState

_STYLES = {"✓": "$text-success", "✗": "bold $text-error", "–": "bold $text-warning"}
_MIN_TEXT_CELLS = 20
_ACCEPTED = "accepted; the manifest records it. Space takes the acceptance back"


class Checklist(OptionList):
    """The checks; the cursor keeps its position when they change."""

    HELP = (
        "The checks before a run is packaged: ✓ met, ✗ unmet, – accepted. Space accepts an unmet check where that is "
        "possible, and the manifest records it. The checks are repeated automatically."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space,a", "accept", "Accept", tooltip="Accept this unmet check, or take the acceptance back"),
    ]

    class Toggled(Message):
        """The user accepts the check `name`, or takes the acceptance back."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, compact=True, markup=False)
        self._rows: dict[str, Content] = {}
        self._state: PackageState | None = None

    def show(self, state: PackageState) -> None:
        """Show the checks of `state`."""
        self._state = state
        names = max((len(check.name) for check in state.checks), default=0)
        rows = {check.name: self._row(check, state.sign(check), names) for check in state.checks}
        if rows == self._rows:
            return
        cursor, self._rows = self.highlighted, rows
        self.clear_options()
        self.add_options(Option(row, id=name) for name, row in rows.items())
        if cursor is None:
            cursor = self.get_option_index(state.unmet[0]) if state.unmet else 0
            # In a small terminal the first unmet check would otherwise be below the edge.
            self.call_after_refresh(self.scroll_to_highlight)
        self.highlighted = cursor
        self.refresh_bindings()

    def go_to(self, name: str) -> None:
        """Move the cursor to the check `name`."""
        self.highlighted = self.get_option_index(name)

    def on_resize(self) -> None:
        """Wrap the text to the new width."""
        if self._state is not None:
            self.show(self._state)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to accept only while a check is unmet or accepted."""
        return action != "accept" or (self._state is not None and not all(c.is_met for c in self._state.checks))

    def action_accept(self) -> None:
        if self.highlighted_option is not None and self.highlighted_option.id is not None:
            self.post_message(self.Toggled(self.highlighted_option.id))

    def _row(self, check: Check, sign: str, names: int) -> Content:
        head = Content.styled(f"{sign} {check.name:<{names}}  ", _STYLES[sign])
        width = max(_MIN_TEXT_CELLS, self.scrollable_content_region.width - head.cell_length)
        lines = Content(sanitize(check.sentence)).wrap(width)
        if not check.is_met:
            advice = f"{check.fix}; or accept it with Space" if check.can_be_accepted else check.fix
            advised = Content(sanitize(_ACCEPTED if sign == "–" else advice)).wrap(width - 2)
            lines += [Content("  " if number else "→ ") + line for number, line in enumerate(advised)]
        return head + Content(f"\n{' ' * head.cell_length}").join(lines)
