"""Texts cut into pairs: where the suffix begins as a reader named it, or at an entity that somebody marked.

Knows tokens and characters; what marks entities is somebody else's.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from harness.core.arrays import Ints

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer


class Entity(Protocol):
    """Characters `start` up to `end` of a text, and of what kind they are."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    @property
    def kind(self) -> str: ...


class Marker(Protocol):
    """What finds entities in texts: a token classifier, or a test's own."""

    def find_entities(self, texts: Sequence[str]) -> Sequence[Sequence[Entity]]:
        """The entities of each text, in order."""
        ...


class Cut(NamedTuple):
    """One pair: tokens of the prefix and of the suffix, and the character of the text that the suffix begins at."""

    prefix: list[int]
    suffix: list[int]
    start: int


def cut_at(encoding: "Encoding", text: str, start: int, *, before: int, after: int) -> Cut | None:
    """The pair of `before` and `after` tokens whose suffix begins at the character `start`, where there is one."""
    place = token_at(encoding, text, start)
    if place is None or place < before or place + after > len(encoding.ids):
        return None
    return Cut(encoding.ids[place - before : place], encoding.ids[place : place + after], start)


def token_at(encoding: "Encoding", text: str, start: int) -> int | None:
    """The token of `text` that begins at the character `start`, or with the spaces before it; None where none does."""
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
    entities: Sequence[Entity],
    tokenizer: "Tokenizer",
    *,
    prefix_length: int,
    entity_tokens: int,
    kinds: Sequence[str] = (),
) -> Iterator[Cut]:
    """The pairs of a text whose suffix is an entity of exactly so many tokens, in order; kinds: which count, () all.

    An entity counts where tokens begin and end with it and `prefix_length` tokens stand before it.
    """
    encoding = tokenizer.encode(text, add_special_tokens=False)
    wanted = {kind.upper() for kind in kinds}
    for entity in entities:
        if wanted and entity.kind.upper() not in wanted:
            continue
        cut = cut_at(encoding, text, entity.start, before=prefix_length, after=entity_tokens)
        place = token_at(encoding, text, entity.start)
        if cut is not None and place is not None and encoding.offsets[place + entity_tokens - 1][1] == entity.end:
            yield cut


def as_arrays(cuts: Sequence[Cut]) -> tuple[Ints, Ints]:
    """Prefixes and suffixes of at least one cut, [cuts, prefix length] and [cuts, length]."""
    import numpy as np

    return np.array([cut.prefix for cut in cuts], np.int64), np.array([cut.suffix for cut in cuts], np.int64)
