"""Free memory, the number of sequences that fit into it, and what to do when it runs out."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import torch

from harness.core.errors import HarnessError

Result = TypeVar("Result")
_POSITIONS = 128
"""Positions of a sequence in the estimate: the challenge's 100 tokens plus spare capacity."""
_MAX_ROWS = {"cpu": 1 << 13, "cuda": 1 << 14}
"""More sequences than this do not increase the speed."""
_OUT_OF_MEMORY_TEXTS = (
    "DefaultCPUAllocator",
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "bad_alloc",
    "Cannot allocate memory",
)
_CGROUP = Path("/sys/fs/cgroup")


def default_rows_at_once(config: Any, *, copies: int, itemsize: int, device: torch.device) -> int:
    """Return how many sequences, a power of two, have keys and values that fill about half of the free memory.

    config: a Hugging Face configuration. copies: how many copies of a sequence's keys and values exist at the same
    time. itemsize: bytes per weight.
    """
    layers = getattr(config, "num_hidden_layers", None) or 32
    width = getattr(config, "hidden_size", None) or 4096
    keys_and_values = copies * 2 * layers * width * _POSITIONS * itemsize
    states = 16 * width * 4
    rows = free_bytes(device) // 2 // (keys_and_values + states)
    return 1 << (max(1, min(rows, _MAX_ROWS[device.type])).bit_length() - 1)


def free_bytes(device: torch.device) -> int:
    """Return the bytes of memory that the device can still provide."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    lines = Path("/proc/meminfo").read_text().splitlines()
    free = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    with suppress(OSError, ValueError):
        # A container's limit. int() fails on "max", which stands for no limit.
        limit = int((_CGROUP / "memory.max").read_text())
        free = min(free, max(0, limit - int((_CGROUP / "memory.current").read_text())))
    return free


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if the error says that the memory of any device ran out."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _OUT_OF_MEMORY_TEXTS)


def run_within_memory(
    call: Callable[[int], Result], rows: int, *, minimum: int = 1, device: torch.device, problem: str
) -> tuple[Result, int]:
    """Return `call(rows)` and the rows it ran with, which are halved each time memory runs out.

    minimum: the rows below which halving saves nothing. Raises HarnessError with `problem`, a sentence that begins with
    the purpose of the memory, if that many do not fit.
    """
    while True:
        try:
            return call(rows), rows
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if rows <= minimum:
                raise HarnessError(f"out of memory on {device}: {problem}") from None
        # This is outside the handler because the traceback in it still holds the tensors of the failed call.
        rows //= 2
        if device.type == "cuda":
            torch.cuda.empty_cache()
