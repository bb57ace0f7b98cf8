"""How commands print: data on stdout, messages on stderr, untrusted text made visible."""

import json
import sys
from collections.abc import Mapping
from typing import Any

from harness.core.columns import aligned, cut
from harness.core.counting import counted
from harness.core.visible import visible

__all__ = ["aligned", "counted", "cut", "is_terminal", "print_error", "print_json", "say", "visible"]

SCHEMA_VERSION = 1
"""Version of the printed JSON objects (docs/reference/json.md). A changed or removed key raises it, a new one does not."""

is_quiet = False
"""Set by `--quiet`: messages and progress are not printed."""
is_debug = False
"""Set by `--debug`: an error prints its traceback."""


def print_json(value: Mapping[str, Any]) -> None:
    """Print one object as one line of JSON on stdout, with `schema_version` as its first key."""
    print(json.dumps({"schema_version": SCHEMA_VERSION, **value}, allow_nan=False, separators=(", ", ": ")))


def is_terminal() -> bool:
    """Return whether both stdin and stdout are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def say(message: str) -> None:
    """Print a message on stderr, unless `--quiet` was given."""
    if not is_quiet:
        print(message, file=sys.stderr, flush=True)


def print_error(message: str) -> None:
    """Print an error on stderr."""
    print(f"harness: {visible(message)}", file=sys.stderr, flush=True)
