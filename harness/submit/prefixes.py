"""Read the prefixes that a bundle's code attacks, from .npy, .npz or .csv."""

import csv
import re
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from tokenize import TokenError

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from harness.core.arrays import Tokens, check_tokens, mapped_array
from harness.core.errors import HarnessError

_ARRAY_NAMES = ("prefixes", "prefix")
# What zipfile, zlib and numpy raise for a damaged archive.
_ARCHIVE_ERRORS = (
    *(OSError, EOFError, ValueError, RuntimeError, SyntaxError),
    *(TokenError, struct.error, zlib.error, zipfile.BadZipFile),
)
_NUMBER = re.compile(r" *[0-9]{1,18} *")
_CSV_FORMS = 'Expected rows of token ids, or `Example ID,Prefix` rows such as `616,"[1, 2, 3]"`.'


def read_prefixes(path: Path, *, length: int, vocabulary: int) -> Tokens:
    """Read prefixes [examples, length]. An example's id is its row.

    A .npz contains an array `prefixes`, or a single array. A .csv contains rows of token ids, or ids with lists as in a
    submission. Raises HarnessError if there is no prefix, or one is not `length` token ids below `vocabulary`.
    """
    match path.suffix.lower():
        case ".npy":
            array = mapped_array(path)
        case ".npz":
            array = _read_npz(path)
        case ".csv":
            array = _read_csv(path, length)
        case _:
            raise HarnessError(f"{path}: prefixes must be a .npy, .npz or .csv file.")
    prefixes = check_tokens(array, path, length=length, vocabulary=vocabulary)
    if len(prefixes) == 0:
        raise HarnessError(f"{path}: contains no prefixes.")
    return prefixes


def read_archive(path: Path, wanted: Sequence[str]) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of a .npz that are `wanted`, by name, or all if it contains none of these.

    Raises HarnessError if the file is not a .npz, or a returned entry is not a plain array: the file may be hostile.
    """
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            names = archive.files if isinstance(archive, NpzFile) else []
            arrays = {name: archive[name] for name in [name for name in wanted if name in names] or names}
    except FileNotFoundError:
        raise HarnessError(f"{path}: no such file.") from None
    except MemoryError:
        raise HarnessError(f"{path}: contains an array that does not fit into memory.") from None
    except _ARCHIVE_ERRORS:
        arrays = {}
    if not arrays or not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise HarnessError(f"{path}: not a .npz file of plain arrays.")
    return arrays


def _read_npz(path: Path) -> NDArray[np.generic]:
    arrays = read_archive(path, _ARRAY_NAMES)
    if len(arrays) != 1:
        raise HarnessError(f"{path}: contains {len(arrays)} arrays, none of them named `prefixes`.")
    return next(iter(arrays.values()))


def _read_csv(path: Path, length: int) -> Tokens:
    rows: dict[int, list[int]] = {}
    line = 0
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for line, fields in enumerate(csv.reader(file), 1):
                if not fields or (line == 1 and all(any(map(str.isalpha, field)) for field in fields)):
                    continue  # An empty line or the header.
                if len(fields) == length:
                    id_, cells = len(rows), fields
                elif len(fields) == 2:
                    id_, cells = _number(fields[0]), fields[1].strip("[] ").split(",")
                else:
                    raise ValueError
                if id_ in rows or len(cells) != length:
                    raise ValueError
                rows[id_] = [_number(cell) for cell in cells]
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read ({error.strerror}).") from None
    except (ValueError, csv.Error):
        raise HarnessError(f"{path}, line {line}: not a prefix of {length} token ids. {_CSV_FORMS}") from None
    if sorted(rows) != list(range(len(rows))):
        raise HarnessError(f"{path}: the example ids must be 0 to {len(rows) - 1}, each once.")
    return np.array([rows[id_] for id_ in range(len(rows))], np.int64).reshape(len(rows), length)


def _number(field: str) -> int:
    """Parse ASCII digits only. `int` would also accept signs, underscores and the digits of other scripts."""
    if _NUMBER.fullmatch(field) is None:
        raise ValueError
    return int(field)
