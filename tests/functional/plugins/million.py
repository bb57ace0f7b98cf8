"""A million guesses, as fast as they can be made."""

from collections.abc import Iterator

import numpy as np

from harness import Attack, Context, Field, Guesses, Params


class MillionParams(Params):
    guesses: int = Field(1_000_000, ge=1, description="How many in all.")
    at_once: int = Field(20_000, ge=1, description="How many a yield.")


class Million(Attack[MillionParams]):
    name = "million"
    uses_target = False
    guesses_per_example = 0

    def run(self, context: Context) -> Iterator[Guesses]:
        rng = np.random.default_rng(0)
        for first in range(0, self.params.guesses, self.params.at_once):
            number = np.arange(first, min(first + self.params.at_once, self.params.guesses))
            suffixes = rng.integers(0, context.vocabulary, (len(number), context.suffix_length))
            # The score is the number: the best are the last.
            yield Guesses(number % len(context.ids), suffixes, number)
