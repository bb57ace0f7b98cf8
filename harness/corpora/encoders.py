"""Turn text into the tokens under which an index stores it."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from harness.core.arrays import Tokens
from harness.core.tokenizers import load_tokenizer
from harness.corpora.text_files import without_surrogates

_ENCODED_AT_ONCE = 1_000
_INCOMPLETE = "\ufffd"
"""The bytes of an incomplete character are decoded to it."""


class Encoded(NamedTuple):
    """The tokens of a prefix, and of the text that follows it."""

    prefix: Tokens
    tokens: Tokens


class Encoder(Protocol):
    """Encodes texts. vocabulary: the number of its tokens."""

    vocabulary: int

    def encode(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Encoded]:
        """Yield the tokens of each prefix, which may be empty, and of the text that follows it."""
        ...

    def texts(self, rows: Sequence[Tokens]) -> list[str]:
        """Return the text of each row of tokens, which is not safe to print."""
        ...


class TokenizerEncoder:
    """Encodes texts with a tokenizer.json, without special tokens.

    A text is encoded together with its prefix, because a tokenizer joins a word to the space before it. A token across
    the border belongs to the text. The tokens of the first word of a prefix depend on what is before it, and are left
    out. Where a text begins without a prefix, or ends within a word, its first or last tokens may be other ones than in
    a longer text.
    """

    def __init__(self, file: Path) -> None:
        """Load the tokenizer. Raises HarnessError if the file is not a tokenizer.json."""
        # Guesses are decoded with the names of special tokens, which an index stores as these tokens.
        self._tokenizer = load_tokenizer(file, reads_special_tokens=True)
        self.vocabulary = self._tokenizer.get_vocab_size(with_added_tokens=True)

    def encode(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Encoded]:
        left = ((without_surrogates(prefix), without_surrogates(text)) for prefix, text in pairs)
        while some := list(islice(left, _ENCODED_AT_ONCE)):
            encodings = self._tokenizer.encode_batch([prefix + text for prefix, text in some], add_special_tokens=False)
            for (prefix, _), encoding in zip(some, encodings, strict=True):
                ids = np.array(encoding.ids, np.int64)
                begin, border = _cuts(prefix, encoding.offsets)
                yield Encoded(ids[begin:border], ids[border:])

    def decode(self, prefixes: Tokens, rows: Tokens) -> Iterator[tuple[str, str]]:
        """Yield the text of each prefix and of the row that follows it, both [rows, tokens].

        A character that is split between both belongs to the row, and one that the row ends within is left out.
        """
        whole = np.concatenate([prefixes, rows], axis=1)
        for prefix, text in zip(self.texts(list(prefixes)), self.texts(list(whole)), strict=True):
            border = len(prefix.rstrip(_INCOMPLETE))
            yield text[:border], text[border:].rstrip(_INCOMPLETE)

    def texts(self, rows: Sequence[Tokens]) -> list[str]:
        return self._tokenizer.decode_batch([row.tolist() for row in rows], skip_special_tokens=False)


def _cuts(prefix: str, offsets: list[tuple[int, int]]) -> tuple[int, int]:
    """Return the number of tokens in the first word of the prefix, and of those in the prefix.

    A prefix without white space counts as words of one token.
    """
    first_space = next((place for place, character in enumerate(prefix) if character.isspace()), 1)
    border = sum(end <= len(prefix) for _, end in offsets) if prefix else 0
    return min(border, sum(start < first_space for start, _ in offsets)), border


class ByteEncoder:
    """Encodes texts as the bytes of their UTF-8, as an index without a tokenizer stores them."""

    vocabulary = 255
    """UTF-8 has no byte 255."""

    def encode(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Encoded]:
        for pair in pairs:
            yield Encoded(*(np.frombuffer(without_surrogates(text).encode(), np.uint8) for text in pair))

    def texts(self, rows: Sequence[Tokens]) -> list[str]:
        return [row.astype(np.uint8).tobytes().decode("utf-8", "replace") for row in rows]
