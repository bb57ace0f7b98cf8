"""A soft prompt trained with a smoothing loss, and confidence calibrated among the suffixes of one prefix.

The prompt is trained on the mean loss of the suffix's tokens plus `alpha` times the mean loss of its `hardest` tokens,
because a single unlikely token is enough to miss a suffix. Then many suffixes are sampled after the prompt. The
confidence of a suffix is its count times its probability, divided by the sum of this product over all suffixes of the
prefix.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from harness import (
    Attack,
    Context,
    Field,
    Floats,
    Guesses,
    HarnessError,
    Ints,
    Params,
    Policy,
    PromptPlan,
    Schedule,
    Training,
    announce_training,
    folds_by_cluster,
    mean_loss,
    trained_prompt,
)

if TYPE_CHECKING:
    from torch import Tensor

BELOW_ALL_OTHERS = 1e6
HELD_OUT = 10  # One in ten training examples is held out and decides when the training ends.
SHARED_WORK = 0.7  # n draws after one prefix share their beginnings, and take the time of n ** 0.7 greedy suffixes.
TIE = 1e-9


class EthicistParams(Params):
    tokens: int = Field(100, ge=1, le=2048, description="Length of the soft prompt.")
    learning_rate: float = Field(1e-3, gt=0, le=10, description="Peak learning rate of AdamW.")
    warmup: int = Field(500, ge=0, description="Warm-up steps; afterwards the rate falls linearly to 0.")
    epochs: int = Field(20, ge=1, le=1000, description="Maximum number of passes over the training examples.")
    patience: int = Field(5, ge=1, le=1000, description="Passes without a lower held-out loss that end the training.")
    batch: int = Field(32, ge=1, le=4096, description="Training examples per step.")
    hardest: int = Field(5, ge=1, le=1000, description="Number of least likely tokens in the smoothing loss.")
    alpha: float = Field(0.7, ge=0, le=100, description="Weight of the smoothing loss.")
    trials: int = Field(100, ge=1, description="Suffixes sampled per prefix.")
    top_p: float = Field(0.7, gt=0, le=1, description="Mass of the smallest set of most likely tokens kept.")
    temperature: float = Field(0.8, gt=0, le=10, description="Divides the logits; below 1 sharpens.")
    examples: int = Field(0, ge=0, description="Training examples used, drawn at random; 0 for all.")


class Ethicist(Attack[EthicistParams]):
    name = "ethicist"
    reference = (
        "Zhang et al., ETHICIST: Targeted Training Data Extraction Through Loss Smoothed Soft Prompting and Calibrated "
        "Confidence Estimation, ACL 2023"
    )

    def run(self, context: Context) -> Iterator[Guesses]:
        params = self.params
        train = context.train.drawn(params.examples, context.seed)
        used, held_out = self.divide(train)
        plan = self.plan(len(used))
        context.announce("without a prompt")
        announce_training(context, used, plan)
        context.announce("guess", weight=params.trials**SHARED_WORK)
        for batch in context.batches(stage="without a prompt", size=128):
            greedy = context.target.sample(batch.prefixes, Policy(top_k=1))
            yield Guesses(batch.ids, greedy.suffixes, mean_loss(greedy.token_logprobs) - BELOW_ALL_OTHERS)
        prompted = trained_prompt(context, used, plan, self.smoothed_loss, held_out=held_out)
        policy = Policy(top_p=params.top_p, temperature=params.temperature)
        for batch in context.batches():
            prompted_target = context.target.viewed([prompted])
            drawn = prompted_target.sample(batch.prefixes, policy, trials=params.trials, seed=batch.seed)
            logprob = drawn.token_logprobs.sum(axis=1)
            confidence = calibrated_confidence(drawn.row, drawn.count, logprob)
            # The confidence of a single suffix is 1. Among those the likelier is submitted first.
            yield Guesses(batch.ids[drawn.row], drawn.suffixes, np.log(confidence) + TIE * logprob)

    def divide(self, train: Training) -> tuple[Training, Training]:
        """Return the examples that the prompt is trained on, and the held-out ones, which decide when that ends.

        Examples of one cluster are all in the same part.
        """
        fold = folds_by_cluster(train.clusters, HELD_OUT)
        # Hold out the smallest fold, because one cluster may be larger than all others together.
        is_held_out = fold == np.argmin(np.bincount(fold))
        used = train.part(np.flatnonzero(~is_held_out))
        if len(used) == 0:
            raise HarnessError(
                "ethicist needs training examples of at least two clusters, because it holds one out. Increase "
                "`examples`."
            )
        return used, train.part(np.flatnonzero(is_held_out))

    def plan(self, examples: int) -> PromptPlan:
        """Return the plan of the training on this number of examples."""
        params = self.params
        steps = params.epochs * -(-examples // params.batch)
        schedule = Schedule(params.learning_rate, warmup=min(params.warmup, steps // 2), steps=steps)
        return PromptPlan(params.tokens, schedule, 0.01, params.epochs, params.batch, params.patience)

    def smoothed_loss(self, losses: "Tensor") -> "Tensor":
        """Return the loss of each suffix, [rows], from the losses of its tokens, [rows, length]."""
        hardest = losses.topk(min(self.params.hardest, losses.shape[1]), dim=1).values
        return losses.mean(dim=1) + self.params.alpha * hardest.mean(dim=1)


def calibrated_confidence(row: Ints, count: Ints, logprob: Floats) -> Floats:
    """Return each suffix's share in the sum of counts times probabilities of its prefix, [rows], in (0, 1].

    row, count, logprob: [rows], the prefix, the draws and the log-probability of each distinct suffix.
    """
    weight = np.log(count) + logprob
    max_weight = np.full(int(row.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(max_weight, row, weight)
    share = np.exp(weight - max_weight[row])
    confidence: Floats = np.maximum(share / np.bincount(row, share)[row], np.finfo(float).tiny)
    return confidence
