"""The GPUs that this process may use, identified by UUID.

CUDA_VISIBLE_DEVICES hides and reorders GPUs, so an index means nothing outside a process. The device lock, the
telemetry and the worker's environment all use the UUID.
"""

import os
from typing import Any, NamedTuple


class Gpu(NamedTuple):
    """One visible GPU: its number among the visible ones, its UUID and its name."""

    number: int
    uuid: str
    name: str


def visible_gpus() -> list[Gpu]:
    """Return the visible GPUs in CUDA's order; none if there is no NVIDIA driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        uuids = [pynvml.nvmlDeviceGetUUID(handle) for handle in handles]
        names = [pynvml.nvmlDeviceGetName(handle) for handle in handles]
    except pynvml.NVMLError:
        return []
    chosen = visible_indices(os.environ.get("CUDA_VISIBLE_DEVICES"), uuids)
    return [Gpu(index, uuids[physical], names[physical]) for index, physical in enumerate(chosen)]


def visible_indices(variable: str | None, uuids: list[str]) -> list[int]:
    """Return which of the machine's GPUs CUDA_VISIBLE_DEVICES leaves visible, in its order.

    `variable` lists indices or unique beginnings of UUIDs. As in CUDA, the list ends at the first invalid entry (CUDA C
    Programming Guide, "CUDA Environment Variables"). None leaves all visible.
    """
    if variable is None:
        return list(range(len(uuids)))
    chosen: list[int] = []
    for entry in filter(None, (part.strip() for part in variable.split(","))):
        if entry.lstrip("-").isdigit():
            matches = [int(entry)] if 0 <= int(entry) < len(uuids) else []
        else:
            matches = [index for index, uuid in enumerate(uuids) if uuid.startswith(entry)]
        if len(matches) != 1 or matches[0] in chosen:
            break
        chosen += matches
    return chosen


def gpu_handle(uuid: str) -> Any:
    """Return NVML's handle of the GPU, or None if NVML does not know it."""
    import pynvml

    try:
        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except pynvml.NVMLError:
        return None
