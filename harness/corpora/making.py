"""Draw the examples of a round from a token stream: not trivial, and no split gives another one away.

The definition follows the makers of the SaTML 2023 challenge (Carlini et al., "A Benchmark for Training Data Extraction
Attacks on Language Models"): the prefix of an example has one continuation in the corpus, and its suffix is not
trivial.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from harness.core.arrays import Bools, Floats, Ints, Tokens
from harness.core.windows import WINDOW, cluster_ids, window_hashes
from harness.corpora.sequences import Prefixes, Sequences, draw_prefixes
from harness.corpora.token_stream import TokenStream, blocks

_MIN_COPY = 8  # tokens
TRAINING, ATTACKED = "train", ("val", "test")
_DRAWN_PER_EXAMPLE, _GROWTH = 4, 4
_MAX_TOKENS = 200_000_000
"""Tokens of the sequences that one pass over the corpus draws at most, copies not counted."""
FindContexts = Callable[[Sequences], Ints]
"""Returns how many tokens a model needs to complete each sequence, 0 where no context is enough."""


@dataclass(frozen=True)
class Filters:
    """Limits for suffixes."""

    max_token_share: float = 0.5
    """Largest share of a suffix that one token may have."""
    min_entropy_share: float = 0.5
    """Smallest entropy of a suffix, relative to a suffix whose tokens all differ (5.6 bits for 50 tokens)."""
    copied_share: float = 0.5
    """Share of a suffix: no part of this length may occur earlier in the sequence. The part has at least 8 tokens (or
    is the whole suffix), because shorter parts recur by chance.
    """

    def copied_tokens(self, suffix_length: int) -> int:
        """Return how many tokens of a suffix may not occur earlier in the sequence."""
        return min(suffix_length, max(_MIN_COPY, math.ceil(self.copied_share * suffix_length)))


def trivial_sequences(tokens: Tokens, prefix_length: int, filters: Filters) -> dict[str, Bools]:
    """Return which of the sequences [rows, tokens] each filter removes, [rows] by its name.

    A sequence that several filters would remove counts for the first one only. A suffix of one token is never trivial.
    """
    suffixes = tokens[:, prefix_length:]
    length = suffixes.shape[1]
    share, entropy = token_statistics(suffixes)
    removed = np.full(len(tokens), length < 2)
    removed_by: dict[str, Bools] = {}
    for name, is_trivial in (
        ("repeated token", share > filters.max_token_share),
        ("low entropy", entropy < filters.min_entropy_share * math.log2(length)),
        ("copied from the prefix", copies_itself(tokens, prefix_length, filters.copied_tokens(length))),
    ):
        removed_by[name] = is_trivial & ~removed
        removed |= is_trivial
    return removed_by


def token_statistics(suffixes: Tokens) -> tuple[Floats, Floats]:
    """Return the share of the commonest token of each suffix, and the entropy of its tokens in bits, [rows] each."""
    rows, length = suffixes.shape
    ordered = np.sort(suffixes, axis=1)
    opens = np.concatenate([np.ones((rows, 1), np.bool_), ordered[:, 1:] != ordered[:, :-1]], axis=1)
    run = np.cumsum(opens.ravel()) - 1
    counts = np.bincount(run, minlength=0)
    row_of_run = np.repeat(np.arange(rows), opens.sum(axis=1))
    share = counts / length
    entropy = np.bincount(row_of_run, weights=-share * np.log2(share), minlength=rows)
    largest = np.zeros(rows)
    np.maximum.at(largest, row_of_run, share)
    return largest, np.asarray(entropy, np.float64)


def copies_itself(tokens: Tokens, prefix_length: int, length: int) -> Bools:
    """Return for each sequence whether `length` tokens inside its suffix also occur earlier in the sequence, [rows].

    The earlier occurrence begins in the prefix and may run into the suffix, as in text that repeats itself.
    """
    is_copy = np.zeros(len(tokens), np.bool_)
    if tokens.shape[1] - prefix_length < length:
        return is_copy
    hashes = window_hashes(tokens, length)
    windows = sliding_window_view(tokens, length, axis=1)
    # Equal hashes decide which pairs are compared.
    for late in range(prefix_length, hashes.shape[1]):
        row, early = np.nonzero(hashes[:, :prefix_length] == hashes[:, late, None])
        equal = (windows[row, early] == windows[row, late]).all(axis=1)
        is_copy[row[equal]] = True
    return is_copy


def without_overlaps(positions: Ints, length: int) -> Ints:
    """Return the numbers of the sequences that overlap no earlier one in the stream, in their order.

    positions: [sequences], where each begins.
    length: the number of tokens of each.
    """
    taken: dict[int, int] = {}
    kept = []
    for number, position in enumerate(positions.tolist()):
        place = position // length
        # Two sequences in one block overlap. Those in neighboring blocks may.
        near = (taken.get(place + step) for step in (-1, 0, 1))
        if all(neighbour is None or abs(neighbour - position) >= length for neighbour in near):
            taken[place] = position
            kept.append(number)
    return np.array(kept, np.int64)


def stratum_of(copies: Ints, strata: Sequence[int]) -> Ints:
    """Return the stratum of each number of copies, [sequences]; -1 if it is below the first.

    strata: the minimum number of copies of each stratum, ascending.
    """
    return np.searchsorted(np.array(strata), copies, side="right") - 1


class Assignment(NamedTuple):
    """The sequences of each split.

    splits: their numbers, by name.
    clusters: [sequences], of all sequences.
    lacking: the strata of which a split has too few.
    """

    splits: Mapping[str, Ints]
    clusters: Ints
    lacking: frozenset[int]


def assign_splits(tokens: Tokens, stratum: Ints, strata: int, sizes: Mapping[str, int], window: int) -> Assignment:
    """Assign sequences to splits, so that those that share `window` tokens are in one split.

    tokens: [sequences, tokens].
    stratum: [sequences], of `strata`; each split has the same number of sequences from each stratum, and one more from
    the first strata if the number is not divisible.
    sizes: the wanted number by name. An unused cluster goes to the split that lacks the largest part of its size.
    """
    clusters = cluster_ids([tokens], window)
    room = {name: [(size + strata - 1 - layer) // strata for layer in range(strata)] for name, size in sizes.items()}
    numbers_of: dict[str, list[int]] = {name: [] for name in sizes}
    split_of_cluster: dict[int, str] = {}
    for number, (cluster, layer) in enumerate(zip(clusters.tolist(), stratum.tolist(), strict=True)):
        split = split_of_cluster.get(cluster)
        if split is None:
            _, split = max((room[name][layer] / size, name) for name, size in sizes.items())
        if room[split][layer] > 0:
            split_of_cluster[cluster] = split
            room[split][layer] -= 1
            numbers_of[split].append(number)
    lacking = frozenset(layer for layers in room.values() for layer, count in enumerate(layers) if count)
    return Assignment({name: np.array(numbers, np.int64) for name, numbers in numbers_of.items()}, clusters, lacking)


@dataclass(frozen=True)
class Rules:
    """The rules by which examples are drawn."""

    sizes: Mapping[str, int]
    """Wanted number of examples by split, at least 1."""
    prefix_length: int = 50
    """Tokens of a prefix."""
    suffix_length: int = 50
    """Tokens of a suffix."""
    strata: tuple[int, ...] = (1,)
    """Minimum copies of each stratum, ascending. Each split has equally many examples of each."""
    filters: Filters = field(default_factory=Filters)
    """Limits for suffixes."""
    seed: int = 0
    """Seed of the draw."""

    @property
    def length(self) -> int:
        """The number of tokens of a sequence."""
        return self.prefix_length + self.suffix_length

    @property
    def cluster_window(self) -> int:
        """The number of tokens that sequences of one cluster share: 32, or half of a short sequence."""
        return min(WINDOW, max(1, self.length // 2))


class Examples(NamedTuple):
    """The examples of a round.

    splits: the sequences of each split.
    clusters: their clusters, [sequences] by split.
    counts: how many prefixes were drawn and what removed them, in the order of the steps.
    """

    splits: Mapping[str, Sequences]
    clusters: Mapping[str, Ints]
    counts: Mapping[str, int]


def draw_examples(
    stream: TokenStream,
    rules: Rules,
    on_progress: Callable[[int, int], None],
    find_contexts: FindContexts | None = None,
) -> Examples:
    """Return the examples of all splits. There are fewer than wanted if the whole corpus does not have more.

    on_progress: called with the number of the pass over the corpus, from 1, and the tokens read in it.
    find_contexts: only sequences that a model completes are examples.
    """
    size = max(1, len(stream.tokens))
    max_share = _MAX_TOKENS / rules.length / size
    low, share, number = 0.0, min(max_share, _DRAWN_PER_EXAMPLE * sum(rules.sizes.values()) / size), 1
    counts: Counter[str] = Counter()
    nothing = np.empty(0, np.int64)
    drawn = Sequences(np.empty((0, rules.length), stream.tokens.dtype), nothing, nothing, nothing)
    lacking = frozenset(range(len(rules.strata)))
    while True:
        high = min(1.0, low + share)
        prefixes = draw_prefixes(
            stream,
            rules.prefix_length,
            rules.suffix_length,
            between=(low, high),
            seed=rules.seed,
            on_progress=lambda tokens, number=number: on_progress(number, tokens),  # type: ignore[misc]
        )
        drawn = _add(stream, prefixes, rules, drawn, lacking, counts, find_contexts)
        strata = stratum_of(drawn.copies, rules.strata)
        assigned = assign_splits(drawn.tokens, strata, len(rules.strata), rules.sizes, rules.cluster_window)
        lacking = assigned.lacking
        if high == 1 or not lacking:
            counts["not used"] += len(drawn.copies) - sum(map(len, assigned.splits.values()))
            return Examples(
                {name: drawn.select(rows) for name, rows in assigned.splits.items()},
                {name: assigned.clusters[rows] for name, rows in assigned.splits.items()},
                dict(counts),
            )
        low, share, number = high, min(max_share, _GROWTH * share), number + 1


def _add(
    stream: TokenStream,
    prefixes: Prefixes,
    rules: Rules,
    earlier: Sequences,
    lacking: frozenset[int],
    counts: Counter[str],
    find_contexts: FindContexts | None,
) -> Sequences:
    """Return `earlier` and the sequences of `prefixes` that fit into a `lacking` stratum. Count the rejected ones."""
    counts["drawn prefixes"] += len(prefixes.copies)
    counts["removed, several continuations"] += int(prefixes.is_ambiguous.sum())
    open_ = ~prefixes.is_ambiguous
    is_wanted = np.isin(stratum_of(prefixes.copies, rules.strata), list(lacking))
    counts["removed, other number of copies"] += int((open_ & ~is_wanted).sum())
    positions, copies = prefixes.positions[open_ & is_wanted], prefixes.copies[open_ & is_wanted]
    parts = (
        _not_trivial(stream, positions[block], copies[block], rules, counts)
        for block in blocks(len(positions), rules.length)
    )
    both = Sequences.join([earlier, *parts])
    separate = without_overlaps(both.positions, rules.length)
    counts["removed, overlap with another example"] += len(both.copies) - len(separate)
    # The earlier sequences stay: they come first.
    new = both.select(separate[len(earlier.copies) :])
    if find_contexts is not None:
        new = new._replace(contexts=find_contexts(new))
        counts["removed, not extractable"] += int((new.contexts == 0).sum())
        new = new.select(new.contexts > 0)
    return Sequences.join([earlier, new])


def _not_trivial(stream: TokenStream, positions: Ints, copies: Ints, rules: Rules, counts: Counter[str]) -> Sequences:
    rows = stream.rows(positions, rules.length)
    is_cut_off = (rows == stream.separator).any(axis=1)
    counts["removed, end of document"] += int(is_cut_off.sum())
    whole = Sequences(rows, positions, copies, np.zeros(len(rows), np.int64)).select(~is_cut_off)
    trivial = trivial_sequences(whole.tokens, rules.prefix_length, rules.filters)
    for name, is_trivial in trivial.items():
        counts[f"removed, {name}"] += int(is_trivial.sum())
    return whole.select(~np.any(list(trivial.values()), axis=0))
