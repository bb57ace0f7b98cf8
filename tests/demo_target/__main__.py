"""Create the demo corpus, tokenizer, round arrays and weights from one seed: `python -m tests.demo_target`."""

import argparse
import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from harness.demo import CONTROL_TEXT, CORPUS, REFERENCE, ROUND_ARRAYS, SEED, SIZES
from tests.demo_target.corpus import Document, corpus, shuffled_copies
from tests.demo_target.examples import ATTACKED, TRAINING, Examples, cut_examples
from tests.demo_target.tokenizer import save_tokenizer, train_tokenizer
from tests.demo_target.unseen import REFERENCE_STEPS, reference_texts, unseen_examples

# Torch reads these when it loads. On a busy machine, spinning threads made a training step seven times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import torch

from tests.demo_target.training import Schedule, build_model, progress_printer, save_in_half_precision, train

STEPS = 4_400


class Generated(NamedTuple):
    """The inputs of the training: corpus, tokenizer, tokens, and the examples of the round."""

    documents: list[Document]
    tokenizer: Tokenizer
    texts: list[list[int]]
    examples: Examples


def generate() -> Generated:
    """Create everything but the weights. The result is deterministic."""
    documents = corpus(SEED)
    tokenizer = train_tokenizer(document.text for document in documents)
    texts = [encoding.ids for encoding in tokenizer.encode_batch([document.text for document in documents])]
    repetitions = [document.repetitions for document in documents]
    examples = cut_examples(texts, repetitions, wanted=ATTACKED + TRAINING, seed=SEED)
    return Generated(documents, tokenizer, texts, examples)


def main() -> None:
    """Write the weights of one size, the texts and `rounds/demo/` to `--out` or to the harness package."""
    parser = argparse.ArgumentParser(prog="python -m tests.demo_target", description=__doc__)
    parser.add_argument("--out", type=Path, help="output directory (default: the harness package)")
    sizes = (*SIZES, REFERENCE)
    names = [size.name for size in sizes]
    parser.add_argument("--size", choices=names, default=names[0], help=f"model to train (default {names[0]})")
    parser.add_argument(
        "--steps",
        type=int,
        help=f"number of training steps (default {STEPS}, for {REFERENCE.name} {REFERENCE_STEPS})",
    )
    options = parser.parse_args()
    size = sizes[names.index(options.size)]
    weights = options.out / size.weights.name if options.out else size.weights
    arrays = options.out / "rounds" / "demo" if options.out else ROUND_ARRAYS
    for folder in (weights, arrays):
        folder.mkdir(parents=True, exist_ok=True)

    documents, tokenizer, texts, examples = generate()
    copies = shuffled_copies(documents, SEED)
    print(f"{len(documents)} documents, {len(copies)} copies, {len(examples.documents)} examples", flush=True)

    torch.set_num_threads(size.threads)
    model = build_model(tokenizer.get_vocab_size(), SEED, width=size.width, heads=size.heads)
    schedule = Schedule(steps=options.steps or (REFERENCE_STEPS if size == REFERENCE else STEPS))
    if size == REFERENCE:
        # Each text is read once, so that none is memorized.
        read = tokenizer.encode_batch(reference_texts(schedule.steps * schedule.rows))
        texts, copies = [encoding.ids for encoding in read], list(range(len(read)))
    train(model, texts, copies, schedule, SEED, progress_printer(schedule.steps))
    save_in_half_precision(model, weights)
    save_tokenizer(tokenizer, weights, model.config.max_position_embeddings)
    save_examples(examples, arrays)
    texts_folder = options.out or CORPUS.parent
    (texts_folder / CORPUS.name).write_text(json.dumps([document.text for document in documents], indent=0) + "\n")
    unseen = unseen_examples(weights / "tokenizer.json", ATTACKED)
    np.savez_compressed(
        texts_folder / CONTROL_TEXT.name, prefixes=unseen.prefixes, suffixes=unseen.suffixes, documents=unseen.documents
    )
    print(f"wrote {weights} and {arrays}")


def save_examples(examples: Examples, folder: Path) -> None:
    """Write the first 1,000 examples as the attacked ones and the next 1,000 as the training ones."""
    for name, part in (("", slice(ATTACKED)), ("train_", slice(ATTACKED, ATTACKED + TRAINING))):
        np.save(folder / f"{name}prefix.npy", examples.prefixes[part])
        np.save(folder / f"{name}suffix.npy", examples.suffixes[part])
        np.save(folder / f"{name}repetitions.npy", examples.repetitions[part])


if __name__ == "__main__":
    main()
