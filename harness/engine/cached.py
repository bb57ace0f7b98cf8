"""Branches that the model's own code decodes, with a cache or without one."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from harness.engine.branches import Placement
from harness.engine.memory import stored_positions
from harness.engine.tree import prefixes_at_once


class CachedBranches:
    """Branches of a model, each with its own copy of keys and values."""

    def __init__(self, states: Callable[..., Tensor], cache: DynamicCache, prefixes: int, shift: int) -> None:
        self._states = states
        self._cache = cache
        self._rows = prefixes
        self._shift = shift

    def advance(self, tokens: Tensor, placement: Placement) -> Tensor:
        self.select(placement)
        return self._states(tokens.unsqueeze(1), self._cache, keep=1, shift=self._shift)[:, 0]

    def select(self, placement: Placement) -> None:
        if len(placement.moved) or len(placement) != self._rows:
            layers: list[Any] = self._cache.layers
            for layer in layers:
                # The blocks of a model that is split are on several devices.
                layer.batch_select_indices(placement.parents.to(getattr(layer, "device", placement.parents.device)))
            self._rows = len(placement)


class UncachedBranches:
    """Branches whose whole sequence goes through the model at every step."""

    def __init__(self, states: Callable[..., Tensor], tokens: Tensor, prompt: Tensor | None, shift: int) -> None:
        """Begin with `tokens` [prefixes, length] after the embeddings `prompt` [tokens, width]."""
        self._states = states
        self._tokens = tokens
        self._prompt = prompt
        self._shift = shift

    def advance(self, tokens: Tensor, placement: Placement) -> Tensor:
        self.select(placement)
        self._tokens = torch.cat([self._tokens, tokens.unsqueeze(1)], dim=1)
        length = self._tokens.shape[1] + (0 if self._prompt is None else len(self._prompt))
        parts = torch.split(self._tokens, prefixes_at_once(self._tokens.device, length))
        states = [self._states(part, keep=1, shift=self._shift, prompt=self._prompt)[:, 0] for part in parts]
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
