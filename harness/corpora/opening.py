"""Open a corpus as a token stream, from texts or from token files."""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.files import remove_tree, write_atomically
from harness.corpora.documents import documents_in, files_in
from harness.corpora.text_files import Notes, parse_tokenizer, read_text
from harness.corpora.token_files import pieces_of_tokens, token_files_among
from harness.corpora.token_stream import Piece, Reached, TokenStream, build_stream, pieces_of_documents

DEFAULT_END_OF_TEXT = "<|endoftext|>"
_WORK, _NOTES = ".tokens-", "notes.json"


@dataclass(frozen=True)
class Corpus:
    """A corpus on disk, and how it is read.

    tokenizer: a tokenizer.json. text_field: the field or column of records with the text. split: the split of an Arrow
    data set. end_of_text: the token that ends documents in token files.
    """

    path: Path
    tokenizer: Path
    text_field: str = "text"
    split: str | None = None
    end_of_text: str = DEFAULT_END_OF_TEXT


@dataclass(frozen=True)
class OpenedCorpus:
    """The tokens of a corpus, the number of tokens of its tokenizer and its SHA-256, and notes of what was skipped.

    folder: the directory of the token stream, where other intermediate results may be kept.
    """

    folder: Path
    stream: TokenStream
    vocabulary: int
    tokenizer_sha256: str
    notes: list[str]


def open_corpus(corpus: Corpus, folder: Path, on_progress: Callable[[int, int], None]) -> OpenedCorpus:
    """Tokenize a corpus into a directory below `folder`, or continue where an earlier call was interrupted.

    on_progress: called with the size of what was read, and that of all files. Raises HarnessError if the corpus is
    empty or does not fit the tokenizer.
    """
    content = read_text(corpus.tokenizer)
    tokenizer = parse_tokenizer(content, str(corpus.tokenizer))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    vocabulary = tokenizer.get_vocab_size(with_added_tokens=True)
    if not corpus.path.exists():
        raise HarnessError(f"no such file or directory: {corpus.path}.")
    notes = Notes()
    files = list(files_in(corpus.path)) if corpus.path.is_dir() else [corpus.path]
    token_files = token_files_among(files)
    end_of_text = tokenizer.token_to_id(corpus.end_of_text)
    if token_files and end_of_text is None:
        raise HarnessError(
            f"{corpus.tokenizer} has no token {corpus.end_of_text!r}. Name the token that ends documents with "
            "--end-of-text."
        )
    total = sum(file.stat().st_size for file in files)

    def pieces(reached: Reached) -> Iterable[Piece]:
        if token_files:
            return pieces_of_tokens(token_files, vocabulary=vocabulary, end_of_text=end_of_text, reached=reached)
        documents = documents_in(corpus.path, field=corpus.text_field, split=corpus.split, notes=notes)
        return pieces_of_documents(documents, tokenizer, reached)

    sha256 = hashlib.sha256(content.encode()).hexdigest()
    work = folder / f"{_WORK}{_key(corpus, files, sha256)}"
    for other in folder.glob(f"{_WORK}*"):
        if other != work:
            remove_tree(other)
    # The text of records and compressed columns differs from the size of their files.
    stream = build_stream(
        work, pieces, vocabulary=vocabulary, on_progress=lambda read: on_progress(min(read, total), total)
    )
    on_progress(total, total)
    # A call that only continues after the last document reads none, so it would know no notes.
    file = work / _NOTES
    if not file.exists():
        write_atomically(file, json.dumps(notes.sentences))
    sentences = json.loads(file.read_bytes())
    if not stream.token_count:
        raise HarnessError(" ".join([f"{corpus.path} contains no text.", *sentences[:1]]))
    return OpenedCorpus(work, stream, vocabulary, sha256, sentences)


def remove_work(folder: Path) -> None:
    """Delete the token streams below `folder`."""
    for work in folder.glob(f"{_WORK}*"):
        remove_tree(work)


def _key(corpus: Corpus, files: Iterable[Path], tokenizer_sha256: str) -> str:
    """Return a hash of everything that a token stream depends on. Files count by path, size and time."""
    stats = [(str(file), (found := file.stat()).st_size, found.st_mtime_ns) for file in files]
    described = {**asdict(corpus), "tokenizer": tokenizer_sha256, "files": stats}
    return hashlib.sha256(json.dumps(described, default=str).encode()).hexdigest()[:16]
