"""The tokens of a whole corpus in one file, with a separator after each document that is no token.

The stream is written piece by piece and committed after every batch, so an interrupted build continues where it was.
It is read as a memory map.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness.core.arrays import Ints, Tokens, token_dtype
from harness.core.errors import HarnessError
from harness.core.files import write_atomically
from harness.corpora.documents import Document

if TYPE_CHECKING:
    from tokenizers import Tokenizer

LONGEST_PIECE = 1 << 20
"""Characters after which a document is cut at the end of a line, because a tokenizer needs it in memory."""
_BATCH = 1 << 20  # characters that are tokenized at once, and tokens between two commits
_TOKENS, _PIECES, _NAMES, _STATE = "tokens.bin", "pieces.bin", "names.txt", "state.json"


@dataclass(frozen=True)
class Piece:
    """Consecutive tokens of a document.

    first: the place of the first token in the document; 0 begins a document. size: what was read for it, in characters
    of text or bytes of a token file.
    """

    document: str
    first: int
    tokens: Tokens
    size: int


@dataclass
class Reached:
    """How far a stream is written.

    pieces, documents, tokens (separators included) and bytes of names that it has; what was read for them; the last
    document, and its tokens so far.
    """

    pieces: int = 0
    documents: int = 0
    read: int = 0
    tokens: int = 0
    name_bytes: int = 0
    document: str = ""
    of_document: int = 0
    is_complete: bool = False

    def first_of(self, document: str) -> int:
        """Return the place in `document` of the next token."""
        return self.of_document if self.pieces and self.document == document else 0


@dataclass(frozen=True)
class TokenStream:
    """The tokens of a corpus.

    tokens: [tokens] memory-mapped, of a type that also holds the separator. It ends with a separator. starts: [pieces],
    where each piece begins in `tokens`. firsts: [pieces], the place of its first token in its document. documents:
    their number.
    """

    tokens: Tokens
    starts: Ints
    firsts: Ints
    separator: int
    names: Path
    documents: int

    @property
    def token_count(self) -> int:
        """The number of tokens without separators."""
        return len(self.tokens) - max(1, self.documents)

    def rows(self, positions: Ints, length: int) -> Tokens:
        """Return `length` tokens from each position, [positions, length]; behind its document are separators."""
        places = np.minimum(positions[:, None] + np.arange(length), len(self.tokens) - 1)
        found: Tokens = self.tokens[places]
        found[np.logical_or.accumulate(found == self.separator, axis=1)] = self.separator
        return found

    def pointers(self, positions: Ints) -> list[tuple[str, int]]:
        """Return the name of the document at each position, and the place of that token in the document."""
        piece = np.searchsorted(self.starts, positions, side="right") - 1
        offsets = positions - self.starts[piece] + self.firsts[piece]
        wanted, names = set(piece.tolist()), {}
        with self.names.open(encoding="utf-8") as file:
            for number, line in enumerate(file):
                if number in wanted:
                    names[number] = line.rstrip("\n")
        return [(names[number], offset) for number, offset in zip(piece.tolist(), offsets.tolist(), strict=True)]


def build_stream(
    folder: Path, pieces: Callable[[Reached], Iterable[Piece]], *, vocabulary: int, on_progress: Callable[[int], None]
) -> TokenStream:
    """Write the pieces of a corpus to `folder` and return the stream. What an interrupted call wrote is kept.

    pieces: returns the pieces that follow what is reached. It is read again as pieces are written. on_progress: called
    with the size of what was read so far. Raises HarnessError if a token is not in the vocabulary.
    """
    folder.mkdir(parents=True, exist_ok=True)
    reached = _reached(folder)
    if not reached.is_complete:
        with _Writer(folder, reached, vocabulary) as writer:
            for piece in pieces(reached):
                writer.add(piece)
                on_progress(reached.read)
            writer.finish()
    table = np.fromfile(folder / _PIECES, np.int64).reshape(-1, 2)
    dtype, shape = _dtype(vocabulary), (reached.tokens,)
    tokens = np.memmap(folder / _TOKENS, dtype, "r", shape=shape)
    return TokenStream(tokens, table[:, 0], table[:, 1], vocabulary, folder / _NAMES, reached.documents)


def _reached(folder: Path) -> Reached:
    file = folder / _STATE
    return Reached(**json.loads(file.read_bytes())) if file.exists() else Reached()


def _dtype(vocabulary: int) -> np.dtype[np.unsignedinteger]:
    """Return the type of a stream, which holds all tokens and the separator."""
    return token_dtype(vocabulary + 1)


class _Writer:
    """Appends pieces to the files of a stream. What follows the last commit is dropped when they are opened again."""

    def __init__(self, folder: Path, reached: Reached, vocabulary: int) -> None:
        self._folder, self._reached, self._vocabulary = folder, reached, vocabulary
        self._uncommitted = 0
        self._files = {name: (folder / name).open("ab") for name in (_TOKENS, _PIECES, _NAMES)}
        self._files[_TOKENS].truncate(reached.tokens * _dtype(vocabulary).itemsize)
        self._files[_PIECES].truncate(reached.pieces * 16)
        self._files[_NAMES].truncate(reached.name_bytes)

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def add(self, piece: Piece) -> None:
        """Append a piece. A separator comes before it unless it continues a document."""
        tokens, reached = piece.tokens, self._reached
        if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < self._vocabulary:
            raise HarnessError(
                f"{piece.document} contains a token outside 0..{self._vocabulary - 1}. Choose the tokenizer of the "
                "corpus with --tokenizer."
            )
        if piece.first == 0 and reached.pieces:
            self._separate()
        name = f"{piece.document}\n".encode()
        self._files[_TOKENS].write(tokens.astype(_dtype(self._vocabulary)).tobytes())
        self._files[_PIECES].write(np.array([reached.tokens, piece.first], np.int64).tobytes())
        self._files[_NAMES].write(name)
        reached.of_document = piece.first + len(tokens)
        reached.document = piece.document
        reached.tokens += len(tokens)
        reached.pieces += 1
        reached.documents += piece.first == 0
        reached.read += piece.size
        reached.name_bytes += len(name)
        self._uncommitted += len(tokens)
        if self._uncommitted >= _BATCH:
            self.commit()

    def _separate(self) -> None:
        self._files[_TOKENS].write(np.array(self._vocabulary, _dtype(self._vocabulary)).tobytes())
        self._reached.tokens += 1

    def finish(self) -> None:
        """End the last document, and the stream."""
        self._separate()
        self._reached.is_complete = True
        self.commit()

    def commit(self) -> None:
        """Make everything that was added durable."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        write_atomically(self._folder / _STATE, json.dumps(asdict(self._reached)))
        self._uncommitted = 0


def pieces_of_documents(documents: Iterable[Document], tokenizer: "Tokenizer", reached: Reached) -> Iterator[Piece]:
    """Yield the tokens of `documents` that follow what is reached.

    A long document is cut at ends of lines into pieces of about a million characters, which are tokenized one by one.
    At a cut the tokens may differ from those of the whole document.
    """
    for batch in _batches(islice(_texts(documents), reached.pieces, None)):
        encodings = tokenizer.encode_batch_fast([text for _, text in batch], add_special_tokens=False)
        for (name, text), encoding in zip(batch, encodings, strict=True):
            yield Piece(name, reached.first_of(name), np.array(encoding.ids, np.int64), len(text))


def _texts(documents: Iterable[Document]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each piece."""
    for document in documents:
        lines: list[str] = []
        size = 0
        for line in document.lines:
            lines.append(line)
            size += len(line)
            if size >= LONGEST_PIECE:
                yield document.name, "".join(lines)
                lines, size = [], 0
        if lines:
            yield document.name, "".join(lines)


def _batches(texts: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    batch: list[tuple[str, str]] = []
    size = 0
    for name, text in texts:
        batch.append((name, text))
        size += len(text)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
