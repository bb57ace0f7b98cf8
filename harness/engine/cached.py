"""The model's own code with a cache, and the check that it decodes as without one."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from harness.engine.branches import Placement
from harness.engine.memory import stored_positions
from harness.engine.tree import most_prefixes

if TYPE_CHECKING:
    from harness.engine.model_runner import ModelRunner
from collections.abc import Iterator


class CachedBranches:
    """Branches of a model, each with its own copy of keys and values."""

    def __init__(self, runner: "ModelRunner", cache: DynamicCache, prefixes: int, shift: int) -> None:
        self._runner = runner
        self._cache = cache
        self._rows = prefixes
        self._shift = shift

    def advance(self, tokens: Tensor, placement: Placement) -> Tensor:
        self.select(placement)
        return self._runner.states(tokens.unsqueeze(1), self._cache, keep=1, shift=self._shift)[:, 0]

    def select(self, placement: Placement) -> None:
        if len(placement.moved) or len(placement) != self._rows:
            layers: list[Any] = self._cache.layers
            for layer in layers:
                # The blocks of a model that is split are on several devices.
                device = layer.device if hasattr(layer, "device") else self._runner.device
                layer.batch_select_indices(placement.parents.to(device))
            self._rows = len(placement)


class UncachedBranches:
    """Branches whose whole sequence goes through the model at every step."""

    def __init__(self, runner: "ModelRunner", tokens: Tensor, prompt: Tensor | None, shift: int) -> None:
        """Begin with `tokens` [prefixes, length] after the embeddings `prompt` [tokens, width]."""
        self._runner = runner
        self._tokens = tokens
        self._prompt = prompt
        self._shift = shift

    def advance(self, tokens: Tensor, placement: Placement) -> Tensor:
        self.select(placement)
        self._tokens = torch.cat([self._tokens, tokens.unsqueeze(1)], dim=1)
        length = self._tokens.shape[1] + (0 if self._prompt is None else len(self._prompt))
        parts = torch.split(self._tokens, most_prefixes(self._runner, length))
        states = [self._runner.states(part, keep=1, shift=self._shift, prompt=self._prompt)[:, 0] for part in parts]
        return torch.cat(states)

    def select(self, placement: Placement) -> None:
        self._tokens = self._tokens[placement.parents]


class PreallocatedLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values [rows, heads, positions, width] of one layer, with spare capacity after the last position.

    The base class copies everything at each new token.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._buffers: tuple[Tensor, Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append [rows, heads, new, width] of each and return all positions so far as views."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        length = self.get_seq_length()
        end = length + key_states.shape[-2]
        if self._buffers is None or self._buffers[0].shape[-2] < end:
            self._buffers = (
                _preallocate(self.keys if length else None, key_states, end),
                _preallocate(self.values if length else None, value_states, end),
            )
        keys, values = self._buffers
        keys[..., length:end, :] = key_states
        values[..., length:end, :] = value_states
        self.keys, self.values = keys[..., :end, :], values[..., :end, :]
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep the rows at `indices`, each as often as it occurs."""
        super().batch_select_indices(indices)
        self._buffers = None


def new_cache(model: PreTrainedModel) -> DynamicCache:
    """Return an empty cache for `model` in which plain layers have spare capacity and other kinds are unchanged."""
    cache = DynamicCache(config=model.config)
    cache.layers = [PreallocatedLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


def _preallocate(filled: Tensor | None, new: Tensor, positions: int) -> Tensor:
    *rows_and_heads, _, width = new.shape
    buffer = torch.empty(*rows_and_heads, stored_positions(positions), width, dtype=new.dtype, device=new.device)
    if filled is not None:
        buffer[..., : filled.shape[-2], :] = filled
    return buffer


STEPS = 4
"""Tokens that are decoded after each length of the comparison."""
_LIMITS = ("window", "position", "context", "seq_len", "max_length")
_PERIODS = ("chunk", "block_size")
_BEFORE = 2
"""Tokens before a limit at which decoding towards it begins."""


def decoding_starts(config: Any, length: int, end: int, shift: int) -> list[int]:
    """Return the lengths from which STEPS tokens are decoded for the comparison, in ascending order.

    A prefix of `length` tokens at position `shift` is continued to `end` tokens. These are its own length, the last one
    and those before each limit in between that the configuration names, such as a window or the limit of a rotary
    embedding.
    """
    last = max(length, end - STEPS)
    limits = {limit - before for limit in _limits(config, end + shift) for before in (_BEFORE, _BEFORE + shift)}
    return sorted({length, last, *(limit for limit in limits if length < limit < last)})


def _limits(config: Any, most: int) -> Iterator[int]:
    """Yield the numbers of positions up to `most` in a configuration, and multiples of its periods."""
    values = [config.get_text_config(decoder=True).to_dict()]
    while values:
        value = values.pop()
        items = value.items() if isinstance(value, dict) else [("", entry) for entry in value]
        for name, entry in items:
            if isinstance(entry, dict | list | tuple):
                values.append(entry)
            elif isinstance(entry, int) and 0 < entry <= most:
                if any(word in str(name) for word in _PERIODS):
                    yield from range(entry, most + 1, entry)
                elif any(word in str(name) for word in _LIMITS):
                    yield entry


def agree(actual: Tensor, wanted: Tensor, dtype: torch.dtype) -> bool:
    """Return True if two tensors of states or logits, computed in `dtype`, differ by rounding only.

    The difference is relative to the range of `wanted`. The largest one counts in float32. In 16 bits it can be 2 % of
    the range by rounding alone, so the root mean square counts, which rounding leaves below 1 %.
    """
    if actual.shape != wanted.shape:
        return False
    difference = (actual - wanted).float()
    bound = max(1e-3, float(wanted.max() - wanted.min()))
    if dtype is torch.float32:
        return bool(difference.abs().max() <= 1e-3 * bound)
    return bool(difference.square().mean().sqrt() <= 1e-2 * bound)
