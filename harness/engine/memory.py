"""The limits of a device: free memory, what to do when it runs out, and numbers that are not finite."""

import ctypes
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from harness.core.arrays import Floats
from harness.core.errors import HarnessError
from harness.core.hardware import memory_limits

Result = TypeVar("Result")
_SHARE = 0.6
"""The part of the free memory for keys and values. Activations, logits and spare capacity get the rest."""
_MAX_ROWS = {"cpu": 1 << 13, "cuda": 1 << 14}
"""More sequences than this do not increase the speed."""
_OUT_OF_MEMORY_TEXTS = (
    "DefaultCPUAllocator",
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "bad_alloc",
    "Cannot allocate memory",
)
_ONEDNN_TEXTS = ("could not create a primitive", "could not create a memory object", "could not execute a primitive")
"""The whole messages of oneDNN when it gets no memory, for its machine code or for its buffers."""
CACHE_STEP = 64
"""The capacity of a cache grows by this many positions."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""The numbers of mallopt(3): free memory above which glibc returns some, and the size of blocks of their own."""


@dataclass
class Room:
    """The number of sequences that go through a model together. All targets with views of the model share it."""

    rows: int


def default_rows_at_once(config: Any, *, positions: int, itemsize: int, shares: Mapping[torch.device, float]) -> int:
    """Return how many sequences have keys and values that fill a good half of the free memory, at least 1.

    config: a Hugging Face configuration.
    positions: stored for each sequence.
    itemsize: bytes per number.
    shares: the part of the blocks that each device has, which stores their keys and values; the tightest device
    decides.
    """
    width = getattr(config, "hidden_size", None) or 4096
    states = 16 * width * 4
    stored = positions * key_value_bytes(config, itemsize=itemsize)
    rows = [
        min(int(_SHARE * free_bytes(device) / (share * stored + states)), _MAX_ROWS[device.type])
        for device, share in shares.items()
    ]
    return max(1, min(rows))


def stored_positions(positions: int) -> int:
    """Return the positions that a cache reserves for a sequence of `positions`."""
    return -(-positions // CACHE_STEP) * CACHE_STEP


def key_value_bytes(config: Any, *, itemsize: int) -> int:
    """Return the bytes of one position's keys and values in all layers."""
    layers = getattr(config, "num_hidden_layers", None) or 32
    heads = getattr(config, "num_attention_heads", None) or 32
    width = getattr(config, "head_dim", None) or (getattr(config, "hidden_size", None) or 4096) // heads
    stored_heads = getattr(config, "num_key_value_heads", None) or heads
    return int(2 * layers * stored_heads * width * itemsize)


def free_bytes(device: torch.device) -> int:
    """Return the bytes of memory that the device can still provide."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    left = [group.limit - group.used for group in memory_limits()]
    return max(0, min([_machine_bytes("MemAvailable:"), *left]))


def total_bytes() -> int:
    """Return the bytes of memory of this machine, or the lowest limit of this process's control groups."""
    return min([_machine_bytes("MemTotal:"), *(group.limit for group in memory_limits())])


def _machine_bytes(name: str) -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


def keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next table of logits, because fresh pages are slow."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, 32 << 20)
        library.mallopt(_TRIM_THRESHOLD, 512 << 20)


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if the error says that the memory of any device ran out."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    if not isinstance(error, RuntimeError):
        return False
    message = str(error)
    return message in _ONEDNN_TEXTS or any(text in message for text in _OUT_OF_MEMORY_TEXTS)


def run_within_memory(
    call: Callable[[int], Result], rows: int, *, minimum: int = 1, place: str, problem: str
) -> tuple[Result, int]:
    """Return `call(rows)` and the rows it ran with, which are halved each time memory runs out.

    minimum: the rows below which halving saves nothing.
    place: the names of the devices.
    Raises HarnessError with `problem`, a sentence that begins with the purpose of the memory, if that many do not fit.
    """
    while True:
        try:
            return call(rows), rows
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if rows <= minimum:
                raise HarnessError(f"out of memory on {place}: {problem}") from None
        # This is outside the handler because the traceback in it still holds the tensors of the failed call.
        rows //= 2
        torch.cuda.empty_cache()


def require_finite(logprobs: Floats, dtype: torch.dtype) -> None:
    """Raise HarnessError unless all log-probabilities, which a target computed in `dtype`, are finite."""
    if not np.isfinite(logprobs).all():
        raise non_finite_error("the target returned NaN or infinity", dtype)


def non_finite_error(problem: str, dtype: torch.dtype) -> HarnessError:
    """Return the error for `problem`, a clause that says what was found in a computation in `dtype`."""
    return HarnessError(
        f"{problem} in {str(dtype).removeprefix('torch.')}. Its weights are damaged or its values overflow: try "
        "--dtype float32 or bfloat16, which have the widest range."
    )
