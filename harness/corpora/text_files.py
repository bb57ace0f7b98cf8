"""Read text and JSON from untrusted files, and note what was skipped."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError
from harness.core.inputs import read_bounded
from harness.core.text import pluralize

_MAX_BYTES = 1 << 30
_NOTES_IN_FULL = 3


def read_text(file: Path) -> str:
    """Return the text of a UTF-8 file with line feeds as line ends. Raises HarnessError if it cannot be read."""
    try:
        text = read_bounded(file, limit=_MAX_BYTES).decode("utf-8-sig")
        return text.replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise HarnessError(f"not UTF-8 text: {file}. Convert the file to UTF-8.") from None


def parse_json(content: str | bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError for anything else, deep nesting included."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def with_line_feeds(text: str, name: str, notes: "Notes", *, keeps_line_ends: bool) -> str:
    """Return `text`, of the file `name`, with line feeds as line ends unless they are to be kept; note other ones."""
    if "\r" not in text:
        return text
    notes.add_line_ends(name, are_kept=keeps_line_ends)
    return text if keeps_line_ends else text.replace("\r\n", "\n").replace("\r", "\n")


def without_surrogates(text: str) -> str:
    """Return `text` with `?` for lone surrogates, which JSON can express and tokenizers refuse."""
    return text.encode("utf-8", "replace").decode()


class Notes:
    """Collects notes about skipped records. A note names a file and a line, and never quotes the record."""

    def __init__(self) -> None:
        self._in_full: list[str] = []
        self._counts: Counter[str] = Counter()
        self._other_line_ends: dict[str, bool] = {}

    def add(self, kind: str, sentence: str) -> None:
        """Add a note. Notes of one `kind`, such as "lines that are not JSON", are counted together."""
        self._counts[kind] += 1
        if self._counts[kind] <= _NOTES_IN_FULL:
            self._in_full.append(sentence)

    def add_line_ends(self, name: str, *, are_kept: bool) -> None:
        """Note that the file `name` has line ends other than line feeds."""
        self._other_line_ends[name] = are_kept

    @property
    def sentences(self) -> list[str]:
        """The notes in full, in the order of `add`, then how many more there were of each kind, then the line ends."""
        further = [
            f"Skipped {pluralize(number - _NOTES_IN_FULL, 'further record')} ({kind})."
            for kind, number in self._counts.items()
            if number > _NOTES_IN_FULL
        ]
        return [*self._in_full, *further, *self._line_ends()]

    def _line_ends(self) -> list[str]:
        names = list(self._other_line_ends)
        if not names:
            return []
        examples = ", ".join(names[:_NOTES_IN_FULL]) + (", …" if len(names) > _NOTES_IN_FULL else "")
        files = pluralize(len(names), "file")
        if all(self._other_line_ends.values()):
            return [f"Line ends CR LF or CR were kept in {files}: {examples}."]
        return [f"Line ends CR LF or CR became LF in {files}: {examples}. --keep-line-ends keeps them."]
