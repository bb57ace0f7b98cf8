"""Training a soft prompt on a run's training examples, resumable after each step."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.core.attack import Context
from harness.core.examples import Schedule, Training
from harness.core.policy import PrefixView

if TYPE_CHECKING:
    from harness.engine.prompt_tuning import SuffixLoss

_SECONDS_BETWEEN_STATES = 5.0
_TOKENS_PER_SUFFIX = 60
"""Tokens of training examples in the time of one greedy suffix, measured on two cores with the demo target."""


@dataclass(frozen=True)
class PromptPlan:
    """The hyperparameters of a prompt's training.

    tokens: the length of the prompt.
    schedule: the learning rate by step.
    weight_decay: the weight decay of AdamW.
    epochs: passes over the examples.
    batch: examples per step.
    patience: the training ends after this many passes without a lower loss on the held-out examples; 0 for never.
    """

    tokens: int
    schedule: Schedule
    weight_decay: float
    epochs: int
    batch: int
    patience: int = 0


def announce_training(context: Context, train: Training, plan: PromptPlan) -> None:
    """Announce the epochs of `trained_prompt`, so that progress and ETA include them from the start.

    Raises HarnessError if the target's context is too short for the prompt before the round's prefixes and suffixes.
    """
    lengths = {"prefix_length": context.prefixes.shape[1], "suffix_length": context.suffix_length}
    context.target.require(**lengths, further=plan.tokens)
    for epoch in range(plan.epochs):
        length = plan.tokens + train.prefixes.shape[1] + train.suffixes.shape[1]
        context.announce(_stage(epoch), over=train, weight=length / _TOKENS_PER_SUFFIX)


def trained_prompt(
    context: Context, train: Training, plan: PromptPlan, loss: "SuffixLoss", held_out: Training | None = None
) -> PrefixView:
    """Train a prompt and return it as a view: the last prompt, or the one with the lowest mean loss on `held_out`.

    Call `announce_training` first. A run that was killed continues at the step where it stopped. A run that is asked to
    finish ends its training and gets no further batches, so only the guesses from before the training are submitted.
    """
    # loads torch, which the parameters do not need
    from harness.engine.prompt_tuning import PromptTuning, mean_of

    tuning = PromptTuning(
        context.target, plan.tokens, plan.schedule, weight_decay=plan.weight_decay, state=context.kept("tuning")
    )
    steps_per_epoch = -(-len(train) // plan.batch)
    best: tuple[float, PrefixView] | None = None
    worse, kept_at = 0, 0.0
    for epoch in range(plan.epochs):
        order = np.random.default_rng([context.seed, epoch]).permutation(len(train))
        for batch in context.batches(stage=_stage(epoch), over=train.part(order), size=plan.batch):
            step = epoch * steps_per_epoch + int(batch.ids[0]) // plan.batch
            # After a resume the state may be some steps older, or one step newer, than the batches that are done.
            while tuning.steps <= step:
                rows = order[(tuning.steps - epoch * steps_per_epoch) * plan.batch :][: plan.batch]
                tuning.step(train.prefixes[rows], train.suffixes[rows], loss)
            is_last = step + 1 == (epoch + 1) * steps_per_epoch
            if is_last or time.monotonic() - kept_at >= _SECONDS_BETWEEN_STATES:
                context.keep("tuning", tuning.state)
                kept_at = time.monotonic()
        if tuning.steps < (epoch + 1) * steps_per_epoch:
            # Another worker of the run may have trained the prompt.
            tuning.restore(context.kept("tuning"))
        if tuning.steps < (epoch + 1) * steps_per_epoch:
            return tuning.view
        if held_out is None:
            continue
        kept = context.kept(_stage(epoch))
        if kept is None:
            scored = context.target.score(held_out.prefixes, held_out.suffixes, tuning.view)
            kept = np.concatenate([[mean_of(loss, -scored.token_logprobs)], tuning.prompt.reshape(-1)])
            context.keep(_stage(epoch), kept)
        held_out_loss, prompt = float(kept[0]), kept[1:].reshape(plan.tokens, -1)
        if best is None or held_out_loss < best[0]:
            best, worse = (held_out_loss, PrefixView(prompt=prompt)), 0
        else:
            worse += 1
        if plan.patience and worse >= plan.patience:
            for later in range(epoch + 1, plan.epochs):
                context.announce(_stage(later), trials=0)
            break
    return tuning.view if best is None else best[1]


def _stage(epoch: int) -> str:
    return f"epoch {epoch + 1}"
