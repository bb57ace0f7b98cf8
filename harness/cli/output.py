"""Output of commands: data on stdout, messages on stderr, untrusted text made visible."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from harness.core.text import align_columns as align_columns
from harness.core.text import json_value
from harness.core.text import pluralize as pluralize
from harness.core.text import sanitize as sanitize
from harness.core.text import shorten_middle as shorten_middle

SCHEMA_VERSION = 1
"""Version of the printed JSON (docs/reference/json.md). It grows when a key changes or goes, not when one is added."""

is_quiet = False
"""Set by `--quiet`: messages and progress are not printed."""
is_debug = False
"""Set by `--debug`: an error prints its traceback."""


def print_json(value: Mapping[str, Any]) -> None:
    """Print one object as one line of JSON on stdout, with `schema_version` as its first key."""
    print(json.dumps(json_value({"schema_version": SCHEMA_VERSION, **value}), allow_nan=False, separators=(", ", ": ")))


def table_section(title: str, table: Sequence[Sequence[str]], *, max_width: int = 60) -> str:
    """Return a table below its title. max_width: of a cell, in characters."""
    rows = [[shorten_middle(sanitize(cell), max_width) for cell in row] for row in table]
    return "\n".join(filter(None, (sanitize(title), align_columns(rows) if rows else "")))


def is_terminal() -> bool:
    """Return whether both stdin and stdout are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def say(message: str) -> None:
    """Print a message on stderr, unless `--quiet` was given."""
    if not is_quiet:
        print(message, file=sys.stderr, flush=True)


def print_error(message: str) -> None:
    """Print an error on stderr."""
    print(f"harness: {sanitize(message)}", file=sys.stderr, flush=True)
