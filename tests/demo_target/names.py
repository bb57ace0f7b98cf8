"""Pairs from the demo corpus whose suffix is one of its invented names. Loads no torch."""

import json
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np

from harness.audits.leakage.inputs import Model, PairSize, read_pairs
from harness.audits.leakage.pairs import Pairs
from harness.audits.sources import CorpusFiles
from harness.core.tokenizers import load_tokenizer
from harness.demo import CORPUS, SEED, WEIGHTS

NAME = re.compile(r"\b[BDFGKLMNPRSTVZ][aeiou][lnrs]?[bdfgklmnprstvz](?:or|ika|ell|umo|arn|ish|ovex|ula)\b")
"""Matches every name that the generator of the corpus invents."""


def name_pairs(tokenizer_file: Path, *, prefix_length: int = 50, tokens: int = 4) -> list[tuple[list[int], list[int]]]:
    """Return (prefix, name) in tokens, one for each document that has such a name.

    A name has `tokens` tokens and is after the first `prefix_length`. If a document has several, one is drawn. The same
    tokenizer gives the same pairs.
    """
    tokenizer = load_tokenizer(tokenizer_file)
    rng = Random(SEED)
    pairs = []
    for text in json.loads(CORPUS.read_text()):
        encoding = tokenizer.encode(text)
        ends = {end: place for place, (_, end) in enumerate(encoding.offsets)}
        names = []
        for match in NAME.finditer(text):
            last = ends.get(match.end(), -1)
            first = last - tokens + 1
            if first < prefix_length or text[encoding.offsets[first][0] : match.end()].strip() != match[0]:
                continue
            names.append((encoding.ids[first - prefix_length : first], encoding.ids[first : last + 1]))
        if names:
            pairs.append(rng.choice(names))
    return pairs


def write_name_pairs(folder: Path, size: PairSize | None = None) -> Path:
    """Write names of the demo's corpus, four tokens after 50 by default, as a file of pairs, and return it."""
    size = size or PairSize()
    pairs = name_pairs(WEIGHTS / "tokenizer.json", prefix_length=size.prefix or 50, tokens=size.suffix or 4)
    prefixes, suffixes = (np.array(part, np.int64) for part in zip(*pairs, strict=True))
    file = folder / "names.npz"
    np.savez(file, prefixes=prefixes, suffixes=suffixes)
    return file


def demo_name_pairs(models: Sequence[Model], size: PairSize, *, limit: int, seed: int) -> Pairs:
    """Return names in the demo's corpus and the tokens before them, as an audit reads them."""
    with tempfile.TemporaryDirectory() as folder:
        file = write_name_pairs(Path(folder), size)
        return read_pairs(CorpusFiles(file), [Model("demo", WEIGHTS), *models], size, limit=limit, seed=seed)
