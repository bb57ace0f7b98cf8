"""Training a soft prompt: embeddings before a prefix that make the target produce what it has memorized.

The target's weights do not change. AdamW (Loshchilov and Hutter 2019) updates the prompt alone.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from harness.core.arrays import Floats, Floats32, Tokens
from harness.core.errors import HarnessError
from harness.core.examples import Schedule
from harness.core.policy import PrefixView
from harness.engine.memory import run_within_memory
from harness.engine.target import Target

_MAX_SCALE = 65536.0
_HEAD_ROWS = 512
"""The number of positions whose logits are in memory at once."""

SuffixLoss = Callable[[Tensor], Tensor]
"""Maps the losses of suffix tokens [rows, length] to one loss per row, [rows], all float32 with gradients."""


class PromptTuning:
    """A soft prompt in training.

    state: everything that the next step depends on, float32 [2 + 3 * tokens * width]: the number of steps, the rows
    that fit into memory (0 for all), the prompt, and AdamW's two moments. A new PromptTuning with this state continues
    the training exactly.
    """

    def __init__(
        self,
        target: Target,
        tokens: int,
        schedule: Schedule,
        *,
        weight_decay: float = 0.0,
        state: Floats32 | None = None,
    ) -> None:
        """Start from the embeddings of the vocabulary's first `tokens` tokens, as published, or from `state`."""
        self._target = target
        self._schedule = schedule
        embeddings = target.model.get_input_embeddings()
        if not isinstance(embeddings, nn.Embedding):
            raise HarnessError(
                f"a soft prompt needs an embedding table: {type(target.model).__name__} has none. Choose another model."
            )
        # Gemma scales them.
        ids = torch.arange(min(tokens, embeddings.num_embeddings), device=embeddings.weight.device)
        first = embeddings(ids).detach().float()
        if len(first) < tokens:
            raise HarnessError(
                f"a soft prompt of {tokens} tokens is longer than the vocabulary of {len(first)}. Use fewer tokens."
            )
        self._prompt = nn.Parameter(first.clone())
        self._optimizer = torch.optim.AdamW([self._prompt], lr=schedule.rate, weight_decay=weight_decay)
        self._rows = 0
        self.steps = 0
        self.restore(state)

    @property
    def prompt(self) -> Floats:
        """The current prompt, [tokens, width]."""
        return self._prompt.detach().cpu().numpy().astype(np.float64)

    @property
    def view(self) -> PrefixView:
        """A view with the prompt before the prefix."""
        return PrefixView(prompt=self.prompt)

    @property
    def state(self) -> Floats32:
        """The state described in the class docstring."""
        moments = self._optimizer.state.get(self._prompt, {})
        nothing = torch.zeros_like(self._prompt)
        parts = [self._prompt.detach(), moments.get("exp_avg", nothing), moments.get("exp_avg_sq", nothing)]
        flat = [part.cpu().numpy().reshape(-1) for part in parts]
        return np.concatenate([np.array([self.steps, self._rows], np.float32), *flat])

    def step(self, prefixes: Tokens, suffixes: Tokens, loss: SuffixLoss) -> float:
        """Train one step on prefixes [rows, prefix length] and suffixes [rows, length]; return the mean loss before it.

        Raises HarnessError if loss or gradient are not finite, the context is too short, or memory does not suffice.
        """
        (mean, gradient), rows = run_within_memory(
            lambda rows: self._gradient(prefixes, suffixes, loss, rows),
            min(len(prefixes), self._rows or len(prefixes)),
            place=self._target.place,
            problem="no room to train on one sequence. Free memory or use fewer prompt tokens or a smaller --dtype.",
        )
        if rows < len(prefixes):
            self._rows = rows
        if not (math.isfinite(mean) and bool(torch.isfinite(gradient).all())):
            raise HarnessError(
                f"the soft prompt's training diverged at step {self.steps + 1} with a loss of {mean:g}. Use a lower "
                "learning rate or --dtype float32."
            )
        self._prompt.grad = gradient
        for group in self._optimizer.param_groups:
            group["lr"] = self._schedule.at(self.steps)
        self._optimizer.step()
        self.steps += 1
        return mean

    def _gradient(
        self, prefixes: Tokens, suffixes: Tokens, loss: SuffixLoss, rows_at_once: int
    ) -> tuple[float, Tensor]:
        total, gradient = 0.0, torch.zeros_like(self._prompt)
        for first in range(0, len(prefixes), rows_at_once):
            rows = slice(first, first + rows_at_once)
            losses = loss(suffix_losses(self._target, self._prompt, prefixes[rows], suffixes[rows]))  # [rows]
            share = losses.sum() / len(prefixes)
            gradient += self._scaled_gradient(share)
            total += float(share.detach())
        return total, gradient

    def _scaled_gradient(self, loss: Tensor) -> Tensor:
        """Return the gradient of `loss`, computed from a larger one in float16, which has no small numbers.

        The scale is the largest for which the gradient is finite (Micikevicius et al. 2018).
        """
        scale = _MAX_SCALE if self._target.dtype == torch.float16 else 1.0
        while True:
            gradient = torch.autograd.grad(loss * scale, self._prompt, retain_graph=scale > 1)[0] / scale
            if scale == 1 or bool(torch.isfinite(gradient).all()):
                return gradient
            scale /= 16

    def restore(self, state: Floats32 | None) -> None:
        """Continue from `state`. None, and a state that is not later than this one, changes nothing."""
        if state is None or state[0] <= self.steps:
            return
        count = self._prompt.numel()
        if state.shape != (2 + 3 * count,):
            raise HarnessError(f"the stored soft prompt has {(len(state) - 2) // 3} numbers, not {count}. Retrain it.")
        self.steps, self._rows = int(state[0]), int(state[1])
        prompt, mean, square = (
            torch.as_tensor(part.reshape(self._prompt.shape), dtype=torch.float32, device=self._prompt.device)
            for part in np.split(state[2:], 3)
        )
        with torch.no_grad():
            self._prompt.copy_(prompt)
        moments = {"step": torch.tensor(float(self.steps)), "exp_avg": mean, "exp_avg_sq": square}
        self._optimizer.state[self._prompt].update(moments)


def mean_of(loss: SuffixLoss, losses: Floats) -> float:
    """Return the mean of `loss` over suffixes, whose tokens have `losses` [rows, length]."""
    return float(loss(torch.as_tensor(losses, dtype=torch.float32)).mean())


def suffix_losses(target: Target, prompt: Tensor, prefixes: Tokens, suffixes: Tokens) -> Tensor:
    """Return the losses of suffixes [rows, length] after `prompt` [tokens, width] and prefixes [rows, prefix length].

    The result is float32 [rows, length], with a gradient for the prompt. Raises HarnessError if the context is too
    short.
    """
    has_bos = target.runner.has_bos(prefixes).any(axis=1)
    if has_bos.any() and not has_bos.all():
        # Rows that begin with the bos token themselves have it once, so they are shorter than the others.
        groups = [np.flatnonzero(has_bos), np.flatnonzero(~has_bos)]
        losses = torch.cat([suffix_losses(target, prompt, prefixes[rows], suffixes[rows]) for rows in groups])
        return losses[torch.as_tensor(np.argsort(np.concatenate(groups)), device=losses.device)]
    length = suffixes.shape[1]
    target.require(prefix_length=prefixes.shape[1], suffix_length=length, further=len(prompt))
    whole = np.concatenate([prefixes, suffixes], axis=1).astype(np.int64)
    tokens = torch.as_tensor(whole, device=target.device)
    if target.runner.begin_with_bos(tokens):
        tokens = tokens[:, 1:]
    with torch.no_grad():
        embedded = target.model.get_input_embeddings()(tokens[:, :-1])
    before = target.runner.after_bos(prompt)
    inputs = torch.cat([before.expand(len(tokens), -1, -1), embedded], dim=1)
    targets = tokens[:, -length:].flatten()
    backbone, head = target.runner.backbone, target.runner.head

    def logits_of(states: Tensor) -> Tensor:
        """Return the logits of states, as `ModelRunner.logits` does, by modules that have a gradient."""
        return target.runner.cap_logits(head(states)) if head is not None else states

    if backbone is None or head is None:
        logits = target.model(inputs_embeds=inputs, use_cache=False, logits_to_keep=length).logits
        losses = _cross_entropy(logits_of, logits.flatten(0, 1), targets, target.vocabulary)
    else:
        states = backbone(inputs_embeds=inputs, use_cache=False).last_hidden_state[:, -length:].flatten(0, 1)
        # Logits exist for one part at a time and are recomputed for the gradient (Chen et al. 2016).
        losses = torch.cat(
            [
                checkpoint(_cross_entropy, logits_of, part, wanted_part, target.vocabulary, use_reentrant=False)
                for part, wanted_part in zip(
                    torch.split(states, _HEAD_ROWS), torch.split(targets, _HEAD_ROWS), strict=True
                )
            ]
        )
    return losses.view(len(tokens), length)


def _cross_entropy(head: Callable[[Tensor], Tensor], states: Tensor, targets: Tensor, vocabulary: int) -> Tensor:
    """Return the losses of the tokens wanted [n] after states [n, width], float32 [n]."""
    return F.cross_entropy(head(states)[:, :vocabulary].float(), targets, reduction="none")
