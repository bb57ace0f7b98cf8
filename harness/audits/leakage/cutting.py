"""Cut texts into pairs: at a given character, or at the entities that a token classifier marked."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

    from harness.audits.classifier import Entity


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
