"""Open a corpus as a token stream, from texts or from stored token ids, as OLMo and Pythia publish them."""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from harness.core.errors import HarnessError
from harness.core.files import file_sha256, file_version, remove_tree, try_lock, write_atomically
from harness.core.inputs import require_file
from harness.core.text import sanitize
from harness.core.tokenizers import load_tokenizer
from harness.corpora.documents import documents_in, visible_files
from harness.corpora.text_files import Notes
from harness.corpora.token_files import pieces_of_tokens, token_files_among
from harness.corpora.token_stream import Piece, StreamState, TokenStream, build_stream, pieces_of_documents

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


class OpenedCorpus(NamedTuple):
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
            named_files = [(_name(file, corpus.path), file) for file in token_files]
            for name in (_name(file, corpus.path) for file in files if file not in token_files):
                notes.add("files that are not .npy or .bin", f"Skipped {name}: it has no tokens.")
            yield from pieces_of_tokens(named_files, vocabulary=vocabulary, end_of_text=end_of_text, state=state)
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
        on_progress=lambda size: on_progress(min(size, total), total),
    )
    on_progress(total, total)
    if _key(corpus, _files(corpus.path), sha256) != key:
        raise HarnessError(f"{corpus.path} changed while it was read. Run the command again.")
    notes = json.loads((work / _NOTES).read_bytes())
    if not stream.token_count:
        why = notes[0] if notes else "It is empty. Name a file or directory with text."
        raise HarnessError(f"{corpus.path} contains no text. {why}")
    return OpenedCorpus(work, stream, vocabulary, sha256, notes)


def hold_lock(folder: Path) -> IO[bytes]:
    """Lock a directory in which a round is made, until the returned file is closed.

    Raises HarnessError if another process holds the lock.
    """
    if (lock := try_lock(folder / _LOCK)) is None:
        raise HarnessError(f"another command makes a round in {folder}. Wait for it, or choose another directory.")
    return lock


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
