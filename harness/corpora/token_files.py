"""Files of token ids, as OLMo and Pythia publish them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from harness.core.arrays import Tokens, mapped_array, token_dtype
from harness.core.errors import HarnessError
from harness.core.files import read_start
from harness.core.text import shorten
from harness.corpora.token_stream import Piece, StreamState

TOKEN_SUFFIXES = (".npy", ".bin")
_NPY_MAGIC = b"\x93NUMPY"
_READ_AT_ONCE = 1 << 22  # tokens


def token_files_among(files: Sequence[Path]) -> list[Path]:
    """Return the files of token ids among `files`, by their names."""
    return [file for file in files if file.suffix.lower() in TOKEN_SUFFIXES]


def open_tokens(file: Path, vocabulary: int) -> Tokens:
    """Return the tokens in a file, memory-mapped: a sequence with ends of documents, or [documents, tokens].

    A file without the header of `.npy` has unsigned little-endian integers of 2 bytes if the vocabulary fits into them,
    otherwise of 4 bytes. Raises HarnessError if the file holds anything else.
    """
    try:
        if read_start(file, len(_NPY_MAGIC)) != _NPY_MAGIC:
            size, dtype = file.stat().st_size, token_dtype(vocabulary).newbyteorder("<")
            if not size:
                raise HarnessError(f"{file} is empty. Remove it, or name another corpus.")
            if size % dtype.itemsize:
                raise HarnessError(
                    f"{file} has {size:,} bytes, so it does not contain integers of {dtype.itemsize} bytes. Check "
                    "--tokenizer."
                )
            return np.memmap(file, dtype, "r")
    except OSError as error:
        raise HarnessError(f"cannot read {file}: {error.strerror}.") from None
    array = mapped_array(file)
    if array.ndim not in (1, 2) or not np.issubdtype(array.dtype, np.integer):
        shape = shorten(f"{array.dtype} {list(array.shape)}")
        raise HarnessError(f"{file}: expected integers of shape [tokens] or [documents, tokens], found {shape}.")
    return array  # type: ignore[return-value]


def pieces_of_tokens(
    files: Sequence[tuple[str, Path]], *, vocabulary: int, end_of_text: int, state: StreamState
) -> Iterator[Piece]:
    """Yield the documents of token files that follow those of `state`. files: their names and paths.

    A document ends at `end_of_text`, which belongs to none, and at the end of a file or of a row of a two-dimensional
    array. A long document comes in several pieces. Raises HarnessError as `open_tokens` does.
    """
    count = 0
    for name, file in files:
        before = 0
        for number, tokens in _documents(open_tokens(file, vocabulary), end_of_text):
            count += 1
            if count > state.pieces:
                yield Piece(f"{name}:{number}", tokens, tokens.nbytes, is_new=number != before)
            before = number


def _documents(tokens: Tokens, end_of_text: int) -> Iterator[tuple[int, Tokens]]:
    """Yield the number, from 1, and the tokens of each document or part of one. Empty documents are left out."""
    number = 0
    for row in tokens if tokens.ndim == 2 else (tokens,):
        number += 1
        for begin in range(0, len(row), _READ_AT_ONCE):
            part = np.asarray(row[begin : begin + _READ_AT_ONCE])
            ends = np.flatnonzero(part == end_of_text).tolist()
            for first, last in zip([0, *(end + 1 for end in ends)], [*ends, len(part)], strict=True):
                number += first > 0
                if first < last:
                    yield number, part[first:last]
