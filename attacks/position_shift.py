"""The prefix is shown at shifted positions: a model that read it in the middle of a document remembers it there.

A training example stood somewhere in its context, and its first token seldom at position 0. `average` follows the mean
of the log-probabilities over all shifts; `choose` takes, for each prefix, the one shift under which the prefix itself
is likeliest, and follows that. The paper's released code shifts nothing; which shifts are tried is this file's choice.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np

from harness import Attack, Batch, Context, Field, Guesses, Params, Policy, PrefixView
from harness.core.arrays import Ints, Tokens
from harness.rankers import RANKER_HELP, Ranker, ranked


class PositionShiftParams(Params):
    shifts: int = Field(4, ge=1, le=64, description="How many shifts, the first of which is none.")
    step: int = Field(1, ge=1, le=1024, description="Positions between a shift and the next.")
    combine: Literal["average", "choose"] = Field("average", description="Follow all shifts, or each prefix's best.")
    ranker: Ranker = Field("mean_loss", description=RANKER_HELP)


class PositionShift(Attack[PositionShiftParams]):
    name = "position_shift"
    reference = "Yu et al., Bag of Tricks for Training Data Extraction from Language Models, ICML 2023"

    def run(self, context: Context) -> Iterator[Guesses]:
        views = [PrefixView(shift=number * self.params.step) for number in range(self.params.shifts)]
        for batch in context.batches(size=128):
            if self.params.combine == "average":
                suffixes = context.target.viewed(views).sample(batch.prefixes, Policy(top_k=1)).suffixes
            else:
                suffixes = self._chosen(context, batch, views)
            score = ranked(self.params.ranker, context.target, batch.prefixes, suffixes)
            yield Guesses(batch.ids, suffixes, score)

    def _chosen(self, context: Context, batch: Batch, views: list[PrefixView]) -> Tokens:
        """Greedy suffixes [n, length], each under the shift that makes its own prefix likeliest."""
        best = likeliest_view(context, batch.prefixes, views)  # [n]
        suffixes = np.zeros((len(batch.ids), context.suffix_length), np.int64)
        for number, view in enumerate(views):
            rows = np.flatnonzero(best == number)
            suffixes[rows] = context.target.viewed([view]).sample(batch.prefixes[rows], Policy(top_k=1)).suffixes
        return suffixes


def likeliest_view(context: Context, prefixes: Tokens, views: list[PrefixView]) -> Ints:
    """Which of `views` gives each of prefixes [n, prefix length] the highest likelihood after its first token, [n]."""
    likelihood = [
        context.target.score(prefixes[:, :1], prefixes[:, 1:], view).token_logprobs.sum(axis=1) for view in views
    ]
    best: Ints = np.argmax(likelihood, axis=0)
    return best
