"""The demo round's examples: passages of the corpus that are well specified and not trivial.

This module uses only token ids, neither text nor models.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from harness.core.arrays import Bools, Floats, Ints, Tokens

ATTACKED = 1_000
"""The number of examples that the round attacks."""
TRAINING = 1_000
"""The number of further examples, from other documents, with known answers."""
PREFIX = 50
SUFFIX = 50
MIN_ENTROPY = 1.0
"""Bits per token, as in the filter of the SaTML 2023 challenge."""
MAX_CYCLE = 25


class Examples(NamedTuple):
    """n examples from n different documents.

    prefixes [n, 50] and suffixes [n, 50] are uint16. documents [n] int64 are indices into the corpus. repetitions [n]
    uint16 is how often that document occurs in the corpus.
    """

    prefixes: Tokens
    suffixes: Tokens
    documents: Ints
    repetitions: Tokens


def cut_examples(texts: Sequence[Sequence[int]], repetitions: Sequence[int], *, wanted: int, seed: int) -> Examples:
    """Return `wanted` examples, each from a different text of the tokenized `texts`, in random order.

    Raises ValueError if too few texts contain a passage that can be an example.
    """
    rng = Random(seed)
    follows = continuations(texts)
    order = list(range(len(texts)))
    rng.shuffle(order)
    cut = [(index, passage) for index in order if (passage := _passage(texts[index], follows, rng)) is not None]
    if len(cut) < wanted:
        raise ValueError(f"{len(cut)} documents contain an example, fewer than {wanted}. Create more documents.")
    passages = np.array([passage for _, passage in cut[:wanted]], np.uint16)  # [wanted, 100]
    documents = np.array([index for index, _ in cut[:wanted]], np.int64)
    counts = np.asarray(repetitions, np.uint16)[documents]
    return Examples(passages[:, :PREFIX], passages[:, PREFIX:], documents, counts)


def continuations(texts: Sequence[Sequence[int]]) -> Mapping[bytes, set[bytes]]:
    """Return the continuations of each 50-token window of any text: up to 50 tokens, fewer at the end of a text."""
    follows: dict[bytes, set[bytes]] = {}
    for text in texts:
        row = np.asarray(text, np.uint16)
        for start in range(len(row) - PREFIX):
            middle = start + PREFIX
            follows.setdefault(row[start:middle].tobytes(), set()).add(row[middle : middle + SUFFIX].tobytes())
    return follows


def is_well_specified(prefixes: Tokens, suffixes: Tokens, follows: Mapping[bytes, set[bytes]]) -> Bools:
    """Return whether the suffix is the only continuation of the prefix in the corpus, [n]."""
    pairs = zip(prefixes.astype(np.uint16), suffixes.astype(np.uint16), strict=True)
    return np.array([follows.get(prefix.tobytes()) == {suffix.tobytes()} for prefix, suffix in pairs], np.bool_)


def is_non_trivial(prefixes: Tokens, suffixes: Tokens) -> Bools:
    """Return whether the suffix has at least 1 bit per token, is not in its prefix and is not a short cycle, [n]."""
    inside = np.array([_contains(prefix, suffix) for prefix, suffix in zip(prefixes, suffixes, strict=True)], np.bool_)
    cyclic = np.zeros(len(suffixes), np.bool_)
    for period in range(1, MAX_CYCLE + 1):
        cyclic |= (suffixes[:, period:] == suffixes[:, :-period]).all(axis=1)
    return ~inside & ~cyclic & (token_entropy(suffixes) >= MIN_ENTROPY)


def token_entropy(suffixes: Tokens) -> Floats:
    """Return the empirical entropy of each suffix's own tokens, [n], in bits per token."""
    shares = [np.unique(suffix, return_counts=True)[1] / len(suffix) for suffix in suffixes]
    return np.array([-(share * np.log2(share)).sum() for share in shares], np.float64)


def _contains(prefix: Tokens, suffix: Tokens) -> bool:
    windows = range(len(prefix) - len(suffix) + 1)
    return any(np.array_equal(prefix[start : start + len(suffix)], suffix) for start in windows)


def _passage(text: Sequence[int], follows: Mapping[bytes, set[bytes]], rng: Random) -> Sequence[int] | None:
    """Return a random 100-token passage of the text that can be an example, None if there is none."""
    return next(_passages(text, follows, rng), None)


def _passages(text: Sequence[int], follows: Mapping[bytes, set[bytes]], rng: Random) -> Iterator[Sequence[int]]:
    starts = list(range(len(text) - PREFIX - SUFFIX + 1))
    rng.shuffle(starts)
    for start in starts:
        row = np.array([text[start : start + PREFIX + SUFFIX]], np.uint16)  # [1, 100]
        prefix, suffix = row[:, :PREFIX], row[:, PREFIX:]
        if (is_well_specified(prefix, suffix, follows) & is_non_trivial(prefix, suffix)).all():
            yield text[start : start + PREFIX + SUFFIX]
