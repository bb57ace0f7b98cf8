"""The checklist of a run to package: one row for each check, and below an unmet one how to meet it."""

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from harness.core.text import sanitize
from harness.submit.checklist import Check
from harness.tui.package_state import CheckState, PackageState

_STYLES = {
    CheckState.MET: "$text-success",
    CheckState.UNMET: "bold $text-error",
    CheckState.ACCEPTED: "bold $text-warning",
}
_MIN_TEXT_CELLS = 20
_ACCEPTED = "accepted; the manifest records it. Space takes the acceptance back"


class Checklist(OptionList):
    """Rows that are updated in place, so that the cursor keeps its position."""

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
        self._shown: dict[str, Content] = {}
        self._state: PackageState | None = None

    def show(self, state: PackageState) -> None:
        """Update the rows that have changed."""
        self._state = state
        rows = {check.name: self._row(check, state.check_state(check)) for check in state.checks}
        if list(rows) != list(self._shown):
            self.clear_options()
            self.add_options(Option(row, id=name) for name, row in rows.items())
            first = state.unmet[0] if state.unmet else next(iter(rows), None)
            self.highlighted = None if first is None else list(rows).index(first)
            # In a small terminal the first unmet check would otherwise be below the edge.
            self.call_after_refresh(self.scroll_to_highlight)
        else:
            for name, row in rows.items():
                if row != self._shown[name]:
                    self.replace_option_prompt(name, row)
            if rows == self._shown:
                return
        self._shown = rows
        self.refresh_bindings()

    def go_to(self, name: str) -> None:
        """Move the cursor to the check `name`."""
        self.highlighted = self.get_option_index(name)

    def on_resize(self, event: events.Resize) -> None:
        """Wrap the text to the new width."""
        if self._state is not None:
            self.show(self._state)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer to accept only while a check is unmet or accepted."""
        return action != "accept" or (
            self._state is not None
            and any(self._state.check_state(check) is not CheckState.MET for check in self._state.checks)
        )

    def action_accept(self) -> None:
        if self.highlighted_option is not None and self.highlighted_option.id is not None:
            self.post_message(self.Toggled(self.highlighted_option.id))

    def _row(self, check: Check, state: CheckState) -> Content:
        names = max(len(other.name) for other in self._state.checks) if self._state else 0
        indent = len(state) + 1 + names + 2
        width = max(_MIN_TEXT_CELLS, self.scrollable_content_region.width - indent)
        lines = Content(sanitize(check.sentence)).wrap(width)
        if state is not CheckState.MET:
            lines += _advice_lines(check, state, width)
        head = Content.styled(f"{state} {check.name:<{names}}  ", _STYLES[state])
        return head + Content(f"\n{' ' * indent}").join(lines)


def _advice_lines(check: Check, state: CheckState, width: int) -> list[Content]:
    advice = f"{check.fix}; or accept it with Space" if check.can_be_accepted else check.fix
    if state is CheckState.ACCEPTED:
        advice = _ACCEPTED
    lines = Content(sanitize(advice)).wrap(width - 2)
    return [Content("  " if number else "→ ") + line for number, line in enumerate(lines)]
