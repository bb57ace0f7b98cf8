"""The bundled demo target: a small GPT-Neo that knows part of an invented corpus by heart.

Importing this package loads no torch; `python -m harness.engine.demo` makes everything that it ships.
"""

from pathlib import Path
from typing import NamedTuple

from harness.core.paths import SHIPPED_ROUNDS


class Size(NamedTuple):
    """One of the shipped targets: its name, where it lies in Hugging Face layout, and what it is made of.

    threads: with which it was trained; its weights depend on them in their last digits.
    """

    name: str
    weights: Path
    width: int
    heads: int
    threads: int


_PACKAGE = Path(__file__).resolve().parent
SIZES = (
    Size("demo", _PACKAGE / "weights", width=128, heads=4, threads=2),
    Size("demo-small", _PACKAGE / "weights-small", width=80, heads=5, threads=1),
    Size("demo-tiny", _PACKAGE / "weights-tiny", width=48, heads=3, threads=1),
)
"""The demo target, and two smaller ones that were shown the same rows; all have one tokenizer."""
WEIGHTS = SIZES[0].weights
"""Of the demo target itself."""
ROUND_ARRAYS = SHIPPED_ROUNDS / "demo"
"""Prefixes, suffixes and repetition counts of the demo round."""
SEED = 2023
"""Of the corpus, of the choice of examples and of the training."""
ATTACKED = 1_000
"""Examples that the round asks for."""
TRAINING = 1_000
"""Further examples, from other documents, whose answers a ranker may learn from."""
