"""Contrastive search: likely tokens whose hidden states do not repeat earlier ones.

At each step the attack tries the `top_k` likeliest tokens and takes the one with the highest (1 - penalty) *
probability - penalty * similarity, where similarity is the largest cosine similarity of the token's hidden state to the
hidden states of the context. A model that repeats itself has lost the memorized text, and the penalty prevents
repetition. The defaults are the values in the examples of Su et al.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from harness import Attack, Context, Field, Guesses, Params, Ranker, Tokens

if TYPE_CHECKING:
    from torch import Tensor

    from harness import Walk


class ContrastiveParams(Params):
    top_k: int = Field(8, ge=1, le=1024, description="Tokens tried at each step, the most likely ones.")
    penalty: float = Field(0.6, ge=0, le=1, description="Weight of the similarity; 0 is greedy decoding.")
    ranker: Ranker = "mean_loss"


class Contrastive(Attack[ContrastiveParams]):
    name = "contrastive"
    reference = (
        "Al-Kaswan et al., Targeted Attack on GPT-Neo for the SATML Language Model Data Extraction Challenge, 2023; "
        "Su et al., A Contrastive Framework for Neural Text Generation, NeurIPS 2022"
    )

    def run(self, context: Context) -> Iterator[Guesses]:
        for batch in context.batches():
            suffixes = context.target.walk(batch.prefixes, self.decode, branches=self.params.top_k)
            score = context.rank(batch.prefixes, suffixes, self.params.ranker)
            yield Guesses(batch.ids, suffixes, score)

    def decode(self, walk: "Walk") -> Tokens:
        """Return the suffix of each prefix of a walk, [prefixes, length]."""
        import torch  # slow, and not needed to show the parameters

        penalty = self.params.penalty
        context = directions(walk.prefix_states)  # [prefixes, tokens so far, width]
        while walk.suffixes.shape[1] < walk.length:
            tokens, logprobs = walk.leading(self.params.top_k)  # [prefixes, candidates]
            prefixes, candidates = tokens.shape
            walk.advance(tokens.reshape(-1), np.repeat(np.arange(prefixes), candidates))
            tried = directions(walk.states).view(prefixes, candidates, -1)
            repeats = (tried @ context.transpose(1, 2)).amax(dim=2)  # [prefixes, candidates]
            score = (1 - penalty) * np.exp(logprobs) - penalty * repeats.cpu().numpy()
            best = np.argmax(score, axis=1)
            walk.select(best + candidates * np.arange(prefixes))
            context = torch.cat([context, directions(walk.states).unsqueeze(1)], dim=1)
        return walk.suffixes


def directions(states: "Tensor") -> "Tensor":
    """Return hidden states [..., width] scaled to length one, float32."""
    from torch.nn.functional import normalize

    return normalize(states.float(), dim=-1)
