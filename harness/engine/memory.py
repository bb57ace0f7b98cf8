"""How much a machine has left, how many sequences that is, and what running out looks like."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

_POSITIONS = 128
"""Positions that the estimate allows for a sequence: those of the challenge and their spare room."""
_MOST_ROWS = {"cpu": 1 << 13, "cuda": 1 << 14}
"""Sequences beyond which nothing gains speed."""
_SIGNS = ("DefaultCPUAllocator", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "bad_alloc", "Cannot allocate memory")
_CGROUP = Path("/sys/fs/cgroup")


def default_rows_at_once(config: Any, *, copies: int, itemsize: int, device: torch.device) -> int:
    """The power of two of sequences whose keys and values fill about half of what is free.

    config: a Hugging Face configuration; copies: how often a sequence's keys and values exist at the same time;
    itemsize: bytes of one weight.
    """
    layers = getattr(config, "num_hidden_layers", None) or 32
    width = getattr(config, "hidden_size", None) or 4096
    keys_and_values = copies * 2 * layers * width * _POSITIONS * itemsize
    states = 16 * width * 4
    rows = free_bytes(device) // 2 // (keys_and_values + states)
    most = _MOST_ROWS.get(device.type, 64)
    return 1 << (max(1, min(rows, most)).bit_length() - 1)


def free_bytes(device: torch.device) -> int:
    """Memory that the device can still give, as far as it says so."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    with suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    with suppress(OSError, ValueError):
        # A container's limit; "max" is no number and stands for none.
        limit = int((_CGROUP / "memory.max").read_text())
        free = min(free, max(0, limit - int((_CGROUP / "memory.current").read_text())))
    return free


def is_out_of_memory(error: BaseException) -> bool:
    """Memory ran out, on whichever device."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and (any(sign in text for sign in _SIGNS))
