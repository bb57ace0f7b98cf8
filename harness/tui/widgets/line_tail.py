"""The last lines of something that grows, filled again and again, also while nobody sees it."""

from textual.events import Resize
from textual.widgets import RichLog

from harness.core.text import sanitize


class LineTail(RichLog):
    """Lines as plain text, made visible, the newest at the bottom."""

    def __init__(self, *, id: str, wrap: bool = False) -> None:
        super().__init__(id=id, max_lines=500, markup=False, highlight=False, wrap=wrap)
        self._shown: tuple[str, ...] = ()

    def show(self, lines: tuple[str, ...]) -> None:
        """Show these lines, if they are others."""
        if lines == self._shown:
            return
        self._shown = lines
        self._fill()

    def on_resize(self, event: Resize) -> None:
        """Write what came while nothing was displayed."""
        super().on_resize(event)
        if not self.lines:
            self._fill()

    def _fill(self) -> None:
        # Before it knows its width it would keep all that is written to it, and forget nothing when it is cleared.
        if self.size.width:
            self.clear()
            for line in self._shown:
                self.write(sanitize(line))
