"""The training of the demo target: a small GPT-Neo that reads each copy of each document as one row.

This module does not depend on examples, so they cannot influence the training.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

import torch
from transformers import GPTNeoConfig, GPTNeoForCausalLM

from tests.demo_target.tokenizer import END_OF_TEXT_ID

ROW = 128
"""Maximum number of tokens of a training row."""
MIN_ROW = 100
IGNORED_LABEL = -100


class Schedule(NamedTuple):
    """The learning rate: linear warm-up, constant, then linear decay to zero."""

    steps: int
    rows: int = 16
    peak: float = 4e-3
    warm_up: int = 100
    cool_down: int = 800

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of step 0 ≤ `step` < `steps`."""
        return self.peak * min(1.0, (step + 1) / self.warm_up, (self.steps - step) / self.cool_down)


def build_model(vocabulary: int, seed: int, *, width: int = 128, heads: int = 4) -> GPTNeoForCausalLM:
    """Return an untrained GPT-Neo of four layers, alternately global and local, with tied embeddings."""
    torch.manual_seed(seed)
    return GPTNeoForCausalLM(
        GPTNeoConfig(
            vocab_size=vocabulary,
            max_position_embeddings=256,
            hidden_size=width,
            num_layers=4,
            num_heads=heads,
            attention_types=[[["global", "local"], 2]],
            window_size=32,
            embed_dropout=0.0,
            resid_dropout=0.0,
            attention_dropout=0.0,
            bos_token_id=END_OF_TEXT_ID,
            eos_token_id=END_OF_TEXT_ID,
            tie_word_embeddings=True,
        )
    )


def train(
    model: GPTNeoForCausalLM,
    texts: Sequence[Sequence[int]],
    copies: Sequence[int],
    schedule: Schedule,
    seed: int,
    report: Callable[[int, float], None],
) -> None:
    """Train `model` in place on `texts` in the order of `copies`, reshuffled for each further epoch.

    `report(step, loss)` is called after each step with the step's mean loss in nats per token.
    """
    model.train()
    optimizers = _optimizers(model, schedule.peak)
    rows = _rows(texts, copies, Random(seed))
    for step in range(schedule.steps):
        for group in (group for optimizer in optimizers for group in optimizer.param_groups):
            group["lr"] = schedule.learning_rate(step)
        tokens, labels = _batch([next(rows) for _ in range(schedule.rows)])  # both [rows, longest]
        loss = model(input_ids=tokens, labels=labels, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        report(step, loss.item())
    model.train(False)


def _optimizers(model: GPTNeoForCausalLM, peak: float) -> list[torch.optim.Optimizer]:
    """Return Muon for the layers' matrices and AdamW for embeddings, norms and biases.

    With Muon the model memorizes a row from far fewer copies than with AdamW, so two CPU cores are enough.
    """
    layers = [parameter for parameter in model.transformer.h.parameters() if parameter.ndim == 2]
    chosen = {id(parameter) for parameter in layers}
    others = [parameter for parameter in model.parameters() if id(parameter) not in chosen]
    return [
        torch.optim.Muon(layers, lr=peak, weight_decay=0.0, ns_steps=3, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=peak, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def _rows(texts: Sequence[Sequence[int]], copies: Sequence[int], rng: Random) -> Iterator[Sequence[int]]:
    """Yield at most 128 tokens of each copy, from a random start, so that passages occur at different positions."""
    order = list(copies)
    while True:
        for index in order:
            text = [*texts[index], END_OF_TEXT_ID]
            start = rng.randrange(max(1, len(text) - MIN_ROW + 1))
            yield text[start : start + ROW]
        rng.shuffle(order)


def _batch(rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, rows))
    tokens = torch.full((len(rows), longest), END_OF_TEXT_ID)
    labels = torch.full((len(rows), longest), IGNORED_LABEL)
    for place, row in enumerate(rows):
        tokens[place, : len(row)] = labels[place, : len(row)] = torch.tensor(row)
    return tokens, labels
