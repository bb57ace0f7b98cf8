"""Each token is chosen by what it leads to: a candidate counts together with the likeliest token behind it.

A memorized suffix may pass through an unlikely token and be nearly certain behind it, where greedy decoding has left
it already. So at each step the likeliest candidates are tried, and the one is taken whose own log-probability and
`weight` times that of its best successor are highest together. The paper's released code has no look-ahead; looking one
token far, and the defaults, are this file's choice.
"""

from collections.abc import Iterator

import numpy as np

from harness import Attack, Context, Field, Guesses, Params
from harness.core.arrays import Tokens
from harness.engine.walk import Walk
from harness.rankers import RANKER_HELP, Ranker, ranked


class LookaheadParams(Params):
    candidates: int = Field(4, ge=1, le=1024, description="Tokens tried at each step, the most likely ones.")
    weight: float = Field(1.0, ge=0, le=100, description="What a candidate's successor counts; 0 is greedy decoding.")
    ranker: Ranker = Field("mean_loss", description=RANKER_HELP)


class Lookahead(Attack[LookaheadParams]):
    name = "lookahead"
    reference = "Yu et al., Bag of Tricks for Training Data Extraction from Language Models, ICML 2023"

    def run(self, context: Context) -> Iterator[Guesses]:
        for batch in context.batches():
            suffixes = context.target.walk(batch.prefixes, self.followed, branches=self.params.candidates)
            score = ranked(self.params.ranker, context.target, batch.prefixes, suffixes)
            yield Guesses(batch.ids, suffixes, score)

    def followed(self, walk: Walk) -> Tokens:
        """The suffix of each prefix of a walk, [prefixes, length]."""
        while walk.suffixes.shape[1] < walk.length:
            tokens, logprobs = walk.leading(self.params.candidates)  # [prefixes, candidates]
            prefixes, candidates = tokens.shape
            walk.advance(tokens.reshape(-1), np.repeat(np.arange(prefixes), candidates))
            if walk.suffixes.shape[1] < walk.length:
                _, successor = walk.leading(1)  # [prefixes * candidates, 1]
                logprobs = logprobs + self.params.weight * successor.reshape(prefixes, candidates)
            walk.select(np.argmax(logprobs, axis=1) + candidates * np.arange(prefixes))
        return walk.suffixes
