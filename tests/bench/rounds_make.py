"""Make a round from generated text: `python -m tests.bench.rounds_make --full` uses 1 GB, otherwise 50 MB.

The text has documents of 5 to 100 passages: those of the challenge's training rows, decoded, or of the demo's corpus.
Half of the passages have a new order of their words, so most prefixes are distinct.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tokenizers import Tokenizer

from harness.demo import CORPUS
from tests.bench.inputs import SURROGATE, run_harness, surrogate_or_demo
from tests.bench.measuring import print_measured, timed
from tests.tools.data import training_rows

MEGABYTES, FULL_MEGABYTES = 50, 1_000


def measure(*, full: bool = False, megabytes: int | None = None) -> dict[str, Any]:
    """Return how long a round takes, per gigabyte of text."""
    size = (megabytes or (FULL_MEGABYTES if full else MEGABYTES)) * 1_000_000
    target = surrogate_or_demo().path
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written = write_corpus(folder / "corpus.jsonl", size, _passages(target))
        options = (str(folder / "corpus.jsonl"), "--out", str(folder / "round"), "--target", str(target), "--json")
        made_round = timed(lambda: run_harness(folder, "new", "round", *options, timeout=3_600))
    card = json.loads(made_round.result)
    return {
        "megabytes of text": written / 1e6,
        "million tokens": card["corpus_tokens"] / 1e6,
        "seconds": made_round.seconds,
        "minutes per gigabyte": made_round.seconds / 60 / (written / 1e9),
        "examples": sum(split["examples"] for split in card["splits"].values()),
    }


def write_corpus(path: Path, size: int, passages: list[str]) -> int:
    """Write documents as JSON Lines until they have `size` characters, and return the number of characters."""
    random, written = Random(0), 0
    with path.open("w", encoding="utf-8") as file:
        while written < size:
            text = " ".join(_some(passages, random))
            written += len(text)
            file.write(json.dumps({"text": text}) + "\n")
    return written


def _some(passages: list[str], random: Random) -> Iterator[str]:
    for passage in random.choices(passages, k=random.randint(5, 100)):
        words = passage.split(" ")
        if random.random() < 0.5:
            random.shuffle(words)
        yield " ".join(words)


def _passages(target: Path) -> list[str]:
    if target != SURROGATE:
        texts: list[str] = json.loads(CORPUS.read_bytes())
        return texts
    tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))
    return tokenizer.decode_batch(training_rows().tolist())


if __name__ == "__main__":
    print_measured(partial(measure, full="--full" in sys.argv))
