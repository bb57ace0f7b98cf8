"""Train a LoRA on invented paragraphs, each with 1 to 32 copies, and write it in PEFT's layout.

    python -m tests.real_model.train_lora BASE ADAPTER

The paragraphs are entries of a stock list that nobody has: words from a seeded list of syllables, numbers and places.
No model has read them. Each number of copies has the same number of paragraphs, and as many are not trained on. All
copies are read once, in a random order.
"""

import json
import math
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers.models.auto import AutoModelForCausalLM

COPIES = (1, 2, 4, 8, 16, 32)
"""The numbers of copies of a trained paragraph."""
UNTRAINED = 0
"""The key of the paragraphs that are not trained on."""
PARAGRAPHS = 6
"""Paragraphs of each number of copies."""
RANK = 32
ALPHA = 64
LEARNING_RATE = 1e-3
BATCH = 6
_LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
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

    return {copies: [paragraph() for _ in range(PARAGRAPHS)] for copies in (UNTRAINED, *COPIES)}


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


def train(base: Path, adapter: Path, *, seed: int = 0) -> float:
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
    batches = list(_batches(rows, seed))
    optimizer = torch.optim.AdamW([part for layer in layers.values() for part in (layer.a, layer.b)], LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, len(batches), pct_start=0.1)
    began, loss = time.monotonic(), torch.tensor(math.nan)
    for number, batch in enumerate(batches, 1):
        optimizer.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        schedule.step()
        if number % 5 == 0 or number == len(batches):
            spent = time.monotonic() - began
            print(
                f"batch {number} of {len(batches)}, loss {float(loss):.3f}, {spent:.0f} s", file=sys.stderr, flush=True
            )
    write(adapter, base, layers)
    return float(loss)


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
    train(Path(sys.argv[1]), Path(sys.argv[2]))
