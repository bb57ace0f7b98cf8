"""Draw the examples of a round from a token stream, until there are enough of them.

The definition follows the makers of the SaTML 2023 challenge (Carlini et al., "A Benchmark for Training Data Extraction
Attacks on Language Models"): the prefix of an example has one continuation in the corpus, and its suffix is not
trivial.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from harness.core.arrays import Ints
from harness.corpora.filters import Filters, trivial_sequences
from harness.corpora.sequences import Drawn, Sequences, draw_sequences
from harness.corpora.splits import assign_splits, stratum_of, without_overlaps
from harness.corpora.token_stream import TokenStream

TRAINING, ATTACKED = "train", ("val", "test")
_DRAWN_PER_EXAMPLE, _GROWTH = 4, 4


@dataclass(frozen=True)
class Rules:
    """The rules by which examples are drawn.

    sizes: the wanted number of examples by split. strata: the least number of copies of each stratum, ascending; each
    split has equally many examples of each.
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


@dataclass(frozen=True)
class Examples:
    """The examples of a round.

    splits: the sequences of each split. clusters: their clusters, [sequences] by split. counts: how many prefixes were
    drawn and what removed them, in the order of the steps.
    """

    splits: Mapping[str, Sequences]
    clusters: Mapping[str, Ints]
    counts: Mapping[str, int]


Shortest = Callable[[Sequences], Ints]
"""Returns the tokens from which a model completes each sequence, 0 where no context is enough."""


def draw_examples(
    stream: TokenStream, rules: Rules, on_progress: Callable[[int, int], None], shortest: Shortest | None = None
) -> Examples:
    """Return the examples of all splits. There are fewer than wanted if the whole corpus does not have more.

    on_progress: called with the number of the pass over the corpus, from 1, and the tokens read in it. shortest: only
    sequences that a model completes are examples.
    """
    wanted = sum(rules.sizes.values())
    share = min(1.0, _DRAWN_PER_EXAMPLE * wanted / max(1, len(stream.tokens)))
    number = 1
    while True:
        drawn = draw_sequences(
            stream,
            rules.prefix_length,
            rules.suffix_length,
            share=share,
            seed=rules.seed,
            on_progress=lambda tokens, number=number: on_progress(number, tokens),  # type: ignore[misc]
        )
        examples = _split(drawn, rules, shortest)
        if share == 1 or all(len(examples.splits[name].copies) == size for name, size in rules.sizes.items()):
            return examples
        share, number = min(1.0, _GROWTH * share), number + 1


def _split(drawn: Drawn, rules: Rules, shortest: Shortest | None) -> Examples:
    """Remove trivial, overlapping and not extractable sequences, and assign the others to the splits."""
    sequences = drawn.sequences
    counts = {
        "occurrences of drawn prefixes": drawn.occurrences,
        "distinct prefixes": drawn.prefixes,
        "removed, several continuations": drawn.ambiguous,
        "removed, end of document": drawn.cut_off,
    }
    trivial = trivial_sequences(sequences.tokens, rules.prefix_length, rules.filters)
    counts |= {f"removed, {name}": int(is_trivial.sum()) for name, is_trivial in trivial.items()}
    sequences = sequences.only(~np.any(list(trivial.values()), axis=0))
    separate = without_overlaps(sequences.positions, rules.length)
    counts["removed, overlap with another example"] = len(sequences.copies) - len(separate)
    sequences = sequences.only(separate)
    if shortest is not None:
        sequences = replace(sequences, contexts=shortest(sequences))
        counts["removed, not extractable"] = int((sequences.contexts == 0).sum())
        sequences = sequences.only(sequences.contexts > 0)
    numbers, clusters = assign_splits(sequences.tokens, stratum_of(sequences.copies, rules.strata), rules.sizes)
    counts["not used"] = len(sequences.copies) - sum(map(len, numbers.values()))
    splits = {name: sequences.only(which) for name, which in numbers.items()}
    return Examples(splits, {name: clusters[which] for name, which in numbers.items()}, counts)
