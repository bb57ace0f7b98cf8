"""Reading token arrays from files that nobody vouches for."""

from pathlib import Path
from tokenize import TokenError

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import HarnessError

Tokens = NDArray[np.integer]
"""Token ids; the last axis is the position."""
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def token_dtype(vocabulary: int) -> np.dtype[np.unsignedinteger]:
    """The narrowest unsigned type that tokens of a vocabulary of this size travel and rest in."""
    return np.dtype(np.uint16 if vocabulary <= 1 << 16 else np.uint32)


def mapped_array(path: Path) -> NDArray[np.generic]:
    """The .npy array at `path`, memory-mapped and never unpickled.

    Raises HarnessError when the file is absent or is no plain array.
    """
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise HarnessError(f"{path}: no such file.") from None
    except OSError as error:
        raise HarnessError(f"{path}: cannot be read ({error.strerror or 'cut short'}).") from None
    except (ValueError, EOFError, SyntaxError, RecursionError, TokenError):
        raise HarnessError(f"{path}: not a plain .npy array of numbers.") from None
    if not isinstance(array, np.ndarray):
        raise HarnessError(f"{path}: an archive of arrays where one .npy array is wanted.")
    return array


def token_rows(path: Path, *, length: int | None, vocabulary: int, rows: tuple[int, int] | None = None) -> Tokens:
    """Rows `rows[0]:rows[1]` (all, if None) of a [rows, length] token file, copied as the vocabulary's dtype.

    Raises HarnessError, naming the file, when shape, dtype, range or tokens do not fit.
    """
    array = mapped_array(path)
    if array.ndim != 2 or not np.issubdtype(array.dtype, np.integer):
        raise HarnessError(f"{path}: wanted integers of shape [rows, tokens], found {array.dtype} {list(array.shape)}.")
    if length is not None and array.shape[1] != length:
        raise HarnessError(f"{path}: rows of {array.shape[1]} tokens where the round has {length}.")
    first, last = rows if rows is not None else (0, len(array))
    if last > len(array):
        raise HarnessError(f"{path}: rows {first} to {last} are wanted and the file has {len(array)}.")
    part = np.asarray(array[first:last])
    if part.size and (part.min() < 0 or part.max() >= vocabulary):
        row = int(np.argmax(((part < 0) | (part >= vocabulary)).any(axis=1))) + first
        raise HarnessError(f"{path}: row {row} holds a token outside 0..{vocabulary - 1}.")
    return part.astype(token_dtype(vocabulary))


def place_among_equals(values: Ints) -> Ints:
    """Return how many equal values come before each value, [values] int64."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    place = np.empty(len(values), np.int64)
    place[order] = np.arange(len(values)) - np.searchsorted(ordered, ordered)
    return place
