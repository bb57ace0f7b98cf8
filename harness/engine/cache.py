"""Keys and values of sequences in progress for models of `transformers`, extended without copying."""

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from harness.engine.memory import stored_positions


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
