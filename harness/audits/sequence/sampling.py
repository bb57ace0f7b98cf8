"""Sample distinct paragraphs of a corpus of any size in one pass."""

import hashlib
import heapq
from collections.abc import Iterable
from typing import NamedTuple

from harness.audits.sequence.dataset import ReadCounts
from harness.audits.sequence.words import Cut, words_of


class Paragraph(NamedTuple):
    """A paragraph: its document, its number there from 1, and its two parts, or None if it is too short.

    is_shortened: words at the end of the suffix were dropped.
    """

    document: str
    number: int
    cut: Cut | None
    is_shortened: bool = False


class Sample(NamedTuple):
    """The sampled paragraphs in the order of the corpus, how often each occurs, and what happened to all others."""

    paragraphs: list[Paragraph]
    occurrences: list[int]
    counts: ReadCounts


def sample_paragraphs(paragraphs: Iterable[Paragraph], *, limit: int, seed: int) -> Sample:
    """Sample at most `limit` distinct paragraphs that have two parts, each distinct one with equal probability.

    Keeps the `limit` smallest hashes of seed and words ("bottom-k" sampling). Equal paragraphs have equal hashes, so
    at most `limit` paragraphs are in memory, and all occurrences of a sampled one are counted.
    """
    kept: dict[int, tuple[int, Paragraph]] = {}
    occurrences: dict[int, int] = {}
    largest_first: list[int] = []
    total = too_short = not_chosen = 0
    for place, paragraph in enumerate(paragraphs):
        total += 1
        if paragraph.cut is None:
            too_short += 1
            continue
        rank = _rank(paragraph.cut, seed)
        if rank in kept:
            occurrences[rank] += 1
            continue
        if len(kept) == limit:
            if rank > -largest_first[0]:
                not_chosen += 1
                continue
            dropped = -heapq.heappop(largest_first)
            del kept[dropped]
            not_chosen += occurrences.pop(dropped)
        heapq.heappush(largest_first, -rank)
        kept[rank], occurrences[rank] = (place, paragraph), 1
    ranks = sorted(kept, key=lambda rank: kept[rank][0])
    sampled = [kept[rank][1] for rank in ranks]
    counts = [occurrences[rank] for rank in ranks]
    shortened = sum(paragraph.is_shortened for paragraph in sampled)
    return Sample(sampled, counts, ReadCounts(total, too_short, sum(counts) - len(counts), not_chosen, shortened))


def _rank(cut: Cut, seed: int) -> int:
    """Return a hash of seed and words. Paragraphs that differ in whitespace are equal."""
    content = "\0".join(" ".join(words_of(part)) for part in cut)
    key = seed.to_bytes(16, "little", signed=False)
    digest = hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=12, key=key).digest()
    return int.from_bytes(digest, "big")
