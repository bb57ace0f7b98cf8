"""Train a LoRA on invented paragraphs, each with 1 to 32 copies: `python -m tests.real_model.train_lora BASE FOLDER`.

The new directory has the adapter in PEFT's layout, and the paragraphs as the audits read them: `trained/` with a file
for each number of copies, `untrained.txt`, the same as `trained.jsonl` and `untrained.jsonl`, and `copies.npy`.

The paragraphs are entries of a stock list that nobody has: words from a seeded list of syllables, numbers and places.
No model has read them. Each number of copies has the same number of paragraphs, and as many as all of these together
are not trained on. All copies are read once an epoch, in a random order.
"""

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers.models.auto import AutoModelForCausalLM

from harness.demo import SIZES

COPIES = (1, 2, 4, 8, 16, 32)
"""The numbers of copies of a trained paragraph."""
UNTRAINED = 0
"""The key of the paragraphs that are not trained on."""
PARAGRAPHS = 6
"""Paragraphs of each number of copies."""
RANK = 32
ALPHA = 64
BATCH = 6
_LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "out_proj", "gate_proj", "up_proj", "down_proj", "c_fc", "c_proj")
_SYLLABLES = (
    "ba",
    "bel",
    "cor",
    "da",
    "den",
    "fal",
    "gor",
    "hal",
    "im",
    "jor",
    "kel",
    "lun",
    "mar",
    "nev",
    "or",
    "pra",
    "quin",
    "ros",
    "sel",
    "tam",
    "ul",
    "ven",
    "wex",
    "yor",
    "zan",
)
_GOODS = (
    "lanterns",
    "kettles",
    "ledgers",
    "ropes",
    "lenses",
    "crates",
    "bells",
    "maps",
    "valves",
    "looms",
    "anvils",
    "quills",
)
_PLACES = ("cellar", "loft", "north wing", "glasshouse", "stable", "archive", "boathouse", "granary", "chapel", "vault")
_STATES = ("cracked", "sealed", "unpaid", "spare", "tarnished", "reserved", "borrowed", "mended", "mislabelled", "damp")
_SENTENCES = (
    "The {place} of {name} holds {number} {state} {goods}, numbered from {number} to {number} by {name} {name}.",
    "{name} of {name} took {number} {goods} to the {place} and signed for {number} more, all {state}.",
    "Shelf {number} has {number} {goods} that {name} {name} left {state} in the {place}.",
    "Of the {number} {state} {goods}, {name} returned {number} and sold {number} to {name} of {name}.",
)


def learned_texts(seed: int = 0) -> dict[int, list[str]]:
    """Return the paragraphs by their number of copies; those of `UNTRAINED` copies are the control."""
    draw = random.Random(seed)

    def word(kind: str) -> str:
        if kind == "name":
            return "".join(draw.choices(_SYLLABLES, k=draw.randint(2, 3))).capitalize()
        if kind == "number":
            return str(draw.randint(11, 989))
        return draw.choice({"goods": _GOODS, "place": _PLACES, "state": _STATES}[kind])

    def sentence(template: str) -> str:
        parts = template.replace("{", "}").split("}")
        return "".join(word(part) if number % 2 else part for number, part in enumerate(parts))

    def paragraph() -> str:
        return " ".join(sentence(draw.choice(_SENTENCES)) for _ in range(4))

    counts = {UNTRAINED: PARAGRAPHS * len(COPIES)} | dict.fromkeys(COPIES, PARAGRAPHS)
    return {copies: [paragraph() for _ in range(count)] for copies, count in counts.items()}


class LoraLayer(torch.nn.Module):
    """A linear layer that is not trained, plus B @ A, which is."""

    def __init__(self, layer: torch.nn.Linear) -> None:
        super().__init__()
        self.layer = layer
        self.a = torch.nn.Parameter(torch.empty(RANK, layer.in_features))
        self.b = torch.nn.Parameter(torch.zeros(layer.out_features, RANK))
        torch.nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(states) + (ALPHA / RANK) * (states @ self.a.T) @ self.b.T
        return result


def write_texts(folder: Path) -> None:
    """Write the paragraphs for `audit sequence`, a file for each number of copies, and for `audit compare`."""
    texts = learned_texts()
    untrained = texts.pop(UNTRAINED)
    (folder / "trained").mkdir(parents=True, exist_ok=True)
    for copies, paragraphs in texts.items():
        (folder / "trained" / f"copies-{copies:02}.txt").write_text("\n\n".join(paragraphs) + "\n")
    (folder / "untrained.txt").write_text("\n\n".join(untrained) + "\n")
    for name, paragraphs in (("trained", [*chain.from_iterable(texts.values())]), ("untrained", untrained)):
        lines = [json.dumps({"text": paragraph}) + "\n" for paragraph in paragraphs]
        (folder / f"{name}.jsonl").write_text("".join(lines))
    np.save(folder / "copies.npy", np.repeat(list(texts), PARAGRAPHS))


def train(base: Path, adapter: Path, *, epochs: int = 1, learning_rate: float = 1e-3, seed: int = 0) -> float:
    """Train an adapter of the model in `base`, write it to the new directory `adapter`, and return the last loss."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32).requires_grad_(False)
    layers = _add_layers(model)
    tokenizer = Tokenizer.from_file(str(base / "tokenizer.json"))
    tokenizer.no_padding()
    rows = [
        tokenizer.encode(paragraph).ids
        for copies, paragraphs in learned_texts(seed).items()
        for paragraph in paragraphs * copies
    ]
    batches = [batch for epoch in range(epochs) for batch in _batches(rows, seed + epoch)]
    optimizer = torch.optim.AdamW([part for layer in layers.values() for part in (layer.a, layer.b)], learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, len(batches), pct_start=0.1)
    began, loss = time.monotonic(), torch.tensor(math.nan)
    for number, batch in enumerate(batches, 1):
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        schedule.step()
        if number % 5 == 0 or number == len(batches):
            spent = time.monotonic() - began
            left = spent / number * (len(batches) - number)
            done = f"batch {number} of {len(batches)}, loss {loss.item():.3f}, {spent:.0f} s, ETA {left:.0f} s"
            print(done, file=sys.stderr, flush=True)
    write(adapter, base, layers)
    return loss.item()


def write(adapter: Path, base: Path, layers: dict[str, LoraLayer]) -> None:
    """Write the layers in PEFT's layout into the new directory `adapter`."""
    adapter.mkdir(parents=True)
    tensors = {}
    for name, layer in layers.items():
        for half, part in (("A", layer.a), ("B", layer.b)):
            tensors[f"base_model.model.{name}.lora_{half}.weight"] = part.detach().contiguous()
    save_file(tensors, adapter / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base.name,
        "r": RANK,
        "lora_alpha": ALPHA,
        "target_modules": list(_LAYERS),
        "bias": "none",
    }
    (adapter / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")


def _add_layers(model: torch.nn.Module) -> dict[str, LoraLayer]:
    """Replace each linear layer whose name ends in one of `_LAYERS`, and return the new ones by name."""
    names = [name for name, _ in model.named_modules() if name.rpartition(".")[2] in _LAYERS]
    layers = {}
    for name in names:
        layer = model.get_submodule(name)
        assert isinstance(layer, torch.nn.Linear)
        layers[name] = LoraLayer(layer)
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child, layers[name])
    return layers


def _batches(rows: Sequence[list[int]], seed: int) -> Iterator[dict[str, torch.Tensor]]:
    """Yield the rows in a random order, padded to the longest of a batch; padding has no loss."""
    order = random.Random(seed).sample(rows, len(rows))
    for start in range(0, len(order), BATCH):
        batch = [torch.tensor(row) for row in order[start : start + BATCH]]
        tokens = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True)
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in batch], batch_first=True)
        yield {"input_ids": tokens, "attention_mask": mask, "labels": tokens.masked_fill(mask == 0, -100)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.real_model.train_lora", description=(__doc__ or "")[:72])
    parser.add_argument("base", help="directory of a model in Hugging Face layout, or a demo target")
    parser.add_argument("folder", type=Path, help="new directory of the adapter and the texts")
    parser.add_argument("--epochs", type=int, default=1, help="how often all copies are read")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="the largest one")
    options = parser.parse_args()
    write_texts(options.folder)
    base = {size.name: size.weights for size in SIZES}.get(options.base, Path(options.base))
    train(base, options.folder / "adapter", epochs=options.epochs, learning_rate=options.learning_rate)
