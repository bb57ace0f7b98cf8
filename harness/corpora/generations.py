"""Look generations up in an index of a corpus, and count those that the corpus contains."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from harness.core.arrays import Tokens
from harness.core.intervals import wilson
from harness.corpora.occurrences import CorpusIndex, Occurrences, Place, occurrences_of

MOST_PLACES = 3
RIGHT, WRONG = "right", "wrong"


@dataclass(frozen=True)
class Generations:
    """The generations of a model: n sequences of tokens.

    noun: what one of them is called. names: [n] what each of them is called in its source. tokens: [n] arrays.
    prefixes: [n] the tokens before each of them, None if they are not known. groups: [n] the group that each belongs
    to, such as right and wrong guesses, None if there are none. vocabulary: the ids are smaller. texts: decodes rows
    into text, which is not safe to print. unit: the meaning of a token.
    """

    noun: str
    names: Sequence[str]
    tokens: Sequence[Tokens]
    prefixes: Sequence[Tokens] | None
    groups: Sequence[str] | None
    vocabulary: int
    texts: Callable[[Sequence[Tokens]], list[str]]
    unit: str = "token"

    def __len__(self) -> int:
        return len(self.names)


class Lookup(NamedTuple):
    """The part of one generation that the corpus contains.

    count_with_prefix: how often the corpus contains its prefix followed by all of it, None without a prefix. places:
    some places of the whole generation, or else of its longest span. windows: a hash of each verbatim window.
    """

    occurrences: Occurrences
    count_with_prefix: int | None
    places: tuple[Place, ...]
    windows: tuple[int, ...]


def look_up(index: CorpusIndex, generations: Generations, *, min_tokens: int) -> Iterator[Lookup]:
    """Yield what the corpus contains of each generation. Equal generations are looked up once."""
    known: dict[bytes, Lookup] = {}
    for row, tokens in enumerate(generations.tokens):
        prefix = None if generations.prefixes is None else generations.prefixes[row]
        key = _digest(tokens, 16) + (b"" if prefix is None else _digest(prefix, 16))
        if key not in known:
            known[key] = _look_up(index, tokens, prefix, min_tokens)
        yield known[key]


def _look_up(index: CorpusIndex, tokens: Tokens, prefix: Tokens | None, min_tokens: int) -> Lookup:
    found = occurrences_of(index, tokens, min_tokens=min_tokens)
    longest = tokens[found.longest.start : found.longest.end]
    places = index.find(longest, MOST_PLACES) if len(longest) else []
    with_prefix = None
    if prefix is not None and len(prefix):
        with_prefix = index.count(np.concatenate([prefix, tokens])) if found.count else 0
    windows = tuple(int.from_bytes(_digest(tokens[start : start + min_tokens], 8), "little") for start in found.windows)
    return Lookup(found, with_prefix, tuple(places), windows)


def _digest(tokens: Tokens, size: int) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(tokens, "<u4").tobytes(), digest_size=size).digest()


class Share(NamedTuple):
    """A number of generations among others, with the 95 % interval (Wilson) of the share."""

    number: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.number / self.of, self.of)

    def as_json(self) -> dict[str, Any]:
        """Return the share, its interval and both numbers; the share is null if there are none."""
        value, (low, high) = (self.number / self.of, self.interval) if self.of else (None, (None, None))
        return {"value": value, "low": low, "high": high, "number": self.number, "of": self.of}


@dataclass
class Tally:
    """The counts of a group of generations.

    whole: those that the corpus contains; prefixed: those with a prefix; with_prefix: those that the corpus contains
    after their prefix; long_enough: those of at least `min_tokens` tokens; verbatim: those with a verbatim window;
    longest: the length of each longest span.
    """

    generations: int = 0
    whole: int = 0
    prefixed: int = 0
    with_prefix: int = 0
    long_enough: int = 0
    verbatim: int = 0
    windows: set[int] = field(default_factory=set)
    longest: list[int] = field(default_factory=list)

    def add(self, tokens: Tokens, lookup: Lookup) -> None:
        """Count a generation."""
        self.generations += 1
        self.whole += lookup.occurrences.count > 0
        self.prefixed += lookup.count_with_prefix is not None
        self.with_prefix += bool(lookup.count_with_prefix)
        self.long_enough += len(tokens) >= lookup.occurrences.min_tokens
        self.verbatim += bool(lookup.occurrences.runs)
        self.windows.update(lookup.windows)
        self.longest.append(lookup.occurrences.longest.length)

    @property
    def shares(self) -> dict[str, Share | None]:
        """The shares of the group by name: that with prefixes is None without prefixes."""
        return {
            "whole": Share(self.whole, self.generations),
            "with_prefix": Share(self.with_prefix, self.prefixed) if self.prefixed else None,
            "verbatim": Share(self.verbatim, self.long_enough),
        }

    @property
    def median_longest(self) -> float:
        return float(np.median(self.longest)) if self.longest else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the counts as a JSON object."""
        return {
            "generations": self.generations,
            **{name: None if share is None else share.as_json() for name, share in self.shares.items()},
            "too_short": self.generations - self.long_enough,
            "distinct_windows": len(self.windows),
            "median_longest": self.median_longest,
            "max_longest": max(self.longest, default=0),
        }


def tallies(generations: Generations, lookups: Iterable[Lookup]) -> tuple[Tally, dict[str, Tally]]:
    """Return the counts of all generations, and those of each group in the order of their names."""
    whole, groups = Tally(), {name: Tally() for name in sorted(set(generations.groups or ()))}
    for row, lookup in enumerate(lookups):
        whole.add(generations.tokens[row], lookup)
        if generations.groups is not None:
            groups[generations.groups[row]].add(generations.tokens[row], lookup)
    return whole, groups


def notable_rows(generations: Generations, lookups: Sequence[Lookup]) -> list[int]:
    """Return the rows that a reader wants to see first.

    These are the wrong guesses that the corpus contains, in their order. Without groups of guesses they are the
    generations with a verbatim window, the longest span first.
    """
    groups = generations.groups
    if groups is not None and {RIGHT, WRONG} & set(groups):
        return [row for row, lookup in enumerate(lookups) if groups[row] == WRONG and lookup.occurrences.count]
    verbatim = [row for row, lookup in enumerate(lookups) if lookup.occurrences.runs]
    return sorted(verbatim, key=lambda row: -lookups[row].occurrences.longest.length)
