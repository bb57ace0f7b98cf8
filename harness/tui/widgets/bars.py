"""The bar at the top of a screen, its footer with keys, and facts with labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

from textual.binding import ActiveBinding
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Input, Static

from harness.core.text import sanitize, shorten
from harness.core.times import format_duration
from harness.runs.status import Status
from harness.runs.summary import RunSummary
from harness.tui.columns import GLYPHS
from harness.tui.overview import Overview

TABS = {
    "Runs": "runs:RunsPage",
    "Attacks": "attacks:AttacksPage",
    "Audits": "audits:AuditsPage",
    "Tuning": "tuning:TuningPage",
    "Leaderboard": "leaderboard:LeaderboardPage",
    "Data": "data:DataPage",
}
"""The class of the page of each tab of the main screen. It is imported when it is first shown, to open the TUI fast."""
_GAP = 2
_MIN_VALUE = 12
_MAX_ROUND, _MAX_ATTACK = 24, 20
_TABS_HEIGHT = 20
"""The rows of the terminal from which on the tabs are shown above every screen, not only on the main one."""


class Facts(Static):
    """Facts, one below the other, with dim labels of equal width. A long value goes on below its beginning."""

    _facts: Sequence[tuple[str, str]] | None = None
    _breaks = 0

    def show(self, facts: Sequence[tuple[str, str]]) -> None:
        """Show the labels and values; they are drawn again only if they change."""
        if facts != self._facts:
            self._facts = facts
            self.on_resize()

    def on_resize(self) -> None:
        """Break the values for the width of the widget."""
        if self._facts is None:
            return
        width = 2 + max((len(label) for label, _ in self._facts), default=0)
        room, lines = max(_MIN_VALUE, self.content_size.width - width), list[Content]()
        for label, value in self._facts:
            parts = Content(f"\n{' ' * width}").join(Content(sanitize(value)).wrap(room))
            lines.append(Content.styled(f"{sanitize(label):<{width}}", "$foreground 70%") + parts)
        text = Content("\n").join(lines)
        before, self._breaks = self._breaks, text.plain.count("\n")
        # A new arrangement of the screen takes tens of milliseconds.
        self.update(text, layout=self._breaks != before)


class KeyFooter(Widget):
    """One line with as many whole entries as fit, and Help at the right. A click on one presses its key.

    Textual's own footer (8.2.8) has a widget for each key and makes all of them again whenever the focus moves: on a
    run, a key then arranges the screen three times and takes 184 ms of CPU instead of 73. It also cuts the last entry.
    """

    DEFAULT_CSS = """
    KeyFooter {
        dock: bottom; height: 1; padding: 0 1; color: $footer-foreground; background: $footer-background;
        text-wrap: nowrap; link-style: none; link-color: $footer-description-foreground; link-background: transparent;
    }
    """
    ALLOW_SELECT = False

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.refresh())

    def render(self) -> Content:
        """Return the entries that fit, in the order of the bindings; those that quit and help are at the right.

        While the user types, keys that are characters are left out.
        """
        shown: dict[str, ActiveBinding] = {}
        is_typing = isinstance(self.screen.focused, Input)
        for active in self.screen.active_bindings.values():
            key = self.app.get_key_display(active.binding)
            if active.binding.show and not (is_typing and len(key) == 1 and key.isascii()):
                shown.setdefault(active.binding.action, active)
        left, right = list[Content](), list[Content]()
        for active in shown.values():
            is_pinned = active.node is self.app or active.binding.action == "app.quit"
            (right if is_pinned else left).append(self._entry(active))
        gap = Content(" " * _GAP)
        pinned, room = gap.join(right), self.size.width
        ends = accumulate((entry.cell_length + _GAP for entry in left), initial=pinned.cell_length)
        entries = gap.join(entry for entry, end in zip(left, islice(ends, 1, None), strict=True) if end <= room)
        return Content.assemble(entries, " " * (room - entries.cell_length - pinned.cell_length), pinned)

    def _entry(self, active: ActiveBinding) -> Content:
        key = self.app.get_key_display(active.binding)
        entry = Content.assemble(
            (key, "bold $footer-key-foreground"), (f" {active.binding.description}", "$footer-description-foreground")
        )
        click = Style.from_meta({"@click": f"app.simulate_key({active.binding.key!r})"})
        return entry.stylize(click if active.enabled else "dim")


class TopBar(Static):
    """`harness`, the chosen round and the run at work; below, the tabs of the pages.

    The main screen always shows the tabs, other screens in a high terminal.
    """

    DEFAULT_CSS = """
    TopBar {
        height: 1; background: $panel; text-wrap: nowrap; text-overflow: ellipsis; padding: 0 1;
        link-style: none; link-color: $foreground; link-background-hover: $primary; link-color-hover: $foreground;
    }
    """

    @dataclass
    class Mounted(Message):
        """A bar is on the screen, or has another size, and has to be filled."""

        bar: "TopBar"

    def __init__(self, tab: str = "Runs", *, is_main: bool = False) -> None:
        """`tab`: the page that the screen belongs to."""
        super().__init__(Content.styled("harness", "bold $text-primary"))
        self._tab, self._is_main = tab, is_main
        self._overview: Overview | None = None

    def on_resize(self) -> None:
        """Ask for the state of the machine if it is unknown, and show what fits now."""
        if self._overview is None:
            self.post_message(self.Mounted(self))
        self._draw()

    # Textual may lose the first Resize.
    on_mount = on_resize

    def go_to(self, tab: str) -> None:
        """Mark another tab."""
        self._tab = tab
        self._draw()

    def show(self, overview: Overview) -> None:
        """Show the state of the machine; the bar is drawn again only if its text changes."""
        self._overview = overview
        self._draw()

    def _draw(self) -> None:
        has_tabs = self._is_main or self.app.size.height >= _TABS_HEIGHT
        lines = [self._state_line(), *([self._tab_line()] if has_tabs else [])]
        self.styles.height = len(lines)
        self.update(Content("\n").join(lines), layout=False)

    def _state_line(self) -> Content:
        title, overview = Content.styled("harness", "bold $text-primary"), self._overview
        if overview is None:
            return title
        name = overview.round_name
        label = "all rounds" if name is None else f"round {shorten(sanitize(name), _MAX_ROUND)}"
        parts = [title, Content.from_markup("  [@click=app.choose_round()]$shown ▾[/]", shown=label)]
        room = self.app.size.width - 2 - sum(part.cell_length for part in parts)
        right = work_in_words(overview)
        return Content("").join([*parts, Content(right.rjust(max(len(right) + 2, room)))])

    def _tab_line(self) -> Content:
        parts = []
        for number, name in enumerate(TABS, 1):
            label = Content.styled(f" {number} {name} ", "bold reverse" if name == self._tab else "$text-muted")
            parts.append(label.stylize(Style.from_meta({"@click": f"app.leave_for({name!r})"})))
        return Content(" ").join(parts)


def work_in_words(overview: Overview) -> str:
    """Return the run at work with its progress and ETA, and the length of the queue: `▶ two_step 61% 0:24  ◌ 2`."""
    at_work = [run for run in overview.runs if not run.status.is_over]
    running = [run for run in at_work if run.status is not Status.QUEUED]
    more = f" +{len(running) - 1}" if len(running) > 1 else ""
    queued = len(at_work) - len(running)
    parts = [*(f"{_run_in_words(run)}{more}" for run in running[-1:]), *([f"◌ {queued}"] if queued else [])]
    return "  ".join(parts) or "nothing running"


def _run_in_words(run: RunSummary) -> str:
    progress = "" if run.progress is None else f"{run.progress:.0%}"
    eta = "" if run.eta_s is None else format_duration(run.eta_s)
    return " ".join(filter(None, [GLYPHS[run.status][0], sanitize(shorten(run.attack, _MAX_ATTACK)), progress, eta]))
