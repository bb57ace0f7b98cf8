"""Greedy decoding with a look-ahead of one token.

A memorized suffix may contain an unlikely token and be almost certain after it, but greedy decoding has already left
the memorized text at the unlikely token. So at each step the attack tries the likeliest candidates and takes the one
with the highest sum of its own log-probability and `weight` times that of its best successor. The released code of the
paper has no look-ahead. The length of one token and the defaults are choices of this file.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from harness import Attack, Context, Field, Guesses, Params, Ranker, Tokens

if TYPE_CHECKING:
    from harness import Walk


class LookaheadParams(Params):
    candidates: int = Field(4, ge=1, le=1024, description="Tokens tried at each step, the most likely ones.")
    weight: float = Field(1.0, ge=0, le=100, description="Weight of a candidate's successor; 0 is greedy decoding.")
    ranker: Ranker = "mean_loss"


class Lookahead(Attack[LookaheadParams]):
    name = "lookahead"
    reference = "Yu et al., Bag of Tricks for Training Data Extraction from Language Models, ICML 2023"

    def run(self, context: Context) -> Iterator[Guesses]:
        for batch in context.batches():
            suffixes = context.target.walk(batch.prefixes, self.decode, branches=self.params.candidates)
            score = context.rank(batch.prefixes, suffixes, self.params.ranker)
            yield Guesses(batch.ids, suffixes, score)

    def decode(self, walk: "Walk") -> Tokens:
        """Return the suffix of each prefix of a walk, [prefixes, length]."""
        while walk.suffixes.shape[1] < walk.length:
            tokens, logprobs = walk.leading(self.params.candidates)  # [prefixes, candidates]
            prefixes, candidates = tokens.shape
            walk.advance(tokens.reshape(-1), np.repeat(np.arange(prefixes), candidates))
            if walk.suffixes.shape[1] < walk.length:
                _, successor = walk.leading(1)  # [prefixes * candidates, 1]
                logprobs = logprobs + self.params.weight * successor.reshape(prefixes, candidates)
            walk.select(np.argmax(logprobs, axis=1) + candidates * np.arange(prefixes))
        return walk.suffixes
