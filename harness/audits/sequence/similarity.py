"""Similarity of texts: verbatim runs, edit similarity, common trigrams, and long runs that two sets of texts share."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import groupby

import numpy as np

from harness.audits.edit_distance import edit_distance, numbered_words
from harness.audits.sequence.words import word_spans, words_of
from harness.core.arrays import Bools, Ints
from harness.core.findings import Stretch

_MARKED_RUN = 3
"""Words of the shortest run that is marked: a trigram."""
RUN = 13
"""Words: the usual length in studies of benchmark contamination."""


def longest_word_run(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length in words of the longest run that both texts contain."""
    return SequenceMatcher(None, one, other, autojunk=False).find_longest_match().size


def longest_character_run(one: str, other: str) -> int:
    """Return the length in characters of the longest substring of both texts; whitespace counts as one space.

    At each position only a longer run is searched for, which takes at most two searches per character: far faster than
    difflib, whose cost is the number of equal pairs of characters.
    """
    shorter, longer = sorted((" ".join(words_of(text)) for text in (one, other)), key=len)
    longest = 0
    for first in range(len(shorter)):
        while first + longest < len(shorter) and shorter[first : first + longest + 1] in longer:
            longest += 1
    return longest


def edit_similarity(one: Sequence[str], other: Sequence[str]) -> float:
    """Return 1 - d / max(n, m) for the word-level edit distance d (Levenshtein 1966); 1 for two empty texts."""
    if not one and not other:
        return 1.0
    return 1.0 - edit_distance(*numbered_words(one, other)) / max(len(one), len(other))


def mark_common_runs(text: str, other: str) -> list[Stretch]:
    """Return `text` in stretches, marked where a run of three words or more also occurs in `other`."""
    words, others = words_of(text), words_of(other)
    runs = {tuple(others[first : first + _MARKED_RUN]) for first in range(len(others) - _MARKED_RUN + 1)}
    is_marked = [False] * len(text)
    spans = word_spans(text)
    for first in range(len(words) - _MARKED_RUN + 1):
        if tuple(words[first : first + _MARKED_RUN]) in runs:
            begin, end = spans[first][0], spans[first + _MARKED_RUN - 1][1]
            is_marked[begin:end] = [True] * (end - begin)
    stretches = groupby(zip(text, is_marked, strict=True), key=lambda pair: pair[1])
    return [Stretch("".join(character for character, _ in pairs), marked) for marked, pairs in stretches]


def shared_runs(one: Sequence[str], other: Sequence[str]) -> tuple[Bools, Bools]:
    """Return, [n] and [m], which texts share a run of 13 words with the other side, or all words if they have fewer.

    Runs are compared by 64-bit hashes.
    """
    sides = [[_run_hashes(text) for text in texts] for texts in (one, other)]
    pool, other_pool = (np.concatenate([np.empty(0, np.int64), *side]) for side in sides)
    common = set(np.intersect1d(pool, other_pool).tolist())
    first, second = (np.array([not common.isdisjoint(runs.tolist()) for runs in side], np.bool_) for side in sides)
    return first, second


def _run_hashes(text: str) -> Ints:
    words = words_of(text)
    length = min(RUN, len(words))
    return np.array([hash(tuple(words[at : at + length])) for at in range(len(words) - length + 1)], np.int64)
