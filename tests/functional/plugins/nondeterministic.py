"""An attack that guesses differently each time."""

import os
from collections.abc import Iterator

import numpy as np

from harness import Attack, Context, Field, Guesses, Params


class NondeterministicParams(Params):
    reads_clock: bool = Field(False, description="Read the remaining time.")


class Nondeterministic(Attack[NondeterministicParams]):
    name = "nondeterministic"
    uses_target = False

    def run(self, context: Context) -> Iterator[Guesses]:
        if self.params.reads_clock:
            context.remaining()
        rng = np.random.default_rng(int.from_bytes(os.urandom(8), "little"))
        for batch in context.batches():
            suffixes = rng.integers(0, context.vocabulary, (len(batch.ids), context.suffix_length))
            yield Guesses(batch.ids, suffixes, batch.ids)
