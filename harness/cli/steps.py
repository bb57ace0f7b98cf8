"""What a long command is doing now: one line that is repainted on a terminal, a line for each step elsewhere."""

import sys
import time
from typing import Self

from harness.cli.output import fitted, sanitize, say
from harness.core.times import format_duration

_SECONDS_BETWEEN_LINES = 10.0


class Steps:
    """The steps of one thing, on stderr, each with the time since the first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._began = time.monotonic()
        self._said_at = -_SECONDS_BETWEEN_LINES
        self._is_terminal = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_terminal:
            print(file=sys.stderr)

    def tell(self, step: str) -> None:
        """`step` is being done; it may be a stranger's words."""
        line = f"{self._name} · {format_duration(time.monotonic() - self._began)} · {sanitize(step)}"
        if self._is_terminal:
            print(f"\r\x1b[2K{fitted(line)}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._said_at >= _SECONDS_BETWEEN_LINES:
            say(line)
            self._said_at = time.monotonic()
