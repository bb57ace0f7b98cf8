"""Draw the examples of a round from a token stream, until there are enough of them.

The definition follows the makers of the SaTML 2023 challenge (Carlini et al., "A Benchmark for Training Data Extraction
Attacks on Language Models"): the prefix of an example has one continuation in the corpus, and its suffix is not
trivial.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from harness.core.arrays import Ints
from harness.core.windows import WINDOW
from harness.corpora.filters import Filters, trivial_sequences
from harness.corpora.sequences import Prefixes, Sequences, draw_prefixes
from harness.corpora.splits import assign_splits, stratum_of, without_overlaps
from harness.corpora.token_stream import TokenStream, blocks

TRAINING, ATTACKED = "train", ("val", "test")
_DRAWN_PER_EXAMPLE, _GROWTH = 4, 4
_MOST_TOKENS = 200_000_000
"""Tokens of the sequences that one pass over the corpus draws at most, copies not counted."""


@dataclass(frozen=True)
class Rules:
    """The rules by which examples are drawn.

    sizes: the wanted number of examples by split, at least 1. strata: the minimum copies of each stratum, ascending;
    each split has equally many examples of each.
    """

    sizes: Mapping[str, int]
    prefix_length: int = 50
    suffix_length: int = 50
    strata: tuple[int, ...] = (1,)
    filters: Filters = field(default_factory=Filters)
    seed: int = 0

    @property
    def length(self) -> int:
        """The number of tokens of a sequence."""
        return self.prefix_length + self.suffix_length

    @property
    def cluster_window(self) -> int:
        """The number of tokens that sequences of one cluster share: 32, or half of a short sequence."""
        return min(WINDOW, max(1, self.length // 2))


@dataclass(frozen=True)
class Examples:
    """The examples of a round.

    splits: the sequences of each split. clusters: their clusters, [sequences] by split. counts: how many prefixes were
    drawn and what removed them, in the order of the steps.
    """

    splits: Mapping[str, Sequences]
    clusters: Mapping[str, Ints]
    counts: Mapping[str, int]


FindContexts = Callable[[Sequences], Ints]
"""Returns how many tokens a model needs to complete each sequence, 0 where no context is enough."""


def draw_examples(
    stream: TokenStream,
    rules: Rules,
    on_progress: Callable[[int, int], None],
    find_contexts: FindContexts | None = None,
) -> Examples:
    """Return the examples of all splits. There are fewer than wanted if the whole corpus does not have more.

    on_progress: called with the number of the pass over the corpus, from 1, and the tokens read in it. find_contexts:
    only sequences that a model completes are examples.
    """
    size = max(1, len(stream.tokens))
    most = _MOST_TOKENS / rules.length / size
    low, share, number = 0.0, min(most, _DRAWN_PER_EXAMPLE * sum(rules.sizes.values()) / size), 1
    counts: Counter[str] = Counter()
    found = _empty(stream, rules)
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
        found = _add(stream, prefixes, rules, found, lacking, counts, find_contexts)
        strata = stratum_of(found.copies, rules.strata)
        assigned = assign_splits(found.tokens, strata, len(rules.strata), rules.sizes, rules.cluster_window)
        lacking = assigned.lacking
        if high == 1 or not lacking:
            counts["not used"] += len(found.copies) - sum(map(len, assigned.splits.values()))
            return Examples(
                {name: found.select(which) for name, which in assigned.splits.items()},
                {name: assigned.clusters[which] for name, which in assigned.splits.items()},
                dict(counts),
            )
        low, share, number = high, min(most, _GROWTH * share), number + 1


def _add(
    stream: TokenStream,
    prefixes: Prefixes,
    rules: Rules,
    found: Sequences,
    lacking: frozenset[int],
    counts: Counter[str],
    find_contexts: FindContexts | None,
) -> Sequences:
    """Return `found` and the sequences of `prefixes` that can be examples of a `lacking` stratum; count the others."""
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
    both = Sequences.joined([found, *parts])
    separate = without_overlaps(both.positions, rules.length)
    counts["removed, overlap with another example"] += len(both.copies) - len(separate)
    # What was found before stays: it comes first.
    new = both.select(separate[len(found.copies) :])
    if find_contexts is not None:
        new = replace(new, contexts=find_contexts(new))
        counts["removed, not extractable"] += int((new.contexts == 0).sum())
        new = new.select(new.contexts > 0)
    return Sequences.joined([found, new])


def _not_trivial(stream: TokenStream, positions: Ints, copies: Ints, rules: Rules, counts: Counter[str]) -> Sequences:
    rows = stream.rows(positions, rules.length)
    is_cut_off = (rows == stream.separator).any(axis=1)
    counts["removed, end of document"] += int(is_cut_off.sum())
    whole = Sequences(rows, positions, copies, np.zeros(len(rows), np.int64)).select(~is_cut_off)
    trivial = trivial_sequences(whole.tokens, rules.prefix_length, rules.filters)
    for name, is_trivial in trivial.items():
        counts[f"removed, {name}"] += int(is_trivial.sum())
    return whole.select(~np.any(list(trivial.values()), axis=0))


def _empty(stream: TokenStream, rules: Rules) -> Sequences:
    nothing = np.empty(0, np.int64)
    return Sequences(np.empty((0, rules.length), stream.tokens.dtype), nothing, nothing, nothing)
