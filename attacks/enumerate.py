"""The likeliest suffixes under a policy, found by search and ordered by their exact probabilities.

Sampling draws the same suffixes repeatedly; a search visits each partial suffix once. `width` is the beam width: how
many partial suffixes of each prefix are kept. `least` drops partial suffixes that cannot become a suffix of at least
that probability.
"""

from collections.abc import Iterator
from typing import Literal

from harness import Attack, Context, Field, Guesses, Params, Policy


class EnumerateParams(Params):
    width: int = Field(8, ge=1, le=4096, description="Beam width for each prefix.")
    least: float = Field(0.0, ge=0, lt=1, description="Minimum probability of a suffix; 0 for no minimum.")
    top_k: int = Field(10, ge=0, description="Tokens that the policy allows at each step; 0 for all.")
    temperature: float = Field(1.0, gt=0, le=10, description="Temperature of the policy.")
    rank_by: Literal["policy", "model"] = Field("model", description="Probability that orders the suffixes.")


class Enumerate(Attack[EnumerateParams]):
    name = "enumerate"
    reference = (
        "k-best decoding: Lowerre, The Harpy Speech Recognition System, 1976; probabilities after Hayes et al. 2025"
    )

    def run(self, context: Context) -> Iterator[Guesses]:
        params = self.params
        policy = Policy(top_k=params.top_k or None, temperature=params.temperature)
        for batch in context.batches():
            likely = context.target.search(batch.prefixes, params.width, policy, least=params.least or None)
            score = likely.token_logprobs.sum(axis=1) if params.rank_by == "model" else likely.policy_logprob
            yield Guesses(batch.ids[likely.row], likely.suffixes, score)
