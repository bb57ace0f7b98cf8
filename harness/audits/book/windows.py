"""The windows into which texts are cut.

Prefix and suffix are tokenized together and divided at a token boundary, so no token crosses the boundary and makes
the suffix unlikely.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harness.audits.book.inputs import BookParams, StrideUnit
from harness.core.arrays import Ints, Tokens
from harness.core.tokenizers import Tokenizer

if TYPE_CHECKING:
    from tokenizers import Encoding

_FURTHER_TOKENS = 8
"""Tokens after a window that must be known, because the last tokens of a shortened text can be different."""
_WINDOWS_AT_ONCE = 512
_SAMPLED = 1 << 14  # characters
_MAX_CHARACTERS = 16  # per token


@dataclass(frozen=True)
class Windows:
    """The n windows of some texts, in order of their text and start."""

    tokens: Tokens
    """[n, prefix + suffix] int32"""
    start: Ints
    """The character at which each window begins, [n]."""
    cut: Ints
    """The character at which its suffix begins, [n]."""
    end: Ints
    """The character after its last one, [n]."""
    text: Ints
    """The number of its text, [n]."""

    def __len__(self) -> int:
        return len(self.start)

    @property
    def number(self) -> Ints:
        """The number of each window within its text, [n]."""
        return np.arange(len(self.text)) - np.searchsorted(self.text, self.text)


def cut_windows(text: str, tokenizer: Tokenizer, params: BookParams) -> Windows:
    """Return the windows of `text`, which begin at every `stride`-th character or token and have all their tokens."""
    if params.stride_unit is StrideUnit.TOKENS:
        return _windows_at_tokens(text, tokenizer, params)
    parts = list(_windows_at_characters(text, tokenizer, params))
    tokens, bounds = (np.concatenate(column) for column in zip(*parts, strict=True))
    start, cut, end = bounds.T
    return Windows(tokens, start, cut, end, np.zeros_like(start))


def join_windows(parts: Sequence[Windows]) -> Windows:
    """Return the windows of all texts."""
    text = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    tokens = np.concatenate([part.tokens for part in parts])
    start, cut, end = np.concatenate([(part.start, part.cut, part.end) for part in parts], axis=1)
    return Windows(tokens, start, cut, end, text)


def coarse_to_fine(windows: int) -> Ints:
    """Return an order of the windows in which every part covers the whole text: every 16th one, those between, ….

    An audit that is stopped early has then measured the whole text, with a larger stride.
    """
    numbers = np.arange(windows)
    # The number of trailing zeros of the number, at most four.
    level = np.minimum(4, np.log2((numbers & -numbers) | (numbers == 0) << 4).astype(np.int64))
    return np.argsort(-level, kind="stable")


def _windows_at_tokens(text: str, tokenizer: Tokenizer, params: BookParams) -> Windows:
    (encoding,) = _encode(tokenizer, [text])
    ids, offsets = np.array(encoding.ids, np.int32), np.array(encoding.offsets, np.int64).reshape(-1, 2)
    first = np.arange(0, len(ids) - params.window_tokens + 1, params.stride)
    tokens = ids[first[:, None] + np.arange(params.window_tokens)]
    end = offsets[first + params.window_tokens - 1, 1]
    cut = offsets[first + params.prefix_tokens, 0]
    return Windows(tokens, offsets[first, 0], cut, end, np.zeros_like(first))


def _windows_at_characters(text: str, tokenizer: Tokenizer, params: BookParams) -> Iterator[tuple[Tokens, Ints]]:
    """Yield the tokens [n, window tokens] and the start, cut and end [n, 3] of some windows after the other."""
    starts = range(0, max(1, len(text)), params.stride)
    reach = _expected_reach(text, tokenizer, params.window_tokens)
    for group in range(0, len(starts), _WINDOWS_AT_ONCE):
        begun = starts[group : group + _WINDOWS_AT_ONCE]
        encodings = _encode(tokenizer, [text[start : start + reach] for start in begun])
        tokens, bounds = [], []
        for start, first_try in zip(begun, encodings, strict=True):
            encoding, length = first_try, reach
            while len(encoding.ids) < params.window_tokens + _FURTHER_TOKENS and start + length < len(text):
                length *= 2
                (encoding,) = _encode(tokenizer, [text[start : start + length]])
            if len(encoding.ids) >= params.window_tokens:
                offsets = encoding.offsets
                cut, end = offsets[params.prefix_tokens][0], offsets[params.window_tokens - 1][1]
                tokens.append(encoding.ids[: params.window_tokens])
                bounds.append((start, start + cut, start + end))
        yield (np.array(tokens, np.int32).reshape(-1, params.window_tokens), np.array(bounds, np.int64).reshape(-1, 3))


def _expected_reach(text: str, tokenizer: Tokenizer, tokens: int) -> int:
    """Return how many characters usually have a few more than `tokens` tokens."""
    sample = text[:_SAMPLED]
    characters = len(sample) / max(1, len(_encode(tokenizer, [sample])[0].ids))
    # The beginning can be unusual, such as a line of spaces; a window that needs more characters gets them.
    return int(min(_MAX_CHARACTERS, 1.5 * characters) * (tokens + _FURTHER_TOKENS)) + 1


def _encode(tokenizer: Tokenizer, texts: list[str]) -> "list[Encoding]":
    return tokenizer.encode_batch(texts, add_special_tokens=False)
