"""How commands print: data on stdout, talk on stderr, hostile text made visible."""

import json
import shutil
import sys
from typing import Any

from harness.core.text import align_columns, pluralize, sanitize, shorten_middle

__all__ = ["align_columns", "fitted", "is_terminal", "pluralize", "print_json", "sanitize", "say", "shorten_middle"]


def print_json(value: Any) -> None:
    """One line of JSON on stdout."""
    print(json.dumps(value, allow_nan=False, ensure_ascii=True, separators=(", ", ": ")))


def is_terminal() -> bool:
    """Somebody sits before a terminal: what is typed and what is printed are both one's own."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def say(sentence: str) -> None:
    """A line of talk, on stderr."""
    print(sentence, file=sys.stderr, flush=True)


def fitted(line: str) -> str:
    """`line` cut to the terminal's width, since a repainted line must not wrap."""
    return line[: max(20, shutil.get_terminal_size().columns - 1)]
