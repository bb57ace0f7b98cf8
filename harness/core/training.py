"""Training examples as an attack sees them; nothing of the files that they come from."""

from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Ints, Tokens


@dataclass(frozen=True)
class Training:
    """Training examples of a round, all of n rows.

    prefixes: [n, prefix length]; suffixes: [n, suffix length]; preprefixes: [n, any] or None; clusters: [n] int64,
    equal for rows that share a 32-token window among the training rows alone.
    """

    prefixes: Tokens
    suffixes: Tokens
    preprefixes: Tokens | None
    clusters: Ints

    def __len__(self) -> int:
        return len(self.prefixes)

    def part(self, rows: Ints) -> "Training":
        """The training examples at `rows`."""
        preprefixes = None if self.preprefixes is None else self.preprefixes[rows]
        return Training(self.prefixes[rows], self.suffixes[rows], preprefixes, self.clusters[rows])

    def drawn(self, count: int, seed: int) -> "Training":
        """`count` of the training examples at random, in their order; 0, or more than there are: all."""
        chosen = np.random.default_rng(seed).permutation(len(self))[: count or None]
        return self.part(np.sort(chosen))
