"""The last lines of a growing text, which may be updated while the widget is hidden."""

from textual.events import Resize
from textual.widgets import RichLog

from harness.core.text import sanitize


class LineTail(RichLog):
    """Plain text with control characters replaced, the newest line at the bottom."""

    DEFAULT_CSS = "LineTail { background: transparent; overflow-x: hidden; scrollbar-size: 1 1; }"

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, max_lines=500, markup=False, highlight=False)
        self._shown: tuple[str, ...] = ()

    def show(self, lines: tuple[str, ...]) -> None:
        """Replace the lines."""
        if lines != self._shown:
            self._shown = lines
            self._fill()

    def on_resize(self, event: Resize) -> None:
        """Write the lines that arrived while the widget was hidden."""
        super().on_resize(event)
        if not self.lines:
            self._fill()

    def _fill(self) -> None:
        # Without a known width RichLog would queue all lines, and clear() would not remove them.
        if self.size.width:
            self.clear()
            for line in self._shown:
                self.write(sanitize(line))
