"""Make a round from generated text: `python -m tests.bench.rounds_make --full` uses 1 GB, otherwise 50 MB.

The text has documents of 5 to 100 passages: those of the challenge's training rows, decoded, or of the demo's corpus.
Half of the passages have a new order of their words, so most prefixes are distinct.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from tokenizers import Tokenizer

from harness.demo import CORPUS
from tests.bench.inputs import exit_on_error, is_surrogate, run_harness, surrogate_or_demo
from tests.tools.surrogate import training_rows

MEGABYTES, FULL_MEGABYTES = 50, 1_000


def measure(*, full: bool = False, megabytes: int | None = None) -> dict[str, Any]:
    """Return how long a round takes, per gigabyte of text."""
    size = (megabytes or (FULL_MEGABYTES if full else MEGABYTES)) * 1_000_000
    _, target = surrogate_or_demo()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        written = write_corpus(folder / "corpus.jsonl", size, _passages(target))
        start = time.perf_counter()
        options = ("--out", str(folder / "round"), "--target", str(target), "--json")
        card = json.loads(run_harness(folder, "new", "round", str(folder / "corpus.jsonl"), *options, timeout=3_600))
        seconds = time.perf_counter() - start
    return {
        "megabytes of text": written / 1e6,
        "million tokens": card["corpus_tokens"] / 1e6,
        "seconds": seconds,
        "minutes per gigabyte": seconds / 60 / (written / 1e9),
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
    if not is_surrogate():
        texts: list[str] = json.loads(CORPUS.read_bytes())
        return texts
    tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))
    return tokenizer.decode_batch(training_rows().tolist())


def main() -> None:
    """Print the figures."""
    with exit_on_error():
        for name, value in measure(full="--full" in sys.argv).items():
            print(f"{name:32} {value:,.1f}")


if __name__ == "__main__":
    main()
