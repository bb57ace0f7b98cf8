"""Training a soft prompt: embeddings before a prefix that make the target say what it has read behind it.

The target's weights stay as they are; AdamW (Loshchilov and Hutter 2019) moves the prompt alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from harness.core.arrays import Floats, Tokens
from harness.core.errors import HarnessError
from harness.core.view import PrefixView
from harness.engine.memory import is_out_of_memory
from harness.engine.target import Target

_HEAD_ROWS = 512
"""Positions whose logits are in memory at once."""

SuffixLoss = Callable[[Tensor], Tensor]
"""From the losses of suffix tokens [rows, length] to one loss for each row, [rows], all float32 with gradients."""


@dataclass(frozen=True)
class Schedule:
    """The learning rate: up to `rate` in `warmup` steps, then down to 0 at `steps`; constant where `steps` is 0."""

    rate: float
    warmup: int = 0
    steps: int = 0

    def at(self, step: int) -> float:
        """The rate of step number `step`, from 0 on."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        if not self.steps:
            return self.rate
        return self.rate * max(0.0, (self.steps - step) / max(1, self.steps - self.warmup))


class PromptTuning:
    """A soft prompt in training.

    state: everything that the next step depends on, float64 [2 + 3 * tokens * width]: the steps done, the rows that
    memory has room for (0: any), the prompt, and its two moments. Kept after a step and handed to a new tuning, it goes
    on as if nothing had happened.
    """

    def __init__(
        self, target: Target, tokens: int, schedule: Schedule, *, weight_decay: float = 0.0, state: Floats | None = None
    ) -> None:
        """Begin with the embeddings of the vocabulary's first `tokens` tokens, as published, or with `state`."""
        self._target = target
        self._schedule = schedule
        embeddings = target.model.get_input_embeddings()
        if not isinstance(embeddings, nn.Embedding):
            raise HarnessError(f"{type(target.model).__name__} models have no table of embeddings to begin from.")
        first = embeddings.weight.detach()[:tokens].float()
        if len(first) < tokens:
            raise HarnessError(f"a soft prompt of {tokens} tokens is longer than the vocabulary of {len(first)}.")
        self._prompt = nn.Parameter(first.clone())
        self._optimizer = torch.optim.AdamW([self._prompt], lr=schedule.rate, weight_decay=weight_decay)
        self._rows = 0
        self.steps = 0
        if state is not None:
            self._restore(state)

    @property
    def prompt(self) -> Floats:
        """The prompt as it is now, [tokens, width]."""
        return self._prompt.detach().cpu().numpy().astype(np.float64)

    @property
    def view(self) -> PrefixView:
        """A view with the prompt before the prefix."""
        return PrefixView(prompt=self.prompt)

    @property
    def state(self) -> Floats:
        """As the class says."""
        moments = self._optimizer.state.get(self._prompt, {})
        nothing = torch.zeros_like(self._prompt)
        parts = [self._prompt.detach(), moments.get("exp_avg", nothing), moments.get("exp_avg_sq", nothing)]
        flat = [part.double().cpu().numpy().reshape(-1) for part in parts]
        return np.concatenate([[float(self.steps), float(self._rows)], *flat])

    def step(self, prefixes: Tokens, suffixes: Tokens, loss: SuffixLoss) -> float:
        """One step on prefixes [rows, prefix length] and suffixes [rows, length]; returns the mean loss before it.

        Raises HarnessError when loss or gradient are no numbers, the context is too short, or memory does not suffice.
        """
        mean, gradient = self._within_memory(prefixes, suffixes, loss)
        if not (math.isfinite(mean) and bool(torch.isfinite(gradient).all())):
            raise HarnessError(
                f"the training of the soft prompt left the range of numbers at step {self.steps + 1}, with a loss of "
                f"{mean:g}; a lower learning rate or --dtype float32 may keep it there."
            )
        self._prompt.grad = gradient
        for group in self._optimizer.param_groups:
            group["lr"] = self._schedule.at(self.steps)
        self._optimizer.step()
        self.steps += 1
        return mean

    def _within_memory(self, prefixes: Tokens, suffixes: Tokens, loss: SuffixLoss) -> tuple[float, Tensor]:
        """The mean loss and its gradient, with half as many rows at once each time memory runs out."""
        while True:
            rows = min(len(prefixes), self._rows or len(prefixes))
            try:
                return self._gradient(prefixes, suffixes, loss, rows)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if rows == 1:
                    raise HarnessError(
                        f"the memory of {self._target.device} does not suffice to train on one sequence at a time; "
                        "free some, or take a shorter soft prompt or a smaller --dtype."
                    ) from None
            self._rows = rows // 2

    def _gradient(
        self, prefixes: Tokens, suffixes: Tokens, loss: SuffixLoss, rows_at_once: int
    ) -> tuple[float, Tensor]:
        total, gradient = 0.0, torch.zeros_like(self._prompt)
        for first in range(0, len(prefixes), rows_at_once):
            rows = slice(first, first + rows_at_once)
            losses = loss(suffix_losses(self._target, self._prompt, prefixes[rows], suffixes[rows]))  # [rows]
            share = losses.sum() / len(prefixes)
            gradient += torch.autograd.grad(share, self._prompt)[0]
            total += float(share.detach())
        return total, gradient

    def _restore(self, state: Floats) -> None:
        count = self._prompt.numel()
        if state.shape != (2 + 3 * count,):
            raise HarnessError(f"a kept prompt of {(len(state) - 2) // 3} numbers does not fit one of {count}.")
        self.steps, self._rows = int(state[0]), int(state[1])
        prompt, mean, square = (
            torch.as_tensor(part.reshape(self._prompt.shape), dtype=torch.float32, device=self._prompt.device)
            for part in np.split(state[2:], 3)
        )
        with torch.no_grad():
            self._prompt.copy_(prompt)
        if self.steps:
            moments = {"step": torch.tensor(float(self.steps)), "exp_avg": mean, "exp_avg_sq": square}
            self._optimizer.state[self._prompt].update(moments)


def suffix_losses(target: Target, prompt: Tensor, prefixes: Tokens, suffixes: Tokens) -> Tensor:
    """The losses of suffixes [rows, length] behind `prompt` [tokens, width] and prefixes [rows, prefix length].

    Float32 [rows, length], with a gradient for the prompt. Raises HarnessError when the context is too short.
    """
    length = suffixes.shape[1]
    target.require(prefix_length=prefixes.shape[1], suffix_length=length, further=len(prompt))
    whole = np.concatenate([prefixes, suffixes], axis=1).astype(np.int64)
    tokens = torch.as_tensor(whole, device=target.device)
    with torch.no_grad():
        embedded = target.model.get_input_embeddings()(tokens[:, :-1])
    inputs = torch.cat([prompt.to(embedded.dtype).expand(len(tokens), -1, -1), embedded], dim=1)
    wanted = tokens[:, -length:].flatten()
    backbone, head = target.trunk.backbone, target.trunk.head
    if backbone is None or head is None:
        logits = target.model(inputs_embeds=inputs, use_cache=False, logits_to_keep=length).logits
        losses = _cross_entropy(nn.Identity(), logits.flatten(0, 1), wanted)
    else:
        states = backbone(inputs_embeds=inputs, use_cache=False).last_hidden_state[:, -length:].flatten(0, 1)
        # Logits live while their part is looked at, and are made once more for the gradient (Chen et al. 2016).
        losses = torch.cat(
            [
                checkpoint(_cross_entropy, head, some, of_some, use_reentrant=False)
                for some, of_some in zip(torch.split(states, _HEAD_ROWS), torch.split(wanted, _HEAD_ROWS), strict=True)
            ]
        )
    return losses.view(len(tokens), length)


def _cross_entropy(head: nn.Module, states: Tensor, wanted: Tensor) -> Tensor:
    """The losses of the tokens wanted [n] after states [n, width], float32 [n]."""
    return F.cross_entropy(head(states).float(), wanted, reduction="none")
