"""The bar at the top of a screen, its footer with keys, and a text with a label."""

from collections.abc import Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from harness.core.text import sanitize, shorten
from harness.runs.status import Status
from harness.tui.columns import spark
from harness.tui.overview import Overview

_GAP = 2
_MAX_ROUND = 24


def label_facts(facts: Sequence[tuple[str, str]]) -> Content:
    """Return the facts, one per line, with dim labels of equal width."""
    width = max((len(label) for label, _ in facts), default=0)
    label_style = "$foreground 55%"
    lines = [
        Content.assemble((f"{sanitize(label):<{width}}  ", label_style), sanitize(value)) for label, value in facts
    ]
    return Content("\n").join(lines)


class KeyFooter(Widget):
    """One line with as many whole entries as fit. A click on one presses its key.

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
        """Return the entries that fit, in the order of the bindings."""
        entries: list[Content] = []
        actions, room = set(), self.size.width
        for _, binding, is_enabled, _ in self.screen.active_bindings.values():
            if not binding.show or binding.action in actions:
                continue
            actions.add(binding.action)
            key = self.app.get_key_display(binding)
            entry = Content.assemble(
                (key, "bold $footer-key-foreground"), (f" {binding.description}", "$footer-description-foreground")
            )
            room -= entry.cell_length + (_GAP if entries else 0)
            if room < 0:
                break
            if is_enabled:
                entry = entry.stylize(Style.from_meta({"@click": f"press({binding.key!r})"}))
            entries.append(entry if is_enabled else entry.stylize("dim"))
        return Content(" " * _GAP).join(entries)

    def action_press(self, key: str) -> None:
        """Press a key for the widget that has the focus."""
        self.app.simulate_key(key)


class TopBar(Static):
    """`harness`, the chosen round, each device with its recent load, and the numbers of running and queued runs."""

    DEFAULT_CSS = """
    TopBar {
        height: 1; padding: 0 1; background: $panel; text-wrap: nowrap; text-overflow: ellipsis;
        link-style: none; link-color: $foreground; link-background-hover: $primary; link-color-hover: $foreground;
    }
    """

    @dataclass
    class Mounted(Message):
        """A bar is on the screen, or has another size, and has to be filled."""

        bar: "TopBar"

    def __init__(self) -> None:
        super().__init__(Content.styled("harness", "bold $text-primary"))

    def on_mount(self) -> None:
        self.post_message(self.Mounted(self))

    def on_resize(self) -> None:
        """Ask for what fits now."""
        self.post_message(self.Mounted(self))

    def show(self, overview: Overview) -> None:
        """Show the state of the machine; the bar is drawn again only if its text changes."""
        name = overview.round_name
        label = "all rounds" if name is None else f"round {shorten(sanitize(name), _MAX_ROUND)}"
        parts = [
            Content.styled("harness", "bold $text-primary"),
            Content.from_markup("  [@click=app.choose_round()]$shown ▾[/]", shown=label),
        ]
        loads = [f"{device} {spark(load)} {load[-1]:3.0f} %" for device, load in overview.load.items() if load]
        right = "  ".join([*loads, work_in_words(overview)])
        room = self.size.width - 2 - sum(part.cell_length for part in parts)
        if room < len(right) + 2 and loads:
            right = work_in_words(overview)
        parts.append(Content(right.rjust(max(len(right) + 2, room))))
        self.update(Content("").join(parts), layout=False)


def work_in_words(overview: Overview) -> str:
    """Return how many runs are at work, such as `1 running, 2 queued`."""
    states = [run.status for run in overview.runs if not run.status.is_over]
    queued = states.count(Status.QUEUED)
    running = len(states) - queued
    parts = [f"{count} {word}" for count, word in ((running, "running"), (queued, "queued")) if count]
    return ", ".join(parts) or "nothing running"
