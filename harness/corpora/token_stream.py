"""The tokens of a whole corpus in one file, with a separator after each document.

The separator is an id that no token has. The stream is written piece by piece and committed now and then, so an
interrupted build continues where it was. It is read as a memory map.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from harness.core.arrays import Ints, Tokens, token_dtype
from harness.core.errors import HarnessError
from harness.core.files import file_sha256, write_atomically
from harness.corpora.documents import Document

if TYPE_CHECKING:
    from tokenizers import Encoding

MAX_PIECE = 1 << 20
"""Characters after which a document is cut, because a tokenizer needs a text in memory."""
_BATCH = 1 << 20  # characters that are tokenized at once, and tokens between two commits
_GATHERED = 1 << 22  # tokens
Item = TypeVar("Item")
_TOKENS, _PIECES, _NAMES, _STATE = "tokens.bin", "pieces.bin", "names.txt", "state.json"


class Piece(NamedTuple):
    """Consecutive tokens of a document.

    is_new: whether the document begins here; otherwise the piece continues that of the piece before.
    size: what was read for it, in characters of text or bytes of a token file.
    """

    document: str
    tokens: Tokens
    size: int
    is_new: bool = True


@dataclass
class StreamState:
    """The part of a stream that is written.

    pieces, documents, tokens (with separators) and bytes of names in the files; what was read for them; the tokens of
    the last document so far.
    """

    pieces: int = 0
    documents: int = 0
    tokens: int = 0
    name_bytes: int = 0
    read: int = 0
    of_document: int = 0
    is_complete: bool = False


class TokenStream(NamedTuple):
    """The tokens of a corpus.

    tokens: [tokens] memory-mapped, of a type that also holds the separator. It ends with a separator.
    starts: [pieces], where each piece begins in `tokens`.
    offsets: [pieces], the place of its first token in its document.
    documents: their number.
    """

    tokens: Tokens
    starts: Ints
    offsets: Ints
    separator: int
    folder: Path
    documents: int

    @property
    def token_count(self) -> int:
        """The number of tokens without separators."""
        return len(self.tokens) - max(1, self.documents)

    def sha256(self) -> str:
        """Return the SHA-256 of the tokens with their separators, as little-endian integers."""
        return file_sha256(self.folder / _TOKENS)

    def rows(self, positions: Ints, length: int) -> Tokens:
        """Return `length` tokens from each position, [positions, length]. After the document come separators."""
        places = np.minimum(positions[:, None] + np.arange(length), len(self.tokens) - 1)
        sequences: Tokens = self.tokens[places]
        sequences[np.logical_or.accumulate(sequences == self.separator, axis=1)] = self.separator
        return sequences

    def pointers(self, positions: Ints) -> list[tuple[str, int]]:
        """Return the name of the document at each position, and the place of that token in the document."""
        piece = np.searchsorted(self.starts, positions, side="right") - 1
        places = positions - self.starts[piece] + self.offsets[piece]
        numbers, names = set(piece.tolist()), {}
        with (self.folder / _NAMES).open(encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file):
                if number in numbers:
                    names[number] = line.removesuffix("\n")
        return [(names[number], place) for number, place in zip(piece.tolist(), places.tolist(), strict=True)]


def blocks(count: int, length: int) -> Iterator[slice]:
    """Yield slices of `count` rows, so that the rows of one slice have about four million tokens of `length` each."""
    step = max(1, _GATHERED // max(1, length))
    yield from (slice(first, first + step) for first in range(0, count, step))


def build_stream(
    folder: Path,
    pieces: Callable[[StreamState], Iterable[Piece]],
    *,
    vocabulary: int,
    end_of_text: int | None,
    on_progress: Callable[[int], None],
) -> TokenStream:
    """Write the pieces of a corpus to `folder` and return the stream. What an interrupted call wrote is kept.

    pieces: returns the pieces that follow those of a state.
    end_of_text: the token that ends a document inside a text, which becomes a separator.
    on_progress: called with the size of what was read so far.
    Raises HarnessError if a token is not in the vocabulary, OSError if the files cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / _STATE
    state = StreamState(**json.loads(file.read_bytes())) if file.exists() else StreamState()
    if not state.is_complete:
        with closing(_Writer(folder, state, vocabulary, end_of_text)) as writer:
            for piece in pieces(state):
                writer.add(piece)
                on_progress(state.read)
            writer.finish()
    table = np.fromfile(folder / _PIECES, np.int64).reshape(-1, 2)
    tokens = np.memmap(folder / _TOKENS, _dtype(vocabulary), "r", shape=(state.tokens,))
    return TokenStream(tokens, table[:, 0], table[:, 1], vocabulary, folder, state.documents)


def _dtype(vocabulary: int) -> np.dtype[np.unsignedinteger]:
    """Return the type of a stream, which holds all tokens and the separator."""
    return token_dtype(vocabulary + 1)


class _Writer:
    """Appends pieces to the files of a stream. What follows the last commit is dropped when they are opened again."""

    def __init__(self, folder: Path, state: StreamState, vocabulary: int, end_of_text: int | None) -> None:
        self._folder, self._state, self._vocabulary, self._end_of_text = folder, state, vocabulary, end_of_text
        self._uncommitted = 0
        self._files = {name: (folder / name).open("ab") for name in (_TOKENS, _PIECES, _NAMES)}
        self._files[_TOKENS].truncate(state.tokens * _dtype(vocabulary).itemsize)
        self._files[_PIECES].truncate(state.pieces * 16)
        self._files[_NAMES].truncate(state.name_bytes)

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def add(self, piece: Piece) -> None:
        """Append a piece. A separator comes before a document, unless it is the first."""
        tokens, state = piece.tokens, self._state
        if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < self._vocabulary:
            raise HarnessError(
                f"{piece.document} contains a token outside 0..{self._vocabulary - 1}. Choose the tokenizer of the "
                "corpus with --tokenizer."
            )
        if piece.is_new:
            if state.pieces:
                self._separate()
            state.documents += 1
            state.of_document = 0
        written = tokens.astype(_dtype(self._vocabulary))
        if self._end_of_text is not None:
            written[written == self._end_of_text] = self._vocabulary
        name = f"{piece.document}\n".encode("utf-8", "replace")
        self._files[_TOKENS].write(written.tobytes())
        self._files[_PIECES].write(np.array([state.tokens, state.of_document], np.int64).tobytes())
        self._files[_NAMES].write(name)
        state.of_document += len(tokens)
        state.tokens += len(tokens)
        state.pieces += 1
        state.read += piece.size
        state.name_bytes += len(name)
        self._uncommitted += len(tokens)
        if self._uncommitted >= _BATCH:
            self.commit()

    def _separate(self) -> None:
        self._files[_TOKENS].write(np.array(self._vocabulary, _dtype(self._vocabulary)).tobytes())
        self._state.tokens += 1

    def finish(self) -> None:
        """End the last document, and the stream."""
        self._separate()
        self._state.is_complete = True
        self.commit()

    def commit(self) -> None:
        """Make everything that was added durable."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        write_atomically(self._folder / _STATE, json.dumps(asdict(self._state)))
        self._uncommitted = 0


def pieces_of_documents(
    documents: Iterable[Document], encode: Callable[[Sequence[str]], Iterable["Encoding"]], state: StreamState
) -> Iterator[Piece]:
    """Yield the tokens of `documents` that follow those of `state`. encode: returns the tokens of each text.

    A long document is cut at ends of lines into pieces of about a million characters, which are tokenized one by one.
    At a cut the tokens may differ from those of the whole document.
    """
    for batch in _batched(islice(_texts(documents), state.pieces, None), lambda piece: len(piece[1]), _BATCH):
        encodings = encode([text for _, text, _ in batch])
        for (name, text, is_new), encoding in zip(batch, encodings, strict=True):
            yield Piece(name, np.array(encoding.ids, np.int64), len(text), is_new)


def _texts(documents: Iterable[Document]) -> Iterator[tuple[str, str, bool]]:
    """Yield the name and the text of each piece, and whether its document begins there."""
    for document in documents:
        for number, lines in enumerate(_batched(document.lines, len, MAX_PIECE)):
            yield document.name, "".join(lines), number == 0


def _batched(items: Iterable[Item], size_of: Callable[[Item], int], enough: int) -> Iterator[list[Item]]:
    """Yield lists of items, each of which ends where its items have the size `enough`."""
    batch: list[Item] = []
    size = 0
    for item in items:
        batch.append(item)
        size += size_of(item)
        if size >= enough:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
