"""The NVIDIA GPUs of this machine, as the driver's library NVML reports them, without importing torch."""

from collections.abc import Callable
from typing import Any, TypeVar

Answer = TypeVar("Answer")


def query_gpus(question: Callable[[Any, Any], Answer]) -> list[Answer]:
    """Return `question(pynvml, handle)` for each GPU in NVML's order; none if there is no NVIDIA driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return [question(pynvml, handle) for handle in handles]
    except pynvml.NVMLError:
        return []
