"""Find the parts of a sequence of tokens that a corpus contains word for word, with few queries to an index of it.

A part of a sequence is found if the corpus contains it. Every part of a found part is found too, so a part that is not
found rules out all longer ones around it. The searches move a window from left to right. Where the window is not found,
a binary search gives the shortest end of the window that is not found either, and the window moves past the first token
of that end. Text that is not in the corpus rarely shares more than a few tokens with it, so the window moves by almost
its length, as in the Boyer-Moore algorithm.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from harness.core.arrays import Tokens


class Place(NamedTuple):
    """A place in an index: the number of the shard, of the document in it, and of the token in that, all from 0."""

    shard: int
    document: int
    position: int

    @property
    def label(self) -> str:
        """The place as text: `0:12:345`."""
        return f"{self.shard}:{self.document}:{self.position}"


class CorpusIndex(Protocol):
    """An index of a corpus of tokens. No found sequence reaches from one document into the next."""

    def count(self, tokens: Tokens) -> int:
        """Return how often the corpus contains the `tokens` [n], n ≥ 1, one after the other."""
        ...

    def find(self, tokens: Tokens, most: int) -> list[Place]:
        """Return the places of at most `most` of these occurrences."""
        ...


class Span(NamedTuple):
    """Consecutive tokens of a sequence."""

    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


NOTHING = Span(0, 0)


@dataclass(frozen=True)
class Occurrences:
    """The parts of one sequence that a corpus contains.

    count: how often the corpus contains the whole sequence. longest: the first of the longest parts that it contains.
    runs: parts that are found, of at least `min_tokens` tokens, from left to right. Every window of `min_tokens` tokens
    that is found lies in exactly one of them.
    """

    count: int
    longest: Span
    runs: tuple[Span, ...]
    min_tokens: int

    @property
    def windows(self) -> list[int]:
        """The starts of the found windows, ascending."""
        return [start for run in self.runs for start in range(run.start, run.end - self.min_tokens + 1)]


def occurrences_of(index: CorpusIndex, tokens: Tokens, *, min_tokens: int) -> Occurrences:
    """Return the parts of `tokens` [n] that the corpus contains. A window has `min_tokens` tokens."""
    whole = Span(0, len(tokens))
    count = index.count(tokens) if len(tokens) else 0
    if count:
        return Occurrences(count, whole, (whole,) if len(tokens) >= min_tokens else (), min_tokens)
    runs = found_runs(index, tokens, min_tokens=min_tokens) if len(tokens) > min_tokens else []
    known = max(runs, key=lambda run: run.length, default=NOTHING)
    return Occurrences(0, longest_span(index, tokens, known=known), tuple(runs), min_tokens)


def longest_span(index: CorpusIndex, tokens: Tokens, *, known: Span = NOTHING) -> Span:
    """Return the first of the longest found parts of `tokens`, of length 0 if no token is found.

    known: a found part that makes the search shorter.
    """
    search = _Search(index, tokens)
    # A part as long as the known one may come before it.
    longest = known._replace(length=max(0, known.length - 1))
    start = 0
    while (end := start + longest.length + 1) <= len(tokens):
        if search.is_found(start, end):
            longest = Span(start, search.furthest_end(start, end) - start)
            start += 1
        elif end == len(tokens):
            break
        else:
            start = search.last_missing(start, end) + 1
    return longest


def found_runs(index: CorpusIndex, tokens: Tokens, *, min_tokens: int) -> list[Span]:
    """Return the runs of found windows, as in `Occurrences`."""
    search = _Search(index, tokens)
    runs: list[Span] = []
    start = 0
    while (end := start + min_tokens) <= len(tokens):
        if search.is_found(start, end):
            furthest = search.furthest_end(start, end)
            runs.append(Span(start, furthest - start))
            start = furthest - min_tokens + 1
        elif end == len(tokens):
            break
        else:
            start = search.last_missing(start, end) + 1
    return runs


class _Search:
    """The queries about the parts of one sequence."""

    def __init__(self, index: CorpusIndex, tokens: Tokens) -> None:
        self._index, self._tokens = index, tokens

    def is_found(self, start: int, end: int) -> bool:
        return start == end or self._index.count(self._tokens[start:end]) > 0

    def furthest_end(self, start: int, end: int) -> int:
        """Return the largest end up to which the part from `start` is found; up to `end` it is."""
        step = 1
        missing = len(self._tokens) + 1
        while end + step < missing and self.is_found(start, end + step):
            end, step = end + step, 2 * step
        missing = min(missing, end + step)
        while missing - end > 1:
            middle = (end + missing) // 2
            if self.is_found(start, middle):
                end = middle
            else:
                missing = middle
        return end

    def last_missing(self, start: int, end: int) -> int:
        """Return the largest start from which the part up to `end` is not found; from `start` it is not."""
        step, found = 1, end
        while found - step > start and self.is_found(found - step, end):
            found, step = found - step, 2 * step
        start = max(start, found - step)
        while found - start > 1:
            middle = (start + found) // 2
            if self.is_found(middle, end):
                found = middle
            else:
                start = middle
        return start
