"""The comparison of decoding: after which lengths tokens are decoded, and whether two results agree."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

STEPS = 4
"""Tokens that are decoded after each length of the comparison."""
_LIMITS = ("window", "position", "context", "seq_len", "max_length")
_PERIODS = ("chunk", "block_size")
_BEFORE = 2
"""Tokens before a limit at which decoding towards it begins."""
_ROUNDED = 32
"""Lengths are rounded to multiples of this, because a comparison takes as long as a small batch."""


def decoding_starts(config: Any, length: int, end: int, shift: int) -> list[int]:
    """Return the lengths from which STEPS tokens are decoded for the comparison, in ascending order.

    A prefix of `length` tokens at position `shift` is continued to `end` tokens. These are its own length, the last one
    and those before each limit in between that the configuration names, such as a window or the limit of a rotary
    embedding.
    """
    last = max(length, end - STEPS)
    limits = {limit - before for limit in _limits(config, end + shift) for before in (_BEFORE, _BEFORE + shift)}
    return sorted({length, last, *(limit for limit in limits if length < limit < last)})


def compared_range(config: Any, length: int, end: int, shift: int) -> tuple[int, int]:
    """Return the lengths between which decoding is compared for a prefix of `length` tokens that grows to `end`.

    They are rounded down and up unless there is a limit in between, so that one comparison serves many lengths.
    """
    first, last = max(1, length // _ROUNDED * _ROUNDED), -(-end // _ROUNDED) * _ROUNDED
    limits = {limit - before for limit in _limits(config, last + shift) for before in (0, shift)}
    if any(first - STEPS <= limit <= length + STEPS for limit in limits):
        first = length
    if any(end - STEPS <= limit <= last + STEPS for limit in limits):
        last = end
    return first, last


def _limits(config: Any, max_position: int) -> Iterator[int]:
    """Yield the numbers of positions up to `max_position` in a configuration, and multiples of its periods."""
    values = [config.get_text_config(decoder=True).to_dict()]
    while values:
        value = values.pop()
        items = value.items() if isinstance(value, dict) else [("", entry) for entry in value]
        for name, entry in items:
            if isinstance(entry, dict | list | tuple):
                values.append(entry)
            elif isinstance(entry, int) and 0 < entry <= max_position:
                if any(word in str(name) for word in _PERIODS):
                    yield from range(entry, max_position + 1, entry)
                elif any(word in str(name) for word in _LIMITS):
                    yield entry


def agree(actual: Tensor, expected: Tensor, dtype: torch.dtype) -> bool:
    """Return True if two tensors of states or logits, computed in `dtype`, differ by rounding only.

    The difference is relative to the range of `expected`. The largest one counts in float32. In 16 bits it can be 2 %
    of the range by rounding alone, so the root mean square counts, which rounding leaves below 1 %.
    """
    if actual.shape != expected.shape:
        return False
    difference = (actual - expected).float()
    bound = max(1e-3, float(expected.max() - expected.min()))
    if dtype is torch.float32:
        return bool(difference.abs().max() <= 1e-3 * bound)
    return bool(difference.square().mean().sqrt() <= 1e-2 * bound)
