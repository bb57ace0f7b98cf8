"""Sampling with a tuned policy: temperature, top-k, top-p, typical-p and a repetition penalty together.

The defaults are the values that the automatic search of the paper found for GPT-Neo 1.3B. Of the suffixes sampled for a
prefix, the attack submits the one with the best score of the chosen ranker.
"""

from collections.abc import Iterator

from harness import Attack, Context, Field, Guesses, Params, Policy, Ranker


class SamplingParams(Params):
    trials: int = Field(100, ge=1, description="Suffixes sampled per prefix.")
    temperature: float = Field(0.58, gt=0, le=10, description="Divides the logits; below 1 sharpens.")
    top_k: int = Field(24, ge=1, description="Tokens kept at each step, the most likely ones.")
    top_p: float = Field(0.8, gt=0, le=1, description="Mass of the smallest set of most likely tokens kept.")
    typical_p: float = Field(0.9, gt=0, le=1, description="Mass of the most typical tokens kept.")
    repetition_penalty: float = Field(
        1.04, gt=0, le=10, description="Divides positive logits of tokens seen before, in prefix or suffix."
    )
    ranker: Ranker = "mean_loss"


class Sampling(Attack[SamplingParams]):
    name = "sampling"
    reference = "Yu et al., Bag of Tricks for Training Data Extraction from Language Models, ICML 2023"

    def run(self, context: Context) -> Iterator[Guesses]:
        policy = Policy(**self.params.model_dump(exclude={"trials", "ranker"}))
        for batch in context.batches(trials=self.params.trials):
            drawn = context.target.sample(batch.prefixes, policy, trials=batch.trials, seed=batch.seed)
            score = context.rank(
                batch.prefixes[drawn.row],
                drawn.suffixes,
                self.params.ranker,
                token_logprobs=drawn.token_logprobs,
                last_prefix_logprob=drawn.last_prefix_logprob[drawn.row],
            )
            yield Guesses(batch.ids[drawn.row], drawn.suffixes, score, batch.trial(drawn.first))
