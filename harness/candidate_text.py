"""The features by which `harness.candidate_ranker` judges candidates, from their text, their tokens and their rivals.

The rivals of a candidate are the other candidates of its example. Text is judged by what its prefix shows: line width,
starts of lines and spacing. Memorized suffixes differ from wrong ones often only in a line break, an indent or a space.
"""

import re
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

from harness.core.arrays import Floats, Ints, Tokens
from harness.rankers import compressed_bytes, decoded

TextOf = Callable[[Tokens], list[str]]
"""A function that returns the text of each row of tokens [rows, any]."""
COPIED_TOKENS = 3  # A copy begins after this many tokens that occurred earlier.

TEXT_FEATURES = {
    "suffix bytes": "compressed length of the suffix: repetitive text is likely without being memorized",
    "text bytes": "compressed length of prefix and suffix",
    "prefix bytes": "compressed length of the prefix",
    "suffix tokens": "number of distinct tokens of the suffix",
    "prefix tokens": "number of distinct tokens of the prefix",
    "new tokens": "number of distinct tokens of the suffix that its prefix lacks",
    "copied": "number of suffix tokens that continue an earlier copy of the three tokens before them",
    "not copied": "number of suffix tokens that differ from the continuation of such a copy",
    "line excess": "characters by which a line exceeds the longest line of the prefix",
    "early breaks": "line breaks before which the next word would have fitted, unless the prefix has such breaks",
    "new line starts": "lines whose indent and kind of first character no line of the prefix has",
    "new spacing": "kinds of white space that the prefix does not contain",
}
"""The features of tokens and text, {name: description}."""


def text_of(tokenizer_file: Path | None) -> TextOf | None:
    """Return the function that decodes tokens with a tokenizer.json, None without the file."""
    return None if tokenizer_file is None else partial(decoded, tokenizer_file=tokenizer_file)


def text_features(prefixes: Tokens, row: Ints, suffixes: Tokens, text_of: TextOf | None) -> dict[str, Floats]:
    """Return the values of TEXT_FEATURES of each candidate, {name: [rows]}.

    prefixes: [n, prefix length]. row: [rows], the prefix of each of `suffixes` [rows, length]. Without `text_of`, the
    features of the layout are 0.
    """
    layout = np.zeros((len(row), 4))
    if text_of is not None:
        before, after = text_of(prefixes), text_of(suffixes)
        layout = np.array([_layout(before[number], text) for number, text in zip(row, after, strict=True)])
    pairs = list(zip(prefixes[row].tolist(), suffixes.tolist(), strict=True))
    copies = np.array([_copies(prefix, suffix) for prefix, suffix in pairs], np.float64)
    columns = (
        compressed_bytes(suffixes),
        compressed_bytes(np.concatenate([prefixes[row], suffixes], axis=1)),
        compressed_bytes(prefixes)[row],
        np.array([len(set(suffix)) for _, suffix in pairs], np.float64),
        np.array([len(set(prefix)) for prefix, _ in pairs], np.float64),
        np.array([len(set(suffix) - set(prefix)) for prefix, suffix in pairs], np.float64),
        *copies.reshape(-1, 2).T,
        *layout.reshape(-1, 4).T,
    )
    return dict(zip(TEXT_FEATURES, columns, strict=True))


def _layout(prefix: str, suffix: str) -> tuple[float, float, float, float]:
    """Return how far the lines of a suffix depart from the lines of its prefix: the last four of TEXT_FEATURES."""
    *shown, last = prefix.split("\n")
    lines = (last + suffix).split("\n")
    width = max((len(line) for line in shown), default=0)
    excess = float(max(0, max(len(line) for line in lines) - width)) if shown else 0.0
    usual = _early_breaks([*shown, last], width) / max(1, len(shown))
    early = _early_breaks(lines, width) * (1 - usual)
    starts = {_line_start(line) for line in [*shown, last][1:]}
    new_starts = sum(_line_start(line) not in starts for line in lines[1:])
    spacing = set(re.findall(r"\s+", suffix)) - set(re.findall(r"\s+", prefix))
    return min(excess, 40.0), early, float(new_starts), float(len(spacing))


def _early_breaks(lines: list[str], width: int) -> int:
    """Return the number of line breaks before which the first word of the next line would have fitted."""
    return sum(
        bool(line.strip() and following.strip()) and len(line) + 1 + len(following.split()[0]) <= width
        for line, following in pairwise(lines)
    )


def _line_start(line: str) -> tuple[str, str]:
    """Return the indent of a line and the kind of its first character: a for letters, 0 for digits, or itself."""
    text = line.lstrip()
    first = text[:1]
    return line[: len(line) - len(text)], "a" if first.isalpha() else "0" if first.isdigit() else first


def _copies(prefix: list[int], suffix: list[int]) -> tuple[int, int]:
    """Return how many tokens of the suffix equal, and differ from, the continuation of the latest earlier copy."""
    tokens = prefix + suffix
    following: dict[tuple[int, ...], int] = {}
    equal = different = 0
    for place in range(COPIED_TOKENS, len(tokens)):
        context = tuple(tokens[place - COPIED_TOKENS : place])
        if place >= len(prefix) and context in following:
            equal += following[context] == tokens[place]
            different += following[context] != tokens[place]
        following[context] = tokens[place]
    return equal, different


def lead(row: Ints, value: Floats) -> Floats:
    """Return how much each value [rows] exceeds the highest of its rivals, [rows]; 0 without a rival.

    row: [rows], sorted.
    """
    order = np.lexsort((-value, row))
    _, first, size = np.unique(row[order], return_index=True, return_counts=True)
    ahead = np.repeat(value[order[first]], size)
    behind = np.repeat(value[order[np.minimum(first + 1, len(row) - 1)]], size)
    is_first = np.zeros(len(row), np.bool_)
    is_first[first] = True
    result = np.empty(len(row))
    result[order] = value[order] - np.where(is_first, behind, ahead)
    result[order[np.repeat(size == 1, size)]] = 0
    return result


def share(row: Ints, logarithm: Floats) -> Floats:
    """Return the logarithm of each candidate's share of the probability of its example's candidates, [rows] in nats."""
    total = np.full(int(row.max(initial=-1)) + 1, -np.inf)
    np.logaddexp.at(total, row, logarithm)
    shares: Floats = logarithm - total[row]
    return shares


def first_fork(row: Ints, suffixes: Tokens, value: Floats) -> Floats:
    """Return the position at which each suffix first differs from its best rival by `value` [rows], [rows].

    It is the length of the suffix without a rival.
    """
    order = np.lexsort((-value, row))
    _, first, size = np.unique(row[order], return_index=True, return_counts=True)
    rival = np.repeat(order[first], size)
    rival[first] = order[np.minimum(first + (size > 1), len(row) - 1)]
    is_different = suffixes[order] != suffixes[rival]
    fork = np.empty(len(row))
    fork[order] = np.where(is_different.any(axis=1), is_different.argmax(axis=1), suffixes.shape[1])
    return fork
