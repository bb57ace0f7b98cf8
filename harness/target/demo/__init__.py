"""The bundled demo target: a small GPT-Neo that knows part of an invented corpus by heart.

Importing this package loads no torch; `python -m harness.target.demo` makes everything that it ships.
"""

from pathlib import Path

from harness.core.paths import SHIPPED_ROUNDS

WEIGHTS = Path(__file__).resolve().parent / "weights"
"""Model and tokenizer in Hugging Face layout."""
ROUND_ARRAYS = SHIPPED_ROUNDS / "demo"
"""Prefixes, suffixes and repetition counts of the demo round."""
SEED = 2023
"""Of the corpus, of the choice of examples and of the training."""
ATTACKED = 1_000
"""Examples that the round asks for."""
TRAINING = 1_000
"""Further examples, from other documents, whose answers a ranker may learn from."""
