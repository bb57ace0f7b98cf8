"""Read corpora on disk as documents: text files, JSON, CSV, Parquet, data sets saved by `datasets`.

These files are untrusted. A record that cannot be read is skipped, with a note that never quotes it: the first line of
a file without a header is text of the corpus, and notes are published with findings and rounds.
"""

import codecs
import contextlib
import csv
import errno
import io
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.errors import HarnessError, UsageError
from harness.core.files import file_errors
from harness.core.inputs import require_file, require_inside
from harness.core.text import pluralize, sanitize_name, shorten
from harness.corpora.arrow_sets import is_arrow_set, texts_in_parquet, values_in_arrow_set
from harness.corpora.compressed import content_suffix, open_decompressed
from harness.corpora.epub import pieces_of_epub
from harness.corpora.text_files import Notes, parse_json, with_line_feeds, without_surrogates

_MAX_FIELD_LENGTH = 1 << 26  # bytes
_PIECE = 1 << 16  # characters
_INVALID = re.compile("[\ud800-\udfff]")
_MAX_LINE_LENGTH = 1 << 30  # bytes
_BINARY = "a binary file (it contains zero bytes)"
_PDF = "a PDF. Extract its text with pdftotext"
_SNIFFED = 1 << 12  # bytes in which a zero byte marks a binary file
_JSON_LINES, _JSON = (".jsonl", ".ndjson"), ".json"
DEFAULT_FIELD = "text"
"""The field or column with the text, unless another one is named."""
_ABOUT = frozenset(
    {"changelog", "citation", "code_of_conduct", "contributing", "copying", "licence", "license", "notice", "readme"}
)
"""Names of files that describe the corpus, if they are directly in its directory."""


class _Tsv(csv.excel_tab):
    """Tab-separated values without quotes, as in the IANA registration."""

    quoting = csv.QUOTE_NONE


_TABLES: dict[str, type[csv.Dialect]] = {".csv": csv.excel, ".tsv": _Tsv}
RECORD_SUFFIXES = (*_JSON_LINES, _JSON, *_TABLES)


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
    field: str | None,
    split: str | None,
    notes: Notes,
    keeps_line_ends: bool = False,
    replaces_invalid_bytes: bool = False,
) -> Iterator[Document]:
    """Yield the documents of the corpus at `path`, ordered by file name and line.

    Each line of a `.jsonl` or `.ndjson` file, each row of a `.csv`, `.tsv` or `.parquet` file and each record of a
    `.json` file (JSON Lines or an array) is a document, whose text is in `field`, by default "text". An `.epub` file is
    one document. Any other file is one document of plain text. Text, JSON and tables may be compressed (`.gz`, `.zst`).
    Hidden files are ignored. Of a directory, a README, a license and the like are left out, with a note.
    A directory written by `datasets` is read by its column `field`; `split` selects one of several splits.
    Raises HarnessError if the path, the split or the column does not exist.
    keeps_line_ends: do not turn `\\r\\n` and `\\r` into line feeds; a note says which files have them.
    replaces_invalid_bytes: read a text file to its end, with U+FFFD for bytes that are not UTF-8.
    """
    require_file(path, or_folder=True)
    reading = _Reading(field or DEFAULT_FIELD, notes, keeps_line_ends, replaces_invalid_bytes)
    if path.is_dir() and is_arrow_set(path):
        for name, text in values_in_arrow_set(path, field=reading.field, split=split, notes=notes):
            yield reading.document(name, text, path.name)
        return
    if split is not None:
        raise HarnessError(f"{path} is not a data set with splits. Remove --split {shorten(split)}.")
    for file in _text_files(path, notes):
        if not file.is_file():
            raise HarnessError(f"neither a file nor a directory: {file}. Remove it.")
        name = sanitize_name(file.name if file == path else str(file.relative_to(path)))
        if _has_fields(file):
            yield from reading.records(file, name)
        elif file.suffix.lower() == ".epub":
            yield Document(name, pieces_of_epub(file, name, notes))
        else:
            yield Document(name, _text_pieces(file, name, reading))


@dataclass(frozen=True)
class _Reading:
    """The arguments of `documents_in`."""

    field: str
    notes: Notes
    keeps_line_ends: bool
    replaces_invalid_bytes: bool

    def document(self, name: str, text: str, file: str) -> Document:
        """Return the document with a text of `file`."""
        text = with_line_feeds(text, file, self.notes, keeps_line_ends=self.keeps_line_ends)
        return Document(name, io.StringIO(text, newline=""))

    def records(self, file: Path, name: str) -> Iterator[Document]:
        """Yield the records of a file as documents."""
        if file.suffix.lower() == ".parquet":
            for row, text in texts_in_parquet(file, name, field=self.field, notes=self.notes):
                yield self.document(row, text, name)
            return
        for record in records_in(file, name, (self.field,), self.notes, keeps_line_ends=self.keeps_line_ends):
            yield self.document(f"{name}:{record.line}", record.texts[0], name)


def require_fields(field: str | None, paths: Iterable[Path | None]) -> None:
    """Raise UsageError if `field` is named and no corpus among `paths` has fields. None stands for no corpus."""
    if field is None:
        return
    for path in paths:
        if path is not None and path.is_dir() and (is_arrow_set(path) or any(map(_has_fields, visible_files(path)))):
            return
        if path is not None and not path.is_dir() and (_has_fields(path) or not path.exists()):
            return
    raise UsageError("--field has no effect: no source contains records. Remove --field.")


def _has_fields(file: Path) -> bool:
    return file.suffix.lower() == ".parquet" or content_suffix(file) in RECORD_SUFFIXES


def _text_files(path: Path, notes: Notes) -> Iterator[Path]:
    """Yield the files of a corpus, without those that describe it."""
    if not path.is_dir():
        yield path
        return
    for file in visible_files(path):
        if file.parent == path and file.name.partition(".")[0].casefold() in _ABOUT:
            notes.add("files about the corpus", f"Left out {sanitize_name(file.name)}: it describes the corpus.")
        else:
            yield file


def records_in(
    file: Path, name: str, fields: Sequence[str], notes: Notes, *, keeps_line_ends: bool = False
) -> Iterator[Record]:
    """Yield the records of a JSON, JSON Lines, CSV or TSV file that have text in all `fields`; note the others."""
    suffix = content_suffix(file)
    reader = _table_records if suffix in _TABLES else _json_file_records if suffix == _JSON else _json_records
    for record in reader(file, name, fields, notes):
        texts = [with_line_feeds(text, name, notes, keeps_line_ends=keeps_line_ends) for text in record.texts]
        yield Record(record.line, texts)


def visible_files(folder: Path) -> Iterator[Path]:
    """Yield the regular files below `folder` that are not hidden, without following links to directories.

    Raises HarnessError if a directory cannot be listed, or if a link leaves `folder`.
    """
    pending = [folder]
    while pending:
        place = pending.pop()
        with file_errors(place, "listed"), os.scandir(place) as entries:
            visible_entries = sorted(
                (entry for entry in entries if not entry.name.startswith(".")), key=attrgetter("name")
            )
        for entry in visible_entries:
            if entry.is_symlink():
                require_inside(Path(entry.path), folder)
            if entry.is_file():
                yield Path(entry.path)
        pending += [Path(entry.path) for entry in reversed(visible_entries) if entry.is_dir(follow_symlinks=False)]


def _text_pieces(file: Path, name: str, reading: _Reading) -> Iterator[str]:
    """Yield a text file in pieces, since it may be larger than memory. A line may come in several pieces."""
    notes = reading.notes
    try:
        with _opened(file) as (content, encoding):
            # The error handler turns each invalid byte into a lone surrogate, which valid text does not contain.
            errors = "surrogateescape" if reading.replaces_invalid_bytes and encoding != "utf-16" else "strict"
            newline = "" if reading.keeps_line_ends else None
            stream = io.TextIOWrapper(content, encoding, errors, newline)
            replaced = 0
            for piece in iter(lambda: stream.readline(_PIECE), ""):
                text, invalid = _INVALID.subn("\ufffd", piece)
                replaced += invalid
                yield text
            line_ends: str | tuple[str, ...] = stream.newlines or ()
        if set((line_ends,) if isinstance(line_ends, str) else line_ends) - {"\n"}:
            notes.add_line_ends(name, are_kept=reading.keeps_line_ends)
        if replaced:
            extent = pluralize(replaced, "byte")
            notes.add("files in another encoding", f"{name}: {extent} that are not UTF-8 became U+FFFD.")
    except UnicodeError:
        notes.add("files in another encoding", f"Skipped the rest of {name}: not UTF-8 text (nor UTF-16 with a BOM).")
    except OSError as error:
        _note_unreadable(name, error, notes)


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[tuple[io.BufferedReader, str]]:
    """Open a file, and detect its encoding. Raises OSError, which says why, for a file that is not text."""
    with open_decompressed(file) as stream:
        start = stream.peek(_SNIFFED)[:_SNIFFED]
        if start.startswith(b"%PDF-"):
            raise OSError(errno.EINVAL, _PDF)
        is_utf16 = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        if b"\0" in start and not is_utf16:
            raise OSError(errno.EINVAL, _BINARY)
        yield stream, "utf-16" if is_utf16 else "utf-8-sig"


def _json_records(file: Path, name: str, fields: Sequence[str], notes: Notes) -> Iterator[Record]:
    try:
        for number, line in enumerate(_json_lines(file), start=1):
            if not line.strip():
                continue
            where = f"{name}, line {number}"
            try:
                record = parse_json(line)
            except ValueError:
                notes.add("lines that are not JSON", f"Skipped {where}: not valid JSON.")
                continue
            if (texts := _json_texts(record, where, fields, notes)) is not None:
                yield Record(number, texts)
    except UnicodeError:
        notes.add("files in another encoding", f"Skipped the rest of {name}: not UTF-16 text.")
    except OSError as error:
        _note_unreadable(name, error, notes)


def _json_lines(file: Path) -> Iterator[bytes | str]:
    with _opened(file) as (stream, encoding):
        if encoding == "utf-16":
            text = io.TextIOWrapper(stream, encoding, newline="\n")
            yield from iter(lambda: text.readline(_MAX_LINE_LENGTH), "")
        else:  # a line that is not UTF-8 is not JSON, and the others are read
            lines = iter(lambda: stream.readline(_MAX_LINE_LENGTH), b"")
            yield from (line.removeprefix(codecs.BOM_UTF8) for line in lines)


def _json_file_records(file: Path, name: str, fields: Sequence[str], notes: Notes) -> Iterator[Record]:
    """Yield the records of a `.json` file: JSON Lines, or an array of objects or texts."""
    try:
        with _opened(file) as (stream, _):
            # Python allocates as many bytes as it is asked for.
            pieces = iter(lambda: stream.read(_PIECE), b"")
            content = parse_json(b"".join(itertools.islice(pieces, _MAX_LINE_LENGTH // _PIECE)))
    except ValueError:
        yield from _json_records(file, name, fields, notes)
        return
    except OSError as error:
        _note_unreadable(name, error, notes)
        return
    if isinstance(content, dict) and any(isinstance(content.get(field), str) for field in fields):
        content = [content]
    if not isinstance(content, list):
        notes.add("JSON files without records", f"Left out {name}: it contains no array of records.")
        return
    for number, record in enumerate(content, start=1):
        if isinstance(record, str) and tuple(fields) == (DEFAULT_FIELD,):
            yield Record(number, [without_surrogates(record)])
        elif (texts := _json_texts(record, f"{name}, record {number}", fields, notes)) is not None:
            yield Record(number, texts)


def _json_texts(record: Any, where: str, fields: Sequence[str], notes: Notes) -> list[str] | None:
    """Return the text of `fields` of a JSON value, or None with a note."""
    if not isinstance(record, dict):
        notes.add("lines that are not JSON objects", f"Skipped {where}: not a JSON object.")
        return None
    texts = [record.get(field) for field in fields]
    absent = next((field for field, text in zip(fields, texts, strict=True) if not isinstance(text, str)), None)
    if absent is not None:
        content = "the field does not hold text" if absent in record else f"it has {pluralize(len(record), 'field')}"
        notes.add("lines without the field", f"Skipped {where}: no text in the field {absent!r} ({content}).")
        return None
    return [without_surrogates(str(text)) for text in texts]


def _table_records(file: Path, name: str, fields: Sequence[str], notes: Notes) -> Iterator[Record]:
    line = 0
    try:
        with _opened(file) as (stream, encoding):
            text = io.TextIOWrapper(stream, encoding, newline="")
            rows = _csv_rows(text, _TABLES[content_suffix(file)])
            _, header = next(rows, (0, []))
            if absent := [field for field in fields if field not in header]:
                columns = pluralize(len(header), "column")
                notes.add("tables without the column", f"Skipped {name}: no column {absent[0]!r} among {columns}.")
                return
            places = [header.index(field) for field in fields]
            for line, row in rows:
                if len(row) > max(places):
                    yield Record(line, [row[place] for place in places])
                elif row:
                    notes.add("rows that are too short", f"Skipped {name}, line {line}: the row is too short.")
    except (csv.Error, UnicodeError) as error:
        fault = "not UTF-8 text" if isinstance(error, UnicodeError) else "not valid CSV"
        notes.add("damaged tables", f"Skipped the rest of {name} after line {line}: {fault}.")
    except OSError as error:
        _note_unreadable(name, error, notes)


def _csv_rows(stream: Iterable[str], dialect: type[csv.Dialect]) -> Iterator[tuple[int, list[str]]]:
    """Yield each row and the line on which it ends."""
    reader = csv.reader(stream, dialect)
    while True:
        # The limit belongs to the whole process, and other tables may be read between two rows.
        usual_limit = csv.field_size_limit(_MAX_FIELD_LENGTH)
        try:
            row = next(reader, None)
        finally:
            csv.field_size_limit(usual_limit)
        if row is None:
            return
        yield reader.line_num, row


def _note_unreadable(name: str, error: OSError, notes: Notes) -> None:
    if error.strerror in (_BINARY, _PDF):
        notes.add("files that are not text", f"Skipped {name}: {error.strerror}.")
    else:
        notes.add("files that cannot be read", f"Skipped {name}: cannot be read ({error.strerror}).")
