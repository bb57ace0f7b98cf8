"""The first line of every screen: the round, the load of the machine, and how many runs there are at work."""

from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from harness.core.text import sanitize, shorten
from harness.runs.status import Status
from harness.tui.glyphs import spark
from harness.tui.overview import Overview

_MAX_ROUND = 24


class TopBar(Static):
    """`harness`, the chosen round, each device with its recent load, and the numbers of running and queued runs."""

    DEFAULT_CSS = """
    TopBar {
        height: 1; padding: 0 1; background: $panel; text-wrap: nowrap; text-overflow: ellipsis;
        link-style: none; link-color: $foreground; link-background-hover: $primary; link-color-hover: $foreground;
    }
    """

    class Mounted(Message):
        """A bar is on the screen, or has another size, and has to be filled."""

        def __init__(self, bar: "TopBar") -> None:
            super().__init__()
            self.bar = bar

    def __init__(self) -> None:
        super().__init__(Content.styled("harness", "bold $text-primary"))

    def on_mount(self) -> None:
        self.post_message(self.Mounted(self))

    def on_resize(self) -> None:
        """Ask for what fits now."""
        self.post_message(self.Mounted(self))

    def show(self, overview: Overview, *, round_name: str | None) -> None:
        """Show the state of the machine; the bar is drawn again only if its text changes."""
        shown = "all rounds" if round_name is None else f"round {shorten(sanitize(round_name), _MAX_ROUND)}"
        parts = [
            Content.styled("harness", "bold $text-primary"),
            Content.from_markup("  [@click=app.choose_round()]$shown ▾[/]", shown=shown),
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
