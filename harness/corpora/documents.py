"""Read corpora on disk as documents: text files, JSON Lines, CSV, Parquet, data sets saved by `datasets`.

These files are untrusted. A record that cannot be read is skipped, with a note that never quotes it: the first line of
a file without a header is text of the corpus, and notes are published with findings and rounds.
"""

import codecs
import csv
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import HarnessError
from harness.core.inputs import require_inside
from harness.core.text import pluralize, sanitize, shorten
from harness.corpora.arrow_sets import is_arrow_set, texts_in_parquet, values_in_arrow_set
from harness.corpora.text_files import Notes, parse_json, without_surrogates

_LONGEST_FIELD = 1 << 26  # bytes
_PIECE = 1 << 16  # characters
_INVALID = re.compile("[\ud800-\udfff]")
_SNIFFED = 1 << 12  # bytes in which a zero byte marks a binary file


class _Tsv(csv.excel_tab):
    """Tab-separated values without quotes, as in the IANA registration."""

    quoting = csv.QUOTE_NONE


_JSON_LINES = (".jsonl", ".ndjson")
_TABLES: dict[str, type[csv.Dialect]] = {".csv": csv.excel, ".tsv": _Tsv}
RECORD_SUFFIXES = (*_JSON_LINES, *_TABLES)


class Document(NamedTuple):
    """A document: its place in the corpus, and its text in pieces that are read when they are iterated over."""

    name: str
    lines: Iterable[str]


class Record(NamedTuple):
    """The text of the requested fields of one record, and the line on which the record ends."""

    line: int
    texts: list[str]


def documents_in(
    path: Path,
    *,
    field: str,
    split: str | None,
    notes: Notes,
    keeps_line_ends: bool = False,
    replaces_invalid_bytes: bool = False,
) -> Iterator[Document]:
    """Yield the documents of the corpus at `path`, ordered by file name and line.

    Each line of a `.jsonl` or `.ndjson` file and each row of a `.csv`, `.tsv` or `.parquet` file is a document, whose
    text is in `field`. Any other file is one document. Hidden files are ignored. A directory written by `datasets` is
    read by its column `field`; `split` selects one of several splits. Raises HarnessError if the path, the split or the
    column does not exist. keeps_line_ends: do not turn `\\r\\n` and `\\r` into line feeds.
    replaces_invalid_bytes: read a text file to its end, with U+FFFD for bytes that are not UTF-8.
    """
    newline = "" if keeps_line_ends else None
    if not path.exists():
        raise HarnessError(f"no such file or directory: {path}.")
    if path.is_dir() and is_arrow_set(path):
        for name, text in values_in_arrow_set(path, field=field, split=split, notes=notes):
            yield Document(name, io.StringIO(text, newline=newline))
        return
    if split is not None:
        raise HarnessError(f"{path} is not a data set with splits. Remove --split {shorten(split)}.")
    files = files_in(path) if path.is_dir() else [path]
    for file in files:
        if not file.is_file():
            raise HarnessError(f"neither a file nor a directory: {file}.")
        name = sanitize(file.name if file == path else str(file.relative_to(path)))
        if file.suffix.lower() in RECORD_SUFFIXES:
            for record in records_in(file, name, (field,), notes):
                yield Document(f"{name}:{record.line}", io.StringIO(record.texts[0], newline=newline))
        elif file.suffix.lower() == ".parquet":
            for row, text in texts_in_parquet(file, name, field=field, notes=notes):
                yield Document(row, io.StringIO(text, newline=newline))
        else:
            yield Document(name, _text_pieces(file, name, notes, newline, replaces_invalid_bytes))


def records_in(file: Path, name: str, fields: Sequence[str], notes: Notes) -> Iterator[Record]:
    """Yield the records of a JSON Lines, CSV or TSV file that have text in all `fields`; note the others."""
    if file.suffix.lower() in _JSON_LINES:
        return _json_records(file, name, fields, notes)
    return _table_records(file, name, fields, notes)


def files_in(folder: Path) -> Iterator[Path]:
    """Yield the regular files below `folder` that are not hidden, without following links to directories.

    Raises HarnessError if a directory cannot be listed, or if a link leaves `folder`.
    """
    pending = [folder]
    while pending:
        place = pending.pop()
        try:
            with os.scandir(place) as entries:
                shown = sorted((entry for entry in entries if not entry.name.startswith(".")), key=attrgetter("name"))
        except OSError as error:
            raise HarnessError(f"cannot list {place}: {error.strerror}.") from None
        for entry in shown:
            if entry.is_symlink():
                require_inside(Path(entry.path), folder)
            if entry.is_file():
                yield Path(entry.path)
        pending += [Path(entry.path) for entry in reversed(shown) if entry.is_dir(follow_symlinks=False)]


def _text_pieces(
    file: Path, name: str, notes: Notes, newline: str | None, replaces_invalid_bytes: bool
) -> Iterator[str]:
    """Yield a text file in pieces, since it may be larger than memory. A line may come in several pieces."""
    try:
        encoding = _encoding(file)
        with file.open("rb") as binary:
            if encoding != "utf-16" and b"\0" in binary.read(_SNIFFED):
                notes.add("binary files", f"Skipped {name}: a binary file (it contains zero bytes).")
                return
        # The error handler turns each invalid byte into a lone surrogate, which valid text does not contain.
        errors = "surrogateescape" if replaces_invalid_bytes and encoding != "utf-16" else "strict"
        with file.open(encoding=encoding, newline=newline, errors=errors) as stream:
            replaced = 0
            for piece in iter(lambda: stream.readline(_PIECE), ""):
                text, invalid = _INVALID.subn("\ufffd", piece)
                replaced += invalid
                yield text
        if replaced:
            what = pluralize(replaced, "byte")
            notes.add("files in another encoding", f"{name}: {what} that are not UTF-8 became U+FFFD.")
    except UnicodeError:
        notes.add("files in another encoding", f"Skipped the rest of {name}: not UTF-8 text (nor UTF-16 with a BOM).")
    except OSError as error:
        _note_unreadable(name, error, notes)


def _encoding(file: Path) -> str:
    with file.open("rb") as binary:
        mark = binary.read(2)
    return "utf-16" if mark in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def _json_records(file: Path, name: str, fields: Sequence[str], notes: Notes) -> Iterator[Record]:
    try:
        with file.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip() and (texts := _json_texts(line, f"{name}, line {number}", fields, notes)) is not None:
                    yield Record(number, texts)
    except OSError as error:
        _note_unreadable(name, error, notes)


def _json_texts(line: bytes, where: str, fields: Sequence[str], notes: Notes) -> list[str] | None:
    """Return the text of `fields` of a JSON line, or None with a note."""
    try:
        record = parse_json(line.removeprefix(codecs.BOM_UTF8))
    except ValueError:
        notes.add("lines that are not JSON", f"Skipped {where}: not valid JSON.")
        return None
    if not isinstance(record, dict):
        notes.add("lines that are not JSON objects", f"Skipped {where}: not a JSON object.")
        return None
    texts = [record.get(field) for field in fields]
    absent = next((field for field, text in zip(fields, texts, strict=True) if not isinstance(text, str)), None)
    if absent is not None:
        found = "the field does not hold text" if absent in record else f"it has {pluralize(len(record), 'field')}"
        notes.add("lines without the field", f"Skipped {where}: no text in the field {absent!r} ({found}).")
        return None
    return [without_surrogates(str(text)) for text in texts]


def _table_records(file: Path, name: str, fields: Sequence[str], notes: Notes) -> Iterator[Record]:
    # The limit belongs to the whole process, so it is restored.
    usual_limit = csv.field_size_limit(_LONGEST_FIELD)
    line = 0
    try:
        with file.open(encoding=_encoding(file), newline="") as stream:
            reader = csv.reader(stream, _TABLES[file.suffix.lower()])
            header = next(reader, [])
            if absent := [field for field in fields if field not in header]:
                columns = pluralize(len(header), "column")
                notes.add("tables without the column", f"Skipped {name}: no column {absent[0]!r} among {columns}.")
                return
            places = [header.index(field) for field in fields]
            for row in reader:
                line = reader.line_num
                if len(row) > max(places):
                    yield Record(line, [row[place] for place in places])
                elif row:
                    notes.add("rows that are too short", f"Skipped {name}, line {line}: the row is too short.")
    except (csv.Error, UnicodeError) as error:
        what = "not UTF-8 text" if isinstance(error, UnicodeError) else "not valid CSV"
        notes.add("damaged tables", f"Skipped the rest of {name} after line {line}: {what}.")
    except OSError as error:
        _note_unreadable(name, error, notes)
    finally:
        csv.field_size_limit(usual_limit)


def _note_unreadable(name: str, error: OSError, notes: Notes) -> None:
    notes.add("files that cannot be read", f"Skipped {name}: cannot be read ({error.strerror}).")
