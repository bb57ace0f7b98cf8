"""Exports for people: CSV cells that no spreadsheet runs as a formula, and redacted text."""

import csv
import hashlib
import json
from collections.abc import Iterable
from typing import Any, TextIO

from harness.core.arrays import Tokens, tokens_sha256
from harness.core.text import pluralize, sanitize

# A spreadsheet reads text that begins like this as a formula, which can open a URL or start a program.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_STRIPPED = " ⏎⇥␍\ufffd"
"""Spreadsheets ignore spaces, and some of the characters that `sanitize` replaces, before a formula."""
_HASH_DIGITS = 12


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


def redact_suffix(suffix: Tokens, vocabulary: int) -> str:
    """Return `suffix` [length] as `50 tokens, sha256 1f2e3d4c5b6a`.

    The hash is the first 12 hex digits of SHA-256 over the token ids as little-endian unsigned integers, of 2 bytes if
    the vocabulary has at most 65,536 tokens and else of 4, as run.db stores them. The hash does not reveal a suffix,
    but it confirms a suffix that somebody already guessed.
    """
    return f"{pluralize(len(suffix), 'token')}, sha256 {tokens_sha256(suffix, vocabulary)[:_HASH_DIGITS]}"


def redact_text(text: str) -> str:
    """Return `text` as `17 words, sha256 1f2e3d4c5b6a`: the first 12 hex digits of SHA-256 over its UTF-8.

    Words are separated by white space. A short text, such as a name, is easier to guess than a suffix.
    """
    # A lone surrogate is not a character, but surrogatepass encodes it in three bytes.
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{pluralize(len(text.split()), 'word')}, sha256 {digest[:_HASH_DIGITS]}"
