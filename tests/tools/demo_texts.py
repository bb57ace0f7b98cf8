"""Texts that the demo target was trained on, and texts that it has not seen."""

import json

import numpy as np
from tokenizers import Tokenizer

from harness.demo import CONTROL_TEXT, CORPUS, WEIGHTS

TOKENIZER = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))


def trained_text(documents: int) -> str:
    """Return documents of the demo's corpus, one below the other."""
    return "\n\n".join(json.loads(CORPUS.read_bytes())[:documents])


def unseen_text(examples: int) -> str:
    """Return text of the same kinds that the demo target has not seen."""
    arrays = np.load(CONTROL_TEXT)
    rows = np.concatenate([arrays["prefixes"], arrays["suffixes"]], axis=1)[:examples]
    return "\n\n".join(TOKENIZER.decode(row.tolist()) for row in rows)
