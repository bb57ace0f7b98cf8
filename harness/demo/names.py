"""Pairs from the demo corpus whose suffix is one of its invented names. Loads no torch."""

import json
import re
from pathlib import Path
from random import Random

from harness.core.tokenizers import load_tokenizer
from harness.demo import CORPUS, SEED

NAME = re.compile(r"\b[BDFGKLMNPRSTVZ][aeiou][lnrs]?[bdfgklmnprstvz](?:or|ika|ell|umo|arn|ish|ovex|ula)\b")
"""Matches every name that the generator of the corpus invents."""


def name_pairs(tokenizer_file: Path, *, prefix_length: int = 50, tokens: int = 4) -> list[tuple[list[int], list[int]]]:
    """Return (prefix, name) in tokens, one for each document that has such a name.

    A name has `tokens` tokens and is after the first `prefix_length`. If a document has several, one is drawn. The same
    tokenizer gives the same pairs.
    """
    tokenizer = load_tokenizer(tokenizer_file)
    rng = Random(SEED)  # noqa: S311  seeded, no secret
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
