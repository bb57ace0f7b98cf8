"""Corpora that nobody vouches for, as documents: folders of text, JSON Lines, CSV, data sets in Arrow files.

A bad record is left out and complained of, without a word of it: what stands where a header is expected may be text of
the corpus, and complaints go with findings. The rest is read. Nothing here knows what a prompt is.
"""

import csv
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from harness.audits.sequence.arrow_sets import is_arrow_set, values_in_arrow_set
from harness.audits.sequence.complaints import Complaints
from harness.audits.sequence.words import paragraphs_in, paragraphs_of
from harness.core.errors import HarnessError
from harness.core.text import pluralize, sanitize, shorten

_LONGEST_RECORD = 1 << 26
_PIECE = 1 << 16
_SNIFFED = 1 << 12


class Document(NamedTuple):
    """One document: where it stands, as a reader is told, and its paragraphs, which are read as they are asked for."""

    name: str
    paragraphs: Iterable[str]


def documents_in(path: Path, *, field: str, split: str | None, complaints: Complaints) -> Iterator[Document]:
    """The documents of the corpus at `path`, in the order of their names and lines.

    A folder holds documents as files: every line of a `.jsonl` or `.ndjson` and every row of a `.csv` or `.tsv` is one
    by its `field`, any other file is one as a whole, hidden files none. A folder that `datasets` saved is read by its
    `field`, a set of several splits by its `split`. Raises HarnessError when there is no such file or folder, or no
    such split or column.
    """
    if not path.exists():
        raise HarnessError(f"{path}: no such file or folder, and the corpus is read from there.")
    if path.is_dir() and is_arrow_set(path):
        for name, text in values_in_arrow_set(path, field=field, split=split, complaints=complaints):
            yield Document(name, paragraphs_in(text))
        return
    if split is not None:
        raise HarnessError(f"{path}: no data set with splits, and the split {shorten(split)!r} is asked for.")
    if not path.is_dir():
        yield from _documents_of(path, sanitize(path.name), field, complaints)
        return
    for file in _files_in(path):
        yield from _documents_of(file, sanitize(str(file.relative_to(path))), field, complaints)


def _files_in(folder: Path) -> Iterator[Path]:
    """Every regular file below `folder` that is not hidden; folders are not followed through links."""

    def fail(error: OSError) -> None:
        raise HarnessError(f"{error.filename}: cannot be listed ({error.strerror}).")

    for place, folders, files in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            file = Path(place) / name
            if not name.startswith(".") and file.is_file():
                yield file


def _documents_of(file: Path, name: str, field: str, complaints: Complaints) -> Iterator[Document]:
    if not file.is_file():
        raise HarnessError(f"{file}: neither a file nor a folder; a corpus is one of them.")
    ending = file.suffix.lower()
    if ending in (".jsonl", ".ndjson"):
        yield from _json_lines(file, name, field, complaints)
    elif ending in (".csv", ".tsv"):
        yield from _table_rows(file, name, field, "\t" if ending == ".tsv" else ",", complaints)
    else:
        yield Document(name, _text(file, name, complaints))


def _text(file: Path, name: str, complaints: Complaints) -> Iterator[str]:
    """The paragraphs of a text file, read piece by piece: a file may be larger than memory."""
    try:
        with file.open("rb") as binary:
            if b"\0" in binary.read(_SNIFFED) and _encoding(file) == "utf-8-sig":
                complaints.add("files that hold no text", f"{name}: is no text (it has zero bytes); left out.")
                return
        with file.open(encoding=_encoding(file), newline=None) as stream:
            yield from paragraphs_of(iter(lambda: stream.readline(_PIECE), ""))
    except UnicodeError:
        sentence = f"{name}: holds bytes that are not UTF-8 (nor UTF-16 with its mark); left out from there on."
        complaints.add("files in another encoding", sentence)
    except OSError as error:
        complaints.add("files that cannot be read", f"{name}: cannot be read ({error.strerror}); left out.")


def _encoding(file: Path) -> str:
    with file.open("rb") as binary:
        mark = binary.read(2)
    return "utf-16" if mark in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def _json_lines(file: Path, name: str, field: str, complaints: Complaints) -> Iterator[Document]:
    number = 0
    for line in _lines(file, name, complaints):
        number += 1
        where = f"{name}, line {number}"
        if len(line) > _LONGEST_RECORD:
            complaints.add("lines that are too long", f"{where}: longer than {_LONGEST_RECORD >> 20} MiB; left out.")
            continue
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            complaints.add("lines without JSON", f"{where}: no JSON; left out.")
            continue
        if not isinstance(record, dict):
            complaints.add("lines without an object", f"{where}: JSON, and no object with fields; left out.")
        elif not isinstance(text := record.get(field), str):
            found = f"it has {pluralize(len(record), 'other')}" if field not in record else "it holds no text"
            complaints.add("lines without the field", f"{where}: no text in a field {field!r} ({found}); left out.")
        else:
            # JSON may name half a surrogate pair, which is no character and which no tokenizer takes.
            yield Document(f"{name}:{number}", paragraphs_in(text.encode("utf-8", "replace").decode()))


def _lines(file: Path, name: str, complaints: Complaints) -> Iterator[bytes]:
    """The lines of a file; of one beyond the longest record a little more than that, its rest passed over."""
    try:
        with file.open("rb") as stream:
            while line := stream.readline(_LONGEST_RECORD + 1):
                rest = line
                while len(rest) > _LONGEST_RECORD and not rest.endswith(b"\n"):
                    rest = stream.readline(_LONGEST_RECORD + 1)
                yield line.removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        complaints.add("files that cannot be read", f"{name}: cannot be read ({error.strerror}); left out from there.")


def _table_rows(file: Path, name: str, field: str, delimiter: str, complaints: Complaints) -> Iterator[Document]:
    # Of the whole process, so that it is put back.
    usual_limit = csv.field_size_limit(_LONGEST_RECORD)
    reader = None
    try:
        with file.open(encoding=_encoding(file), newline="") as stream:
            reader = csv.reader(stream, delimiter=delimiter)
            header = next(reader, [])
            if field not in header:
                found = f"among {pluralize(len(header), 'column')}"
                complaints.add("tables without the column", f"{name}: no column {field!r} {found}; left out.")
                return
            column = header.index(field)
            for row in reader:
                if len(row) > column:
                    yield Document(f"{name}:{reader.line_num}", paragraphs_in(row[column]))
                elif row:
                    where = f"{name}, line {reader.line_num}"
                    complaints.add("rows that are too short", f"{where}: a row that ends before {field!r}; left out.")
    except (csv.Error, UnicodeError) as error:
        where = f"{name}, about line {reader.line_num + 1}" if reader is not None else name
        what = "no UTF-8" if isinstance(error, UnicodeError) else "no CSV"
        complaints.add("tables that break off", f"{where}: {what}; left out from there on.")
    except OSError as error:
        complaints.add("files that cannot be read", f"{name}: cannot be read ({error.strerror}); left out.")
    finally:
        csv.field_size_limit(usual_limit)
