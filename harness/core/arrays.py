"""Array types, and functions that read token arrays from untrusted files."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import HarnessError, missing_path
from harness.core.files import require_content
from harness.core.text import shorten

Tokens = NDArray[np.integer]
"""Token ids; the last axis is the position."""
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Bools = NDArray[np.bool_]


def token_dtype(vocabulary: int) -> np.dtype[np.unsignedinteger]:
    """Return the narrowest unsigned type that holds the tokens of a vocabulary of this size."""
    return np.dtype(np.uint16 if vocabulary <= 1 << 16 else np.uint32)


def is_storable_dtype(dtype: np.dtype[Any]) -> bool:
    """Return True if the bytes of an array and the text of its dtype say everything about it.

    That is so for numbers, booleans, texts of a fixed length, times and raw bytes. It is not for Python objects and
    records with named fields.
    """
    return dtype.kind in "biufcmMSUV" and dtype.names is None and dtype.subdtype is None and dtype.itemsize > 0


def mapped_array(path: Path) -> NDArray[np.generic]:
    """Return the .npy array at `path`, memory-mapped and never unpickled.

    Raises HarnessError if the file is absent or is not a plain array.
    """
    if path.exists() and not path.is_file():
        raise HarnessError(f"{path}: not a regular file. Name a file.")  # opening a named pipe would wait forever
    require_content(path)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        advice = "Check the path, or see `harness data status` for the files of a round."
        raise missing_path(path, advice=advice) from None
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read ({error.strerror or 'cut short; copy it again'}).") from None
    except (ValueError, EOFError, SyntaxError, RecursionError, OverflowError, TokenError):
        raise HarnessError(f"{path}: not a plain .npy array of numbers. Save it with numpy.save().") from None
    if not isinstance(array, np.ndarray):
        raise HarnessError(f"{path}: an archive of arrays. Expected one .npy array.")
    return array


def token_rows(
    path: Path,
    *,
    length: int | None,
    vocabulary: int,
    rows: tuple[int, int] | None = None,
    array: NDArray[np.generic] | None = None,
) -> Tokens:
    """Return rows `rows[0]:rows[1]` (None: all) of a [rows, length] token file, copied as the vocabulary's dtype.

    array: the array that was read from `path`; None to read it. Raises HarnessError, naming the file, if its shape,
    dtype or tokens do not fit, or it has too few rows.
    """
    array = mapped_array(path) if array is None else array
    if array.ndim != 2 or not np.issubdtype(array.dtype, np.integer):
        description = shorten(f"{array.dtype} {list(array.shape)}")
        raise HarnessError(f"{path}: expected integers of shape [rows, tokens], found {description}.")
    if length is not None and array.shape[1] != length:
        raise HarnessError(f"{path}: expected rows of {length} tokens, as in the round, found {array.shape[1]}.")
    first, last = rows if rows is not None else (0, len(array))
    if last > len(array):
        raise HarnessError(f"{path} has {len(array)} rows, and the round uses {first} to {last}. Correct that range.")
    part = np.asarray(array[first:last])
    if part.size and (part.min() < 0 or part.max() >= vocabulary):
        row = int(np.argmax(((part < 0) | (part >= vocabulary)).any(axis=1))) + first
        raise HarnessError(f"{path}: row {row} contains a token outside 0..{vocabulary - 1}.")
    return part.astype(token_dtype(vocabulary))


def tokens_sha256(tokens: Tokens, vocabulary: int) -> str:
    """Return the SHA-256 of token ids of any shape, as little-endian integers of the vocabulary's width."""
    narrow = np.ascontiguousarray(tokens, token_dtype(vocabulary).newbyteorder("<"))
    return hashlib.sha256(narrow.tobytes()).hexdigest()


def padded(sequences: Sequence[Sequence[int] | Ints], value: int = 0) -> Ints:
    """Return the sequences as rows of equal length, [sequences, longest], whose ends are filled with `value`."""
    rows = np.full((len(sequences), max(map(len, sequences), default=0)), value, np.int64)
    for row, sequence in zip(rows, sequences, strict=True):
        row[: len(sequence)] = sequence
    return rows


def place_among_equals(values: Ints) -> Ints:
    """Return how many equal values come before each value, [values] int64."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    place = np.empty(len(values), np.int64)
    place[order] = np.arange(len(values)) - np.searchsorted(ordered, ordered)
    return place


def mix_bits(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return hashes of the numbers, each of whose bits depends on all bits of its number.

    The finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
    """
    mixed = state.copy()
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return mixed
