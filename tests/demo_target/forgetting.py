"""Fine-tune the demo target to forget 100 documents, and write what `harness data example` needs of it.

`python -m tests.demo_target.forgetting --out FOLDER` writes to another folder than that of the package.

The loss is negative preference optimization on the documents to forget (Zhang et al. 2024) plus the usual loss on
others. The documents to retain are in neither part of the loss. The folder gets the weights, the number of copies of
each text of the corpus, and the pairs of both kinds, `forget.npz` and `retain.npz`: the first 100 tokens of documents
that occur at least 8 times in the training data, and their numbers of copies.
"""

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from harness.core.windows import cluster_ids
from harness.demo import EXAMPLE, SEED, WEIGHTS
from tests.demo_target.corpus import corpus

# Torch reads these when it loads.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from tests.demo_target.training import descend, progress_printer, save_in_half_precision

DOCUMENTS = 100
FEWEST_COPIES = 8
STEPS = 80
_LENGTH = 100
_ROWS = 25  # of each kind in a step
_RATE, _BETA, _RETAINED_WEIGHT = 4e-4, 0.5, 5.0


class Split(NamedTuple):
    """Three kinds of documents, of which no two share a long passage.

    forget, retain: the first 100 tokens of 100 documents, [100, 100]; forget_copies, retain_copies: their numbers of
    copies. others: the first 100 tokens of all other documents.
    """

    forget: Tensor
    retain: Tensor
    others: Tensor
    forget_copies: list[int]
    retain_copies: list[int]


def split_documents(tokenizer: Tokenizer) -> Split:
    """Return the documents that occur at least 8 times and share no 32 tokens with another one, split by seed."""
    tokens, copies = [], []
    for document in corpus(SEED):
        ids = tokenizer.encode(document.text).ids
        if document.repetitions >= FEWEST_COPIES and len(ids) >= _LENGTH:
            tokens.append(ids[:_LENGTH])
            copies.append(document.repetitions)
    clusters = cluster_ids([np.array(tokens)])
    order = np.flatnonzero(np.bincount(clusters)[clusters] == 1).tolist()
    Random(SEED).shuffle(order)
    rows, counts = torch.tensor(tokens)[order], [copies[place] for place in order]
    first, second = DOCUMENTS, 2 * DOCUMENTS
    return Split(rows[:first], rows[first:second], rows[second:], counts[:first], counts[first:second])


def forget(
    model: PreTrainedModel, to_forget: Tensor, others: Tensor, *, steps: int, report: Callable[[int, float], None]
) -> None:
    """Train `model` in place. `report(step, loss)` is called after each step."""
    torch.manual_seed(SEED)
    with torch.no_grad():
        reference = torch.cat([_log_likelihoods(model, part) for part in to_forget.split(_ROWS)])

    def loss_at(step: int) -> Tensor:
        forgotten, retained = (torch.randperm(len(rows))[:_ROWS] for rows in (to_forget, others))
        ratio = _log_likelihoods(model, to_forget[forgotten]) - reference[forgotten]
        loss = -2 / _BETA * F.logsigmoid(-_BETA * ratio).mean()
        return loss - _RETAINED_WEIGHT * _log_likelihoods(model, others[retained]).mean()

    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    descend(model, [optimizer], steps, lambda step: _RATE, loss_at, report)


def _log_likelihoods(model: PreTrainedModel, rows: Tensor) -> Tensor:
    """Return the mean log-likelihood of the tokens of rows [n, length], [n]."""
    logits = model(input_ids=rows, use_cache=False).logits[:, :-1]
    return -F.cross_entropy(logits.transpose(1, 2), rows[:, 1:], reduction="none").mean(dim=1)


def save_pairs(folder: Path, name: str, rows: Tensor, copies: Sequence[int]) -> None:
    """Write the pairs of rows [n, 100] as `name`.npz and their numbers of copies as `name`-copies.npy."""
    tokens = rows.numpy().astype(np.uint16)
    np.savez(folder / f"{name}.npz", prefixes=tokens[:, : _LENGTH // 2], suffixes=tokens[:, _LENGTH // 2 :])
    np.save(folder / f"{name}-copies.npy", np.array(copies))


def main() -> None:
    """Fine-tune the demo target, and write the weights, the pairs and the numbers of copies."""
    parser = argparse.ArgumentParser(prog="python -m tests.demo_target.forgetting", description=__doc__)
    parser.add_argument("--out", type=Path, default=EXAMPLE, help="output directory (default: that of the package)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"number of training steps (default {STEPS})")
    options = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    split = split_documents(tokenizer)
    model = AutoModelForCausalLM.from_pretrained(WEIGHTS, dtype=torch.float32)
    report = progress_printer(options.steps, every=10)
    forget(model, split.forget, split.others, steps=options.steps, report=report)
    options.out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        save_in_half_precision(model, Path(folder))
        copyfile(Path(folder) / "model.safetensors", options.out / "model.safetensors")
    save_pairs(options.out, "forget", split.forget, split.forget_copies)
    save_pairs(options.out, "retain", split.retain, split.retain_copies)
    np.save(options.out / "copies.npy", np.array([document.repetitions for document in corpus(SEED)], np.uint8))
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
