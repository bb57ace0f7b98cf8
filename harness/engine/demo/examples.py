"""The demo round's examples: cut out of the corpus, each well specified and not trivial.

Knows token ids only: neither the text behind them nor the model that is asked for them.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from harness.core.arrays import Bools, Floats, Ints, Tokens

PREFIX = 50
SUFFIX = 50
LEAST_ENTROPY = 1.0
"""Bits a token, after the SaTML 2023 challenge's own filter."""
LONGEST_CYCLE = 25


class Examples(NamedTuple):
    """n examples from n different documents.

    prefixes [n, 50] and suffixes [n, 50] are uint16; documents [n] int64 indexes the corpus; repetitions [n] uint16
    says how often that document stands in it.
    """

    prefixes: Tokens
    suffixes: Tokens
    documents: Ints
    repetitions: Tokens


def cut_examples(texts: Sequence[Sequence[int]], repetitions: Sequence[int], *, wanted: int, seed: int) -> Examples:
    """`wanted` examples, each from another of the tokenized `texts`, in random order; the same ones for the same seed.

    Raises ValueError when fewer texts hold a passage that may be an example.
    """
    rng = Random(seed)  # noqa: S311  seeded, no secret
    follows = continuations(texts)
    order = list(range(len(texts)))
    rng.shuffle(order)
    cut = [(index, passage) for index in order if (passage := _passage(texts[index], follows, rng)) is not None]
    if len(cut) < wanted:
        raise ValueError(f"{len(cut)} documents hold an example and {wanted} examples are wanted: make more documents.")
    passages = np.array([passage for _, passage in cut[:wanted]], np.uint16)  # [wanted, 100]
    documents = np.array([index for index, _ in cut[:wanted]], np.int64)
    counts = np.asarray(repetitions, np.uint16)[documents]
    return Examples(passages[:, :PREFIX], passages[:, PREFIX:], documents, counts)


def continuations(texts: Sequence[Sequence[int]]) -> Mapping[bytes, set[bytes]]:
    """What follows each 50-token window of any text: up to 50 tokens, fewer where the text ends before."""
    follows: dict[bytes, set[bytes]] = {}
    for text in texts:
        row = np.asarray(text, np.uint16)
        for start in range(len(row) - PREFIX):
            middle = start + PREFIX
            follows.setdefault(row[start:middle].tobytes(), set()).add(row[middle : middle + SUFFIX].tobytes())
    return follows


def is_well_specified(prefixes: Tokens, suffixes: Tokens, follows: Mapping[bytes, set[bytes]]) -> Bools:
    """[n]: the suffix is the one continuation that the prefix has anywhere in the corpus."""
    pairs = zip(prefixes.astype(np.uint16), suffixes.astype(np.uint16), strict=True)
    return np.array([follows.get(prefix.tobytes()) == {suffix.tobytes()} for prefix, suffix in pairs], np.bool_)


def is_non_trivial(prefixes: Tokens, suffixes: Tokens) -> Bools:
    """[n]: a suffix of at least 1 bit a token that its prefix does not hold and that is no short cycle of tokens."""
    inside = np.array([_holds(prefix, suffix) for prefix, suffix in zip(prefixes, suffixes, strict=True)], np.bool_)
    cyclic = np.zeros(len(suffixes), np.bool_)
    for period in range(1, LONGEST_CYCLE + 1):
        cyclic |= (suffixes[:, period:] == suffixes[:, :-period]).all(axis=1)
    return ~inside & ~cyclic & (token_entropy(suffixes) >= LEAST_ENTROPY)


def token_entropy(suffixes: Tokens) -> Floats:
    """[n] empirical entropy of each suffix's own tokens, in bits a token."""
    shares = [np.unique(suffix, return_counts=True)[1] / len(suffix) for suffix in suffixes]
    return np.array([-(share * np.log2(share)).sum() for share in shares], np.float64)


def _holds(prefix: Tokens, suffix: Tokens) -> bool:
    windows = range(len(prefix) - len(suffix) + 1)
    return any(np.array_equal(prefix[start : start + len(suffix)], suffix) for start in windows)


def _passage(text: Sequence[int], follows: Mapping[bytes, set[bytes]], rng: Random) -> Sequence[int] | None:
    """One of the text's 100-token passages that may be an example, at random; None where there is none."""
    return next(_passages(text, follows, rng), None)


def _passages(text: Sequence[int], follows: Mapping[bytes, set[bytes]], rng: Random) -> Iterator[Sequence[int]]:
    starts = list(range(len(text) - PREFIX - SUFFIX + 1))
    rng.shuffle(starts)
    for start in starts:
        row = np.array([text[start : start + PREFIX + SUFFIX]], np.uint16)  # [1, 100]
        prefix, suffix = row[:, :PREFIX], row[:, PREFIX:]
        if (is_well_specified(prefix, suffix, follows) & is_non_trivial(prefix, suffix)).all():
            yield text[start : start + PREFIX + SUFFIX]
