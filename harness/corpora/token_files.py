"""Read token ids that others stored: `.npy` arrays, and files of bare integers as OLMo and Pythia publish them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from harness.core.arrays import Tokens, mapped_array, token_dtype
from harness.core.errors import HarnessError
from harness.core.text import sanitize, shorten
from harness.corpora.token_stream import Piece, Reached

TOKEN_SUFFIXES = (".npy", ".bin")
_NPY_MAGIC = b"\x93NUMPY"
_READ_AT_ONCE = 1 << 22  # tokens


def token_files_among(files: Sequence[Path]) -> list[Path]:
    """Return `files` if they contain tokens, or an empty list if they contain texts.

    Raises HarnessError if there are both.
    """
    found = [file for file in files if file.suffix in TOKEN_SUFFIXES]
    if found and len(found) < len(files):
        other = next(file for file in files if file not in found)
        raise HarnessError(f"{found[0]} contains tokens and {other} does not. Put them in separate directories.")
    return found


def open_tokens(file: Path, vocabulary: int) -> Tokens:
    """Return the tokens in a file, memory-mapped: a sequence with ends of documents, or [documents, tokens].

    A file without the header of `.npy` has unsigned little-endian integers of 2 bytes if the vocabulary fits into them,
    otherwise of 4 bytes. Raises HarnessError if the file holds anything else.
    """
    try:
        with file.open("rb") as opened:
            has_header = opened.read(len(_NPY_MAGIC)) == _NPY_MAGIC
        size = file.stat().st_size
        if not has_header:
            dtype = token_dtype(vocabulary).newbyteorder("<")
            if not size or size % dtype.itemsize:
                raise HarnessError(
                    f"{file} has {size:,} bytes, so it does not contain integers of {dtype.itemsize} bytes. Check "
                    "--tokenizer."
                )
            return np.memmap(file, dtype, "r")
    except OSError as error:
        raise HarnessError(f"cannot read {file}: {error.strerror}.") from None
    array = mapped_array(file)
    if array.ndim not in (1, 2) or not np.issubdtype(array.dtype, np.integer):
        found = shorten(f"{array.dtype} {list(array.shape)}")
        raise HarnessError(f"{file}: expected integers of shape [tokens] or [documents, tokens], found {found}.")
    return array  # type: ignore[return-value]


def pieces_of_tokens(
    files: list[Path], *, vocabulary: int, end_of_text: int | None, reached: Reached
) -> Iterator[Piece]:
    """Yield the documents of token files that follow what is reached.

    A document ends at `end_of_text`, which belongs to none, and at the end of a file or of a row of a two-dimensional
    array. A long document comes in several pieces.
    """
    count = 0
    for file in files:
        name = sanitize(file.name)
        for number, tokens in _documents(open_tokens(file, vocabulary), end_of_text):
            count += 1
            if count > reached.pieces:
                yield Piece(document := f"{name}:{number}", reached.first_of(document), tokens, tokens.nbytes)


def _documents(tokens: Tokens, end_of_text: int | None) -> Iterator[tuple[int, Tokens]]:
    """Yield the number, from 1, and the tokens of each document or part of one."""
    number = 0
    for row in tokens if tokens.ndim == 2 else (tokens,):
        number += 1
        for begin in range(0, len(row), _READ_AT_ONCE):
            part = np.asarray(row[begin : begin + _READ_AT_ONCE])
            ends = [] if end_of_text is None else np.flatnonzero(part == end_of_text).tolist()
            for first, last in zip([0, *(end + 1 for end in ends)], [*ends, len(part)], strict=True):
                number += first > 0
                if first < last:
                    yield number, part[first:last]
