"""Top-k sampling ranked by mean token loss: the challenge's own baseline.

The attack samples suffixes for each prefix, submits the one with the lowest mean loss, and orders the prefixes by that
loss. The official script computes the mean over a window that begins one token early: it includes the last token of the
prefix and excludes the last token of the suffix. `loss_slice=official` keeps this window so that results can be
compared; `corrected` uses the suffix's own tokens.
"""

from collections.abc import Iterator
from typing import Literal

from harness import Attack, Context, Field, Guesses, Params, Policy, mean_loss, official_loss


class BaselineParams(Params):
    trials: int = Field(100, ge=1, description="Suffixes sampled per prefix.")
    top_k: int = Field(10, ge=1, description="Tokens kept at each step, the most likely ones.")
    loss_slice: Literal["official", "corrected"] = Field(
        "official", description="Tokens whose mean loss ranks a suffix: the official window or the suffix's own."
    )


class Baseline(Attack[BaselineParams]):
    name = "baseline"
    reference = (
        "Carlini et al., SaTML 2023 training data extraction challenge, baseline/simple_baseline.py in "
        "github.com/google-research/lm-extraction-benchmark"
    )

    def run(self, context: Context) -> Iterator[Guesses]:
        policy = Policy(top_k=self.params.top_k)
        for batch in context.batches(trials=self.params.trials):
            drawn = context.target.sample(batch.prefixes, policy, trials=batch.trials, seed=batch.seed)
            if self.params.loss_slice == "official":
                score = official_loss(drawn.token_logprobs, drawn.last_prefix_logprob[drawn.row])
            else:
                score = mean_loss(drawn.token_logprobs)
            yield Guesses(batch.ids[drawn.row], drawn.suffixes, score, batch.trial(drawn.first))
