"""The training of the demo target and of the surrogate: a small GPT-Neo reads each copy of a document as one row.

This module does not depend on examples, so they cannot influence the training.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import GPTNeoConfig, GPTNeoForCausalLM, PreTrainedModel

from tests.demo_target.tokenizer import END_OF_TEXT_ID

ROW = 128
"""Maximum number of tokens of a training row of the demo target."""
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


def build_model(
    vocabulary: int, seed: int, *, width: int = 128, heads: int = 4, end_of_text: int = END_OF_TEXT_ID
) -> GPTNeoForCausalLM:
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
            bos_token_id=end_of_text,
            eos_token_id=end_of_text,
            tie_word_embeddings=True,
        )
    )


def train(
    model: PreTrainedModel,
    texts: Sequence[Sequence[int]],
    copies: Sequence[int],
    schedule: Schedule,
    seed: int,
    report: Callable[[int, float], None],
    *,
    longest: int = ROW,
    sampled: int | None = None,
) -> None:
    """Train `model` in place on `texts` in the order of `copies`, reshuffled for each further epoch.

    longest: the maximum number of tokens of a training row. sampled: as in `sampled_loss`; None for the exact loss.

    `report(step, loss)` is called after each step with the step's mean loss in nats per token.
    """
    torch.manual_seed(seed)
    end_of_text = int(model.config.eos_token_id)
    rows = _rows([[*text, end_of_text] for text in texts], copies, Random(seed), longest)

    def loss_at(step: int) -> Tensor:
        tokens, labels = _batch([next(rows) for _ in range(schedule.rows)], end_of_text)  # both [rows, longest]
        if sampled is not None:
            return sampled_loss(model, tokens, labels, sampled)
        return model(input_ids=tokens, labels=labels, use_cache=False).loss

    descend(model, _optimizers(model, schedule.peak), schedule.steps, schedule.learning_rate, loss_at, report)


def descend(
    model: PreTrainedModel,
    optimizers: Sequence[torch.optim.Optimizer],
    steps: int,
    learning_rate: Callable[[int], float],
    loss_at: Callable[[int], Tensor],
    report: Callable[[int, float], None] = lambda step, loss: None,
) -> None:
    """Take `steps` steps down the gradient of `loss_at(step)`, and call `report(step, loss)` after each."""
    model.train()
    for step in range(steps):
        for group in (group for optimizer in optimizers for group in optimizer.param_groups):
            group["lr"] = learning_rate(step)
        loss = loss_at(step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        report(step, loss.item())
    model.train(False)


def progress_printer(steps: int, *, every: int = 50) -> Callable[[int, float], None]:
    """Return a function that prints step, loss, elapsed time and remaining time at every 50th step."""
    start = time.monotonic()

    def report(step: int, loss: float) -> None:
        done = step + 1
        if done % every == 0 or done == steps:
            spent = time.monotonic() - start
            left = spent / done * (steps - done)
            print(f"step {done}/{steps}  loss {loss:.3f}  {spent:.0f} s elapsed, {left:.0f} s left", flush=True)

    return report


def save_in_half_precision(model: PreTrainedModel, folder: Path) -> None:
    """Convert the model to float16 and write it to `folder` in Hugging Face layout, readable by everyone."""
    torch.nn.Module.half(model)
    model.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # safetensors creates the file with mode 0600


def sampled_loss(model: PreTrainedModel, tokens: Tensor, labels: Tensor, sampled: int) -> Tensor:
    """Return an estimate of the mean loss in nats that does not need the product with the whole vocabulary.

    tokens, labels: [rows, longest]. The tokens of the batch enter the softmax themselves; `sampled` tokens, drawn at
    random, stand for all others and are weighted accordingly, so the estimate of the denominator is unbiased.
    """
    is_wanted = labels[:, 1:] != IGNORED_LABEL
    known, wanted = torch.unique(labels[:, 1:][is_wanted], return_inverse=True)
    weights = model.get_output_embeddings().weight
    is_other = torch.ones(len(weights), dtype=torch.bool)
    is_other[known] = False
    others = is_other.nonzero()[:, 0]
    drawn = others[torch.randperm(len(others))[:sampled]]
    states = model.base_model(tokens[:, :-1], use_cache=False).last_hidden_state[is_wanted]
    logits = states @ weights[torch.cat([known, drawn])].T
    if len(drawn):  # Otherwise the batch contains the whole vocabulary.
        logits[:, len(known) :] += math.log(len(others) / len(drawn))
    return F.cross_entropy(logits, wanted)


def _optimizers(model: PreTrainedModel, peak: float) -> list[torch.optim.Optimizer]:
    """Return Muon for the layers' matrices and AdamW for embeddings, norms and biases.

    With Muon the model memorizes a row from far fewer copies than with AdamW, so two CPU cores are enough.
    """
    layers = [module.weight for module in model.base_model.modules() if isinstance(module, torch.nn.Linear)]
    chosen = {id(parameter) for parameter in layers}
    others = [parameter for parameter in model.parameters() if id(parameter) not in chosen]
    return [
        torch.optim.Muon(layers, lr=peak, weight_decay=0.0, ns_steps=3, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=peak, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def _rows(texts: Sequence[Sequence[int]], copies: Sequence[int], rng: Random, longest: int) -> Iterator[Sequence[int]]:
    """Yield at most `longest` tokens of each copy, from a random start, so that passages have different positions."""
    order = list(copies)
    while True:
        for index in order:
            text = texts[index]
            start = rng.randrange(max(1, len(text) - MIN_ROW + 1))
            yield text[start : start + longest]
        rng.shuffle(order)


def _batch(rows: Sequence[Sequence[int]], padding: int) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, rows))
    tokens = torch.full((len(rows), longest), padding)
    labels = torch.full((len(rows), longest), IGNORED_LABEL)
    for place, row in enumerate(rows):
        tokens[place, : len(row)] = labels[place, : len(row)] = torch.tensor(row)
    return tokens, labels
