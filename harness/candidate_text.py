"""The features by which `harness.candidate_ranker` judges candidates from their text and their tokens.

Text is judged by what its prefix shows: line width, starts and ends of lines, and spacing. Memorized suffixes differ
from wrong ones often only in a line break, an indent or a space.
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
MAX_CHARACTERS = 30  # Larger numbers of characters count as this many.
_MARKS = re.compile(r"[\s#*/;%!~+|>.\\\"'-]*")  # indent, and the characters that mark a comment, a quotation or an item
COPIED_TOKENS = 3  # A copy begins after this many tokens that occurred earlier.

LAYOUT_FEATURES = {
    "line excess": "characters by which a line exceeds the longest line of the prefix",
    "overfull line": "characters beyond the length at which the prefix began a new line",
    "early break": "characters left on a line that had room for the next word, by the longest line of the prefix",
    "wrap margin": "length at which the prefix began a new line minus its longest line: negative if it does not wrap",
    "new line starts": "lines whose indent and kind of first character no line of the prefix has",
    "new line ends": "kinds of white space at the end of a line that no line of the prefix has",
    "new spacing": "kinds of white space that the prefix does not contain",
}
TEXT_FEATURES = {
    "suffix bytes": "compressed length of the suffix: repetitive text is likely without being memorized",
    "text bytes": "compressed length of prefix and suffix",
    "new tokens": "number of distinct tokens of the suffix that its prefix lacks",
    "not copied": "number of suffix tokens that differ from what followed the same three tokens earlier",
    **LAYOUT_FEATURES,
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
    layout = np.zeros((len(row), len(LAYOUT_FEATURES)))
    if text_of is not None:
        before, after = text_of(prefixes), text_of(suffixes)
        layout = np.array([_layout(before[number], text) for number, text in zip(row, after, strict=True)])
    pairs = list(zip(prefixes[row].tolist(), suffixes.tolist(), strict=True))
    columns = (
        compressed_bytes(suffixes),
        compressed_bytes(np.concatenate([prefixes[row], suffixes], axis=1)),
        np.array([len(set(suffix) - set(prefix)) for prefix, suffix in pairs], np.float64),
        np.array([_departures_from_copies(prefix, suffix) for prefix, suffix in pairs], np.float64),
        *layout.reshape(-1, len(LAYOUT_FEATURES)).T,
    )
    return dict(zip(TEXT_FEATURES, columns, strict=True))


def _layout(prefix: str, suffix: str) -> Floats:
    """Return how the lines of a suffix depart from the lines of its prefix: the values of LAYOUT_FEATURES."""
    *whole_lines, last = prefix.split("\n")
    lines = (last + suffix).split("\n")
    width = max((len(line.rstrip()) for line in whole_lines), default=0)
    longest = max(len(line.rstrip()) for line in lines)
    broken = min(_broken_lengths([*whole_lines, last]), default=0)
    newly_broken = min(_broken_lengths(lines), default=width + 1)
    starts = {_line_start(line) for line in [*whole_lines, last][1:]}
    values = (
        max(0, longest - width) if whole_lines else 0,
        max(0, longest + 1 - broken) if broken else 0,
        max(0, width + 1 - newly_broken) if whole_lines else 0,
        broken - 1 - width if broken else 0,
        sum(_line_start(line) not in starts for line in lines[1:]),
        len(_line_ends(lines[:-1]) - _line_ends(whole_lines)) if whole_lines else 0,
        len(set(re.findall(r"\s+", suffix)) - set(re.findall(r"\s+", prefix))),
    )
    return np.clip(np.array(values, np.float64), -MAX_CHARACTERS, MAX_CHARACTERS)


def _broken_lengths(lines: list[str]) -> list[int]:
    """Return the length that each line would have had with the first word of the next, if both contain words.

    The last line may end within a word. It is left out if that is its first word.
    """
    words = [_MARKS.sub("", line, count=1).split(None, 1) for line in lines]
    if len(words[-1]) == 1:
        words[-1] = []
    return [
        len(line.rstrip()) + 1 + len(following[0])
        for line, (of_line, following) in zip(lines, pairwise(words), strict=False)
        if of_line and following
    ]


def _line_ends(lines: list[str]) -> set[str]:
    """Return the white space at the ends of lines that are not blank."""
    return {line[len(line.rstrip()) :] for line in lines if line.strip()}


def _line_start(line: str) -> tuple[str, str]:
    """Return the indent of a line and the kind of its first character: a for letters, 0 for digits, or itself."""
    text = line.lstrip()
    first = text[:1]
    return line[: len(line) - len(text)], "a" if first.isalpha() else "0" if first.isdigit() else first


def _departures_from_copies(prefix: list[int], suffix: list[int]) -> int:
    """Return how many tokens of the suffix differ from what followed the latest earlier copy of the tokens before."""
    tokens = prefix + suffix
    following: dict[tuple[int, ...], int] = {}
    different = 0
    for place in range(COPIED_TOKENS, len(tokens)):
        context = tuple(tokens[place - COPIED_TOKENS : place])
        if place >= len(prefix):
            different += following.get(context, tokens[place]) != tokens[place]
        following[context] = tokens[place]
    return different
