"""The prefix at shifted positions, where the model may have seen it in training.

A training example was at some position in its context, rarely at position 0. `average` follows the mean of the
log-probabilities over all shifts. `choose` takes, for each prefix, the shift that gives the prefix itself the highest
likelihood. The released code of the paper shifts nothing; the set of shifts is a choice of this file.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np

from harness import (
    Attack,
    Batch,
    Context,
    Field,
    Guesses,
    Ints,
    Params,
    Policy,
    PrefixView,
    Ranker,
    Tokens,
)


class PositionShiftParams(Params):
    shifts: int = Field(4, ge=1, le=64, description="Number of shifts; the first is 0.")
    step: int = Field(1, ge=1, le=1024, description="Positions between two shifts.")
    combine: Literal["average", "choose"] = Field("average", description="Average all shifts, or choose the best.")
    ranker: Ranker = "mean_loss"


class PositionShift(Attack[PositionShiftParams]):
    name = "position_shift"
    reference = "Yu et al., Bag of Tricks for Training Data Extraction from Language Models, ICML 2023"

    def run(self, context: Context) -> Iterator[Guesses]:
        views = [PrefixView(shift=number * self.params.step) for number in range(self.params.shifts)]
        for batch in context.batches(size=128):
            if self.params.combine == "average":
                suffixes = context.target.viewed(views).sample(batch.prefixes, Policy(top_k=1)).suffixes
            else:
                suffixes = self._choose(context, batch, views)
            score = context.rank(batch.prefixes, suffixes, self.params.ranker)
            yield Guesses(batch.ids, suffixes, score)

    def _choose(self, context: Context, batch: Batch, views: list[PrefixView]) -> Tokens:
        """Return greedy suffixes [n, length], each with the shift that gives its own prefix the highest likelihood."""
        best = likeliest_view(context, batch.prefixes, views)  # [n]
        suffixes = np.zeros((len(batch.ids), context.suffix_length), np.int64)
        for number, view in enumerate(views):
            rows = np.flatnonzero(best == number)
            suffixes[rows] = context.target.viewed([view]).sample(batch.prefixes[rows], Policy(top_k=1)).suffixes
        return suffixes


def likeliest_view(context: Context, prefixes: Tokens, views: list[PrefixView]) -> Ints:
    """Return which of `views` gives each of prefixes [n, prefix length] the highest likelihood, [n].

    The first token has no likelihood and is left out.
    """
    likelihood = [
        context.target.score(prefixes[:, :1], prefixes[:, 1:], view).token_logprobs.sum(axis=1) for view in views
    ]
    best: Ints = np.argmax(likelihood, axis=0)
    return best
