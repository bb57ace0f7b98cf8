"""The pairs that the audit measures, and how texts are cut into pairs: at a character, or at marked entities."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from harness.core.arrays import Ints, Tokens
from harness.core.audit import AuditInputs
from harness.core.tokenizers import parse_tokenizer

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

    from harness.audits.classifier import Entity


@dataclass(frozen=True)
class Pairs:
    """The n pairs of an audit: prefixes [n, prefix length] and suffixes [n, length].

    documents: texts to cut, if there are no pairs yet. tokenizer: the content of a tokenizer.json, None if the models
    have none. prefix_length: tokens of a whole prefix, also of pairs that are still to be cut. notes: sentences about
    skipped input.
    """

    prefixes: Tokens
    suffixes: Tokens
    tokenizer: str | None
    prefix_length: int
    documents: Sequence[str] = ()
    notes: Sequence[str] = ()
    rows: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """The row of each pair in its source, [n]; it is not stored."""
    source_rows: int = 0
    """The number of rows of the source; it is not stored."""

    def __len__(self) -> int:
        return len(self.prefixes)

    def to_inputs(self) -> AuditInputs:
        """Return the pairs in the form in which the run stores them."""
        return AuditInputs(
            texts={
                "tokenizer": [] if self.tokenizer is None else [self.tokenizer],
                "documents": list(self.documents),
                "notes": list(self.notes),
            },
            arrays={
                "prefixes": self.prefixes.astype(np.int64),
                "suffixes": self.suffixes.astype(np.int64),
                "prefix_length": np.array([self.prefix_length]),
            },
        )

    @classmethod
    def from_inputs(cls, inputs: AuditInputs) -> "Pairs":
        """Return the pairs that `to_inputs` stored."""
        tokenizer = inputs.texts["tokenizer"]
        return cls(
            prefixes=inputs.arrays["prefixes"],
            suffixes=inputs.arrays["suffixes"],
            tokenizer=tokenizer[0] if tokenizer else None,
            prefix_length=int(inputs.arrays["prefix_length"][0]),
            documents=inputs.texts["documents"],
            notes=inputs.texts["notes"],
        )


class TokenDecoder:
    """Decodes tokens to text, or to their numbers if there is no tokenizer."""

    def __init__(self, tokenizer: str | None) -> None:
        self._tokenizer = None if tokenizer is None else parse_tokenizer(tokenizer, "the audit's inputs")

    def pieces(self, tokens: Ints | Sequence[int]) -> list[str]:
        """Return the text of each token. A character of several tokens belongs to the last of them."""
        ids = [int(token) for token in tokens]
        if self._tokenizer is None:
            return [f"{token} " for token in ids]
        pieces, shown = [], 0
        for end in range(1, len(ids) + 1):
            text = self._tokenizer.decode(ids[:end], skip_special_tokens=False)
            # An incomplete character decodes to U+FFFD.
            complete = len(text) if end == len(ids) else len(text.rstrip("\ufffd"))
            pieces.append(text[shown:complete])
            shown = max(shown, complete)
        return pieces

    def text(self, tokens: Ints | Sequence[int]) -> str:
        """Return the text of all tokens."""
        ids = [int(token) for token in tokens]
        if self._tokenizer is None:
            return "".join(self.pieces(ids))
        text: str = self._tokenizer.decode(ids, skip_special_tokens=False)
        return text


class Cut(NamedTuple):
    """The tokens of a prefix and of its suffix, and the characters at which the suffix begins and ends."""

    prefix: list[int]
    suffix: list[int]
    start: int
    end: int


def cut_at(encoding: "Encoding", text: str, start: int, *, before: int, after: int) -> Cut | None:
    """Return the tokens before and after the character `start`; None if there are fewer or a token crosses it."""
    place = token_at(encoding, text, start)
    if place is None or place < before or place + after > len(encoding.ids):
        return None
    ids, (_, end) = encoding.ids, encoding.offsets[place + after - 1]
    return Cut(ids[place - before : place], ids[place : place + after], start, end)


def token_at(encoding: "Encoding", text: str, start: int) -> int | None:
    """Return the token that begins at the character `start` or at the spaces before it; None if none does."""
    offsets = encoding.offsets
    place = next((number for number, (_, end) in enumerate(offsets) if end > start), None)
    if place is None:
        return None
    begin = offsets[place][0]
    # Tokens that share a character overlap.
    is_first = place == 0 or offsets[place - 1][1] <= start
    return place if is_first and begin <= start and not text[begin:start].strip() else None


def entity_pairs(
    text: str,
    entities: "Sequence[Entity]",
    tokenizer: "Tokenizer",
    *,
    prefix_length: int,
    entity_tokens: int,
    kinds: Sequence[str] = (),
) -> list[Cut]:
    """Return the pairs whose suffix is an entity of exactly `entity_tokens` tokens. kinds: those to use, () for all.

    Tokens must begin and end with the entity, and `prefix_length` tokens must precede it.
    """
    encoding = tokenizer.encode(text, add_special_tokens=False)
    wanted = {kind.upper() for kind in kinds}
    used = [entity for entity in entities if not wanted or entity.kind.upper() in wanted]
    cuts = [cut_at(encoding, text, entity.start, before=prefix_length, after=entity_tokens) for entity in used]
    return [cut for cut, entity in zip(cuts, used, strict=True) if cut is not None and cut.end == entity.end]
