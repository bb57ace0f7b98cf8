"""The bundled demo target: a small GPT-Neo that has memorized part of an invented corpus, and a reference model.

Importing this package does not load torch. `python -m tests.demo_target` creates all of its files but
the guesses and `example`, which `python -m tests.demo_target.forgetting` creates.
"""

from pathlib import Path
from typing import NamedTuple

from harness.core.paths import BUILT_IN_CORPUS, BUILT_IN_ROUNDS, EXAMPLE_DATA

_PACKAGE = Path(__file__).resolve().parent
ROUND_ARRAYS = BUILT_IN_ROUNDS / "demo"
"""The folder of the demo round's prefixes, suffixes and repetition counts."""
CORPUS = BUILT_IN_CORPUS
"""The distinct texts of the corpus that SIZES were trained on: a list of strings."""
CONTROL_TEXT = _PACKAGE / "unseen.npz"
"""1,000 examples of the same kinds of text that no target has seen: prefixes, suffixes [1000, 50], documents [1000]."""
EXAMPLE = EXAMPLE_DATA
"""The folder of `harness data example`: copies of each text of CORPUS, pairs, and weights after unlearning."""
BASELINE_GUESSES = _PACKAGE / "baseline-guesses.csv"
"""The submission of `baseline` on the demo round: a copy of that of `harness demo` with torch."""
SEED = 2023
"""The seed of the corpus, of the choice of examples and of the training."""


class Size(NamedTuple):
    """One of the built-in targets: its name, its folder in Hugging Face layout, and its shape.

    threads: the number of training threads, on which the last digits of the weights depend.
    """

    name: str
    weights: Path
    width: int
    heads: int
    threads: int


SIZES = (
    Size("demo", _PACKAGE / "weights", width=128, heads=4, threads=2),
    Size("demo-small", _PACKAGE / "weights-small", width=80, heads=5, threads=1),
    Size("demo-tiny", _PACKAGE / "weights-tiny", width=48, heads=3, threads=1),
)
"""The demo target and two smaller ones that were trained on the same rows. All have one tokenizer."""
REFERENCE = Size("demo-reference", _PACKAGE / "weights-reference", width=48, heads=3, threads=1)
"""A reference model for the demo: the same tokenizer and kinds of text, but none of the documents of the corpus."""
WEIGHTS = SIZES[0].weights
"""The folder of the demo target itself."""
