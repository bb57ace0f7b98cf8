"""How commands print: data on stdout, talk on stderr, hostile text made visible."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from harness.core.counting import counted
from harness.core.visible import visible

__all__ = ["aligned", "counted", "print_json", "say", "visible"]


def print_json(value: Any) -> None:
    """One line of JSON on stdout."""
    print(json.dumps(value, allow_nan=False, ensure_ascii=True, separators=(", ", ": ")))


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equally many cells as lines, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def say(sentence: str) -> None:
    """A line of talk, on stderr."""
    print(sentence, file=sys.stderr, flush=True)
