"""The training examples that an attack gets, and the learning rate of an attack that trains."""

from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Ints, Tokens


@dataclass(frozen=True)
class Training:
    """Training examples of a round, n rows.

    prefixes: [n, prefix length]. suffixes: [n, suffix length]. preprefixes: [n, any] or None. clusters: [n] int64,
    equal for training rows that share a 32-token window.
    """

    prefixes: Tokens
    suffixes: Tokens
    preprefixes: Tokens | None
    clusters: Ints

    def __len__(self) -> int:
        return len(self.prefixes)

    @property
    def whole(self) -> Tokens:
        """The tokens of each example, [n, any]: the known ones before its prefix, its prefix and its suffix."""
        parts = (self.preprefixes, self.prefixes, self.suffixes)
        return np.concatenate([part for part in parts if part is not None], axis=1)

    def part(self, rows: Ints) -> "Training":
        """Return the training examples at `rows`."""
        preprefixes = None if self.preprefixes is None else self.preprefixes[rows]
        return Training(self.prefixes[rows], self.suffixes[rows], preprefixes, self.clusters[rows])

    def drawn(self, count: int, seed: int) -> "Training":
        """Return `count` random training examples in their original order, or all if `count` is 0 or too large."""
        chosen = np.random.default_rng(seed).permutation(len(self))[: count or None]
        return self.part(np.sort(chosen))


@dataclass(frozen=True)
class Schedule:
    """The learning rate: linear up to `rate` in `warmup` steps, then linear down to 0 at `steps`.

    It is constant after the warm-up if `steps` is 0.
    """

    rate: float
    warmup: int = 0
    steps: int = 0

    def at(self, step: int) -> float:
        """Return the rate of step number `step`, counted from 0."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        if not self.steps:
            return self.rate
        return self.rate * max(0.0, (self.steps - step) / max(1, self.steps - self.warmup))
