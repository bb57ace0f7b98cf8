"""A model split over devices: each has consecutive blocks, and the first has everything else too.

Hidden states pass through the devices in their order and return to the first one, whose head computes the logits.
Draws, branches and logits never leave the first device. The module knows nothing about decoding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from harness.core.errors import HarnessError


@dataclass(frozen=True)
class Piece:
    """The blocks of a decoder from number `first` to before `end`, whose weights, keys and values are on one device."""

    device: torch.device
    first: int
    end: int

    @property
    def numbers(self) -> slice:
        """The numbers of the blocks, as a slice of a list of all blocks."""
        return slice(self.first, self.end)

    def __len__(self) -> int:
        return self.end - self.first


def split_model(model: PreTrainedModel, devices: Sequence[torch.device]) -> tuple[Piece, ...]:
    """Move a model from the CPU to devices, a piece of it to each, and return the pieces; none for one device.

    Each weight goes straight to its device. The model's own code runs too: hooks move the inputs of a block to its
    device, and the result of the last block to the first device. Raises HarnessError if the model has no list of
    blocks, or fewer blocks than there are devices.
    """
    home = devices[0]
    if len(devices) == 1:
        model.to(home)  # type: ignore[arg-type]
        return ()
    name, blocks = _blocks_of(model)
    if len(blocks) < len(devices):
        raise HarnessError(
            f"a model of {len(blocks)} blocks cannot be split over {len(devices)} devices: {model.name_or_path}. Name "
            "fewer devices."
        )
    sizes = [_bytes_of(block) for block in blocks]
    pieces, first = [], 0
    for device, count in zip(devices, balance(sizes, _bytes_of(model) - sum(sizes), len(devices)), strict=True):
        pieces.append(Piece(device, first, first + count))
        first += count
    for piece in pieces:
        for block in blocks[piece.numbers]:
            block.to(piece.device)
            if piece.device != home:
                block.register_forward_pre_hook(_move_inputs_to(piece.device), with_kwargs=True)
    blocks[-1].register_forward_hook(lambda block, inputs, output: move_to(output, home))
    # The rest is moved without the blocks, so that weights that are tied stay tied.
    parent, _, attribute = name.rpartition(".")
    setattr(model.get_submodule(parent), attribute, nn.ModuleList())
    model.to(home)  # type: ignore[arg-type]
    setattr(model.get_submodule(parent), attribute, blocks)
    return tuple(pieces)


def balance(sizes: Sequence[int], rest: int, pieces: int) -> tuple[int, ...]:
    """Return how many consecutive blocks each piece has, at least 1, such that the largest piece is the smallest.

    sizes: of the blocks, in bytes.
    rest: the bytes of everything else, which is in the first piece.
    """

    @cache
    def best(first: int, left: int) -> tuple[int, tuple[int, ...]]:
        """Return the size of the largest of `left` pieces for the blocks from `first` on, and their counts."""
        size = 0 if first else rest
        if left == 1:
            return size + sum(sizes[first:]), (len(sizes) - first,)
        splits = []
        for end in range(first + 1, len(sizes) - left + 2):
            size += sizes[end - 1]
            largest, counts = best(end, left - 1)
            splits.append((max(size, largest), (end - first, *counts)))
        return min(splits)

    return best(0, pieces)[1]


def move_to(value: Any, device: torch.device) -> Any:
    """Return a value with its tensors on `device`, also those in tuples and dicts. Other values stay as they are."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {name: move_to(part, device) for name, part in value.items()}
    return tuple(move_to(part, device) for part in value) if isinstance(value, tuple) else value


def _move_inputs_to(device: torch.device) -> Any:
    return lambda block, inputs, keywords: move_to((inputs, keywords), device)


def _blocks_of(model: PreTrainedModel) -> tuple[str, nn.ModuleList]:
    """Return the name of the list of blocks within the model, and the list."""
    count = model.config.get_text_config(decoder=True).num_hidden_layers
    lists = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == count
    ]
    # Lists within a block come after the list of blocks, and their names begin with its name.
    if not lists or any(not name.startswith(lists[0][0]) for name, _ in lists):
        raise HarnessError(
            f"{type(model).__name__} models cannot be split over devices: their list of blocks was not found. Use one "
            "device."
        )
    return lists[0]


def _bytes_of(module: nn.Module) -> int:
    """Return the bytes of a module's weights and buffers. Tied weights count once."""
    return sum(tensor.nbytes for tensor in (*module.parameters(), *module.buffers()))
