"""An attack that yields a million guesses as fast as it can."""

from collections.abc import Iterator

import numpy as np

from harness import Attack, Context, Field, Guesses, Params


class MillionParams(Params):
    guesses: int = Field(1_000_000, ge=1, description="Number of guesses.")
    rows: int = Field(20_000, ge=1, description="Number of guesses per yield.")


class Million(Attack[MillionParams]):
    name = "million"
    uses_target = False
    guesses_per_example = 0

    def run(self, context: Context) -> Iterator[Guesses]:
        rng = np.random.default_rng(0)
        for first in range(0, self.params.guesses, self.params.rows):
            number = np.arange(first, min(first + self.params.rows, self.params.guesses))
            suffixes = rng.integers(0, context.vocabulary, (len(number), context.suffix_length))
            # Later guesses have higher scores.
            yield Guesses(number % len(context.ids), suffixes, number)
