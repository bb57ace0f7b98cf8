"""Cut texts into pairs: at a given character, or at the entities that a token classifier marked."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer


class Entity(Protocol):
    """An entity of `kind` at the characters `start` up to `end` of a text."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...

    @property
    def kind(self) -> str: ...


class Tagger(Protocol):
    """Finds entities in texts, as a token classifier does."""

    def find_entities(self, texts: Sequence[str]) -> Sequence[Sequence[Entity]]:
        """Return the entities of each text, in order."""
        ...


class Cut(NamedTuple):
    """One pair: tokens of the prefix and of the suffix, and the character at which the suffix begins."""

    prefix: list[int]
    suffix: list[int]
    start: int


def cut_at(encoding: "Encoding", text: str, start: int, *, before: int, after: int) -> Cut | None:
    """Return the tokens before and after the character `start`; None if there are fewer or a token crosses it."""
    place = token_at(encoding, text, start)
    if place is None or place < before or place + after > len(encoding.ids):
        return None
    return Cut(encoding.ids[place - before : place], encoding.ids[place : place + after], start)


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
    entities: Sequence[Entity],
    tokenizer: "Tokenizer",
    *,
    prefix_length: int,
    entity_tokens: int,
    kinds: Sequence[str] = (),
) -> Iterator[Cut]:
    """Yield the pairs whose suffix is an entity of exactly `entity_tokens` tokens. kinds: those to use, () for all.

    Tokens must begin and end with the entity, and `prefix_length` tokens must precede it.
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
