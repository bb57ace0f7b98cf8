"""The events that a fake GPU counts, and copies to the host that are finished by a synchronization."""

from collections.abc import Callable
from enum import Enum

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef


class Kind(Enum):
    """The kinds of work that are counted."""

    KERNEL = "kernel"
    SYNCHRONIZATION = "synchronization"
    UPLOAD = "upload"
    TRANSFER = "asynchronous transfer"
    PEER_COPY = "copy between GPUs"


observers: list[Callable[[Kind, str], None]] = []
"""Called for each event with its kind and the name of the operation."""
_unfinished: list[tuple[Tensor, Tensor]] = []
"""Asynchronous copies to the host: destination and values. They are carried out at the next synchronization."""
_pinned: dict[int, StorageWeakRef] = {}


def notify(kind: Kind, operation: str) -> None:
    """Report an event to all observers."""
    for observer in observers:
        observer(kind, operation)


def synchronize(operation: str, copies: list[tuple[Tensor, Tensor]] | None = None) -> None:
    """Count a synchronization and finish `copies`, by default all asynchronous copies to the host."""
    notify(Kind.SYNCHRONIZATION, operation)
    finished = {id(destination) for destination, _ in (_unfinished if copies is None else copies)}
    for destination, values in _unfinished:
        if id(destination) in finished:
            destination.copy_(values)
    _unfinished[:] = [pair for pair in _unfinished if id(pair[0]) not in finished]


def unfinished_copies() -> list[tuple[Tensor, Tensor]]:
    """Return the asynchronous copies to the host that no synchronization has finished."""
    return list(_unfinished)


def copy_later(destination: Tensor, values: Tensor) -> None:
    """Fill `destination` with wrong values, and with `values` at the next synchronization."""
    notify(Kind.TRANSFER, "copy to the host")
    if destination.dtype.is_floating_point:
        destination.fill_(torch.nan)
    else:
        destination.fill_(True if destination.dtype is torch.bool else torch.iinfo(destination.dtype).max)
    _unfinished.append((destination, values.detach().clone()))


def pin(tensor: Tensor) -> Tensor:
    """Mark the memory of a CPU tensor as pinned."""
    storage = tensor.untyped_storage()
    _pinned[storage._cdata] = StorageWeakRef(storage)
    return tensor


def is_pinned(tensor: Tensor) -> bool:
    """Return True if the memory of a CPU tensor is marked as pinned."""
    found = _pinned.get(tensor.untyped_storage()._cdata)
    return found is not None and not found.expired()
