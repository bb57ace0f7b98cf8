"""How much a machine has left, how many sequences that is, and what running out looks like."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

_POSITIONS = 128
"""Positions that the estimate allows for a sequence: those of the challenge and their spare room."""
_MOST_ROWS = {"cpu": 128, "cuda": 1024}
_SIGNS = ("DefaultCPUAllocator", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
_CGROUP = Path("/sys/fs/cgroup")


def default_rows_at_once(config: Any, *, vocabulary: int, itemsize: int, device: torch.device) -> int:
    """The power of two of sequences that fill about half of what is free, within what still gains speed.

    config: a Hugging Face configuration; itemsize: bytes of one weight.
    """
    layers = getattr(config, "num_hidden_layers", None) or 32
    width = getattr(config, "hidden_size", None) or 4096
    heads = getattr(config, "num_attention_heads", None) or 32
    keys_and_values = 3 * 2 * layers * width * _POSITIONS * itemsize  # a prefix, its branches, and their growth
    prefix = _POSITIONS * (12 * width + 2 * heads * _POSITIONS) * 4
    logits = 24 * vocabulary  # float32 logits, their exponentials and ids, and a float64 cumulative sum
    rows = free_bytes(device) // 2 // (keys_and_values + prefix + logits)
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
