"""The single argument of a bundle's code: prefixes, as .npy, .npz or .csv."""

import contextlib
import csv
import hashlib
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from tokenize import TokenError

import numpy as np
from numpy.lib.npyio import NpzFile

from harness.core.arrays import Tokens, token_dtype, token_rows
from harness.core.errors import HarnessError
from harness.core.text import shorten

_MAX_ROWS = 1_000_000
_NAMES = ("prefixes", "prefix")
_NUMBER = re.compile(r" *[0-9]{1,19} *")
_FORMS = 'rows of token ids, or `Example ID,Prefix` rows such as `616,"[1, 2, 3]"`'


def read_prefixes(path: Path, *, length: int, vocabulary: int) -> Tokens:
    """The prefixes in the file at `path`, [examples, length]; an example's id is its row.

    An .npz holds an array `prefixes`, or only one; a .csv has rows of token ids, or ids with lists as submissions have
    them. Raises HarnessError, naming the file, when they are not `length` token ids below `vocabulary` each, or none.
    """
    kind = path.suffix.lower()
    if kind == ".npy":
        prefixes = token_rows(path, length=length, vocabulary=vocabulary)
    elif kind == ".npz":
        prefixes = _checked(path, _in_archive(path), length=length, vocabulary=vocabulary)
    elif kind == ".csv":
        prefixes = _checked(path, _in_csv(path, length), length=length, vocabulary=vocabulary)
    else:
        raise HarnessError(f"{path}: prefixes come as .npy, .npz or .csv.")
    if len(prefixes) == 0:
        raise HarnessError(f"{path}: holds no prefix.")
    return prefixes


def tokens_sha256(tokens: Tokens, vocabulary: int) -> str:
    """SHA-256 of token ids [rows, length] as little-endian integers of the vocabulary's width, row after row."""
    narrow = np.ascontiguousarray(tokens, token_dtype(vocabulary).newbyteorder("<"))
    return hashlib.sha256(narrow.tobytes()).hexdigest()


@contextlib.contextmanager
def opened_archive(path: Path) -> Iterator[NpzFile]:
    """The .npz at `path`. What turns out to be no plain array there, now or while it is read, is a HarnessError."""
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, NpzFile):
                raise ValueError
            with archive:
                yield archive
    except FileNotFoundError:
        raise HarnessError(f"{path}: no such file.") from None
    except MemoryError:
        raise HarnessError(f"{path}: holds an array that memory is too small for.") from None
    # What a damaged or a hostile archive makes zipfile, zlib and numpy raise.
    except (OSError, EOFError, ValueError, RuntimeError, SyntaxError, TokenError, struct.error, zlib.error):
        raise HarnessError(f"{path}: not an .npz of plain arrays.") from None
    except zipfile.BadZipFile:
        raise HarnessError(f"{path}: not an .npz of plain arrays.") from None


def archived_array(archive: NpzFile, name: str) -> Tokens:
    """The array `name` of an opened archive. Raises ValueError when something else is called so."""
    array = archive[name]
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name} is no array")
    return array


def _in_archive(path: Path) -> Tokens:
    with opened_archive(path) as archive:
        names = [name for name in _NAMES if name in archive.files] or archive.files
        if len(names) != 1:
            raise HarnessError(f"{path}: holds {len(archive.files)} arrays and none called `prefixes`.")
        return archived_array(archive, names[0])


def _in_csv(path: Path, length: int) -> Tokens:
    rows: dict[int, list[int]] = {}
    line = 0
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for line, fields in enumerate(csv.reader(file), 1):
                if not fields or (line == 1 and all(map(_holds_a_letter, fields))):
                    continue  # a header
                if len(fields) == length:
                    rows[len(rows)] = [_number(field) for field in fields]
                elif len(fields) == 2 and _number(fields[0]) not in rows:
                    rows[_number(fields[0])] = [_number(part) for part in fields[1].strip("[] ").split(",")]
                else:
                    raise ValueError
                if len(rows) > _MAX_ROWS:
                    raise HarnessError(f"{path}: holds more than {_MAX_ROWS:,} prefixes.")
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read ({error.strerror}).") from None
    except (ValueError, csv.Error):
        raise HarnessError(f"{path}, line {line}: not a prefix of {length} token ids; wanted are {_FORMS}.") from None
    if sorted(rows) != list(range(len(rows))):
        raise HarnessError(f"{path}: its ids are not 0 to {len(rows) - 1}, each once.")
    if any(len(row) != length for row in rows.values()):
        raise HarnessError(f"{path}: not every prefix has {length} token ids; wanted are {_FORMS}.")
    try:
        return np.array([rows[id_] for id_ in range(len(rows))], np.int64).reshape(len(rows), length)
    except OverflowError:
        raise HarnessError(f"{path}: holds a number that is no token id.") from None


def _holds_a_letter(field: str) -> bool:
    return any(character.isalpha() for character in field)


def _number(field: str) -> int:
    """Plain digits alone: Python's `int` takes signs, underscores and every script's digits as well."""
    if _NUMBER.fullmatch(field) is None:
        raise ValueError
    return int(field)


def _checked(path: Path, array: Tokens, *, length: int, vocabulary: int) -> Tokens:
    if array.ndim != 2 or not np.issubdtype(array.dtype, np.integer) or array.shape[1] != length:
        found = shorten(f"{array.dtype} {list(array.shape)}")
        raise HarnessError(f"{path}: wanted integers of shape [examples, {length}], found {found}.")
    if array.size and (array.min() < 0 or array.max() >= vocabulary):
        raise HarnessError(f"{path}: holds a token outside 0..{vocabulary - 1}.")
    return array.astype(token_dtype(vocabulary))
