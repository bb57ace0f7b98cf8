"""Messages and progress on stderr."""

import sys
from types import TracebackType


def say(message: str) -> None:
    """Print a message on stderr."""
    print(message, file=sys.stderr, flush=True)


class ProgressLine:
    """A line that is repainted in a terminal and in a notebook. Elsewhere only its first and its last text is printed.

    The line ends with the `with` block, and an error erases it.
    """

    def __init__(self, *, is_shown: bool) -> None:
        # The stderr of a notebook's kernel is no terminal, but it can repaint a line.
        self._is_repainted = sys.stderr.isatty() or "ipykernel" in sys.modules
        self._is_shown = is_shown
        self._text = self._printed = ""

    def __enter__(self) -> "ProgressLine":
        return self

    def show(self, text: str) -> None:
        """Replace the text of the line."""
        if not self._is_shown or not text or text == self._text:
            return
        if self._is_repainted:
            # The spaces hide the rest of a longer text.
            print(f"\r{text.ljust(len(self._text))}", end="", file=sys.stderr, flush=True)
        elif not self._text:
            say(text)
            self._printed = text
        self._text = text

    def show_briefly(self, text: str) -> None:
        """Replace the text where the line is repainted; elsewhere print nothing."""
        if self._is_repainted:
            self.show(text)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._text and self._is_repainted:
            # Progress may have become the message of the error, which follows.
            end = "\n" if error is None else f"\r{' ' * len(self._text)}\r"
            print(end=end, file=sys.stderr, flush=True)
        elif self._text != self._printed:
            say(self._text)
