"""CSV files for people: no text that a spreadsheet runs as a formula, and none that steers a terminal."""

import csv
import json
from collections.abc import Iterable
from typing import Any, TextIO

from harness.core.text import sanitize

# A spreadsheet reads text that begins like this as a formula, which can open a URL or start a program.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_STRIPPED = " ⏎⇥␍\ufffd"
"""Spreadsheets ignore spaces, and some of the characters that `sanitize` replaces, before a formula."""


def write_rows(file: TextIO, rows: Iterable[Iterable[Any]]) -> None:
    """Write rows of cells as CSV: text, bool, int, float, None (an empty cell), or a list of these (as JSON)."""
    csv.writer(file, lineterminator="\n").writerows(map(csv_cell, row) for row in rows)


def csv_cell(cell: Any) -> str:
    """Return a cell as text. Text is sanitized, and has ' before it if it could be a formula."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        text = sanitize(cell)
        return f"'{text}" if text.lstrip(_STRIPPED).startswith(_FORMULA) else text
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return json.dumps(cell) if isinstance(cell, list) else str(cell)
