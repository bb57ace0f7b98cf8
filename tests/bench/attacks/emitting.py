"""An attack that yields guesses as fast as it can."""

from collections.abc import Iterator

import numpy as np

from harness import Attack, Context, Field, Guesses, Params


class EmittingParams(Params):
    guesses: int = Field(300_000, ge=1, description="Number of guesses.")
    rows: int = Field(1000, ge=1, description="Number of guesses per yield.")


class Emitting(Attack[EmittingParams]):
    name = "emitting"
    uses_target = False
    guesses_per_example = 0

    def run(self, context: Context) -> Iterator[Guesses]:
        rng = np.random.default_rng(0)
        suffixes = rng.integers(0, context.vocabulary, (self.params.rows, context.suffix_length), dtype=np.uint16)
        for first in range(0, self.params.guesses, self.params.rows):
            number = np.arange(first, first + self.params.rows)
            suffixes[:, :2] = np.stack([number % 50000, number // 50000], axis=1)
            yield Guesses(number % len(context.ids), suffixes.copy(), score=number / 2)
