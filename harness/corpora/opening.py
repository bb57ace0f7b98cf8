"""Open a corpus as a token stream, from texts or from stored token ids, as OLMo and Pythia publish them."""

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from harness.core.arrays import Tokens, mapped_array, token_dtype
from harness.core.errors import HarnessError
from harness.core.files import file_sha256, file_version, read_start, remove_tree, try_lock, write_atomically
from harness.core.inputs import require_file
from harness.core.text import sanitize, shorten
from harness.core.tokenizers import load_tokenizer
from harness.corpora.documents import documents_in, visible_files
from harness.corpora.text_files import Notes
from harness.corpora.token_stream import Piece, StreamState, TokenStream, build_stream, pieces_of_documents

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
        has_header = read_start(file, len(_NPY_MAGIC)) == _NPY_MAGIC
        size = file.stat().st_size
        if not has_header:
            dtype = token_dtype(vocabulary).newbyteorder("<")
            if not size:
                raise HarnessError(f"{file} is empty.")
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


_WORK, _NOTES, _LOCK = ".tokens-", "notes.json", ".tokens.lock"
_FORMAT = 1
"""Version of the files of a token stream. Those of another version are not continued."""


@dataclass(frozen=True)
class Corpus:
    """A corpus on disk, and how it is read.

    tokenizer: a tokenizer.json.
    text_field: the field or column of records with the text.
    split: the split of an Arrow data set.
    end_of_text: the token that ends documents, in token files and inside texts.
    keeps_line_ends: do not turn CR LF and CR into LF.
    """

    path: Path
    tokenizer: Path
    text_field: str | None
    split: str | None
    end_of_text: str
    keeps_line_ends: bool = False


@dataclass(frozen=True)
class OpenedCorpus:
    """The tokens of a corpus.

    folder: the directory of the token stream, where other intermediate results may be kept.
    vocabulary: the number of ids of the tokenizer, whose file has the SHA-256 `tokenizer_sha256`.
    notes: what was skipped.
    """

    folder: Path
    stream: TokenStream
    vocabulary: int
    tokenizer_sha256: str
    notes: list[str]


def open_corpus(corpus: Corpus, folder: Path, on_progress: Callable[[int, int], None]) -> OpenedCorpus:
    """Tokenize a corpus into a directory below `folder`, or continue where an earlier call was interrupted.

    on_progress: called with the size of what was read, and that of all files. Raises HarnessError if the corpus or its
    tokenizer cannot be read, the corpus is empty, changes while it is read or does not fit the tokenizer. Raises
    OSError if `folder` cannot be written.
    """
    # Inside texts, too, the end-of-text token ends a document.
    tokenizer = load_tokenizer(corpus.tokenizer, reads_special_tokens=True)
    vocabulary = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0) + 1
    files = _files(corpus.path)
    token_files = token_files_among(files)
    end_of_text = tokenizer.token_to_id(corpus.end_of_text)
    if token_files and end_of_text is None:
        raise HarnessError(
            f"{corpus.tokenizer} has no token {corpus.end_of_text!r}. Name the token that ends documents with "
            "--end-of-text."
        )
    total = sum(file.stat().st_size for file in token_files or files)
    sha256 = file_sha256(corpus.tokenizer)
    key = _key(corpus, files, sha256)
    work = folder / f"{_WORK}{key}"
    for directory in folder.glob(f"{_WORK}*"):
        if directory != work:
            remove_tree(directory)

    def pieces(state: StreamState) -> Iterator[Piece]:
        notes = Notes()
        if token_files and end_of_text is not None:
            named = [(_name(file, corpus.path), file) for file in token_files]
            for file in files:
                if file not in token_files:
                    notes.add(
                        "files that are not .npy or .bin", f"Skipped {_name(file, corpus.path)}: it has no tokens."
                    )
            yield from pieces_of_tokens(named, vocabulary=vocabulary, end_of_text=end_of_text, state=state)
        else:
            documents = documents_in(
                corpus.path,
                field=corpus.text_field,
                split=corpus.split,
                notes=notes,
                keeps_line_ends=corpus.keeps_line_ends,
            )
            encode = partial(tokenizer.encode_batch, add_special_tokens=False, has_offsets=False)
            yield from pieces_of_documents(documents, encode, state)
        # A call that continues after the last document reads none, so it would know no notes.
        write_atomically(work / _NOTES, json.dumps(notes.sentences))

    stream = build_stream(
        work,
        pieces,
        vocabulary=vocabulary,
        end_of_text=end_of_text,
        # The text of records and compressed columns differs from the size of their files.
        on_progress=lambda read: on_progress(min(read, total), total),
    )
    on_progress(total, total)
    if _key(corpus, _files(corpus.path), sha256) != key:
        raise HarnessError(f"{corpus.path} changed while it was read. Run the command again.")
    notes = json.loads((work / _NOTES).read_bytes())
    if not stream.token_count:
        raise HarnessError(" ".join([f"{corpus.path} contains no text.", *notes[:1]]))
    return OpenedCorpus(work, stream, vocabulary, sha256, notes)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock on a directory in which a round is made. Raises HarnessError if another process holds it."""
    if (lock := try_lock(folder / _LOCK)) is None:
        raise HarnessError(f"another command makes a round in {folder}. Wait for it, or choose another directory.")
    with lock:
        yield


def is_interrupted(folder: Path) -> bool:
    """Return whether a command that made a round in `folder` has not ended."""
    return any(folder.glob(f"{_WORK}*"))


def remove_work(folder: Path) -> None:
    """Delete the token streams below `folder`."""
    for work in folder.glob(f"{_WORK}*"):
        remove_tree(work)
    (folder / _LOCK).unlink(missing_ok=True)


def _files(path: Path) -> list[Path]:
    """Return the files of a corpus."""
    if path.is_dir():
        return list(visible_files(path))
    require_file(path, or_folder=True)
    return [path]


def _name(file: Path, corpus: Path) -> str:
    return sanitize(file.name if file == corpus else str(file.relative_to(corpus)))


def _key(corpus: Corpus, files: list[Path], tokenizer_sha256: str) -> str:
    """Return a hash of everything that a token stream depends on. Files count by path and `file_version`."""
    versions = [(str(file), file_version(file)) for file in files]
    described = {**asdict(corpus), "tokenizer": tokenizer_sha256, "files": versions, "format": _FORMAT}
    return hashlib.sha256(json.dumps(described, default=str).encode()).hexdigest()[:16]
