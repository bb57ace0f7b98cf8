"""The demo corpus: its documents and their numbers of repetitions.

This module does not depend on tokens or models. It uses only the standard library, so that the corpus is the same on
every machine.
"""

import math
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from tests.demo_target.kinds import KINDS, Kind

DOCUMENTS = 2_060
MAX_REPETITIONS = 64
SHARED_PASSAGE = 0.06
"""The fraction of documents that begin with a passage of an earlier document (near-duplicates)."""


class Document(NamedTuple):
    """One distinct text of the corpus, which occurs `repetitions` times, 1 to 64."""

    kind: str
    text: str
    repetitions: int


def corpus(seed: int, documents: int = DOCUMENTS) -> list[Document]:
    """Return the distinct documents in the order of their creation, the same list for the same seed."""
    rng = Random(seed)
    created: list[Document] = []
    for _ in range(documents):
        kind = rng.choice(KINDS)
        text = _text(rng, kind, _passage_before(rng, kind, created))
        created.append(Document(kind.name, text, _repetitions(rng)))
    return created


def shuffled_copies(documents: Sequence[Document], seed: int) -> list[int]:
    """Return indices into `documents` in the order of one training epoch, each repeated as often as its document."""
    copies = [index for index, document in enumerate(documents) for _ in range(document.repetitions)]
    Random(seed).shuffle(copies)
    return copies


def _repetitions(rng: Random) -> int:
    """Draw log-uniformly from 1 to 64."""
    return min(MAX_REPETITIONS, math.floor(math.exp(rng.random() * math.log(MAX_REPETITIONS + 1))))


def _passage_before(rng: Random, kind: Kind, created: Sequence[Document]) -> str | None:
    """Return the first half of an earlier document of that kind, or in most cases None."""
    if rng.random() >= SHARED_PASSAGE:
        return None
    earlier = [document.text for document in created[-60:] if document.kind == kind.name]
    if not earlier:
        return None
    pieces = earlier[-1].split(kind.separator)
    return kind.separator.join(pieces[: max(1, len(pieces) // 2)])


def _text(rng: Random, kind: Kind, opening: str | None) -> str:
    wanted = rng.randint(*kind.characters)
    text = opening or ""
    pieces = kind.pieces(rng)
    while len(text) < wanted:
        piece = next(pieces)
        text = f"{text}{kind.separator}{piece}" if text else piece
    return text
