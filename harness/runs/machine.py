"""The library versions and the hardware that records name, read without importing large libraries."""

import functools
import platform
from pathlib import Path
from typing import Any

import psutil

from harness.core.extras import installed_version
from harness.core.hardware import query_gpus, usable_cores
from harness.core.version import __version__

ABSENT = "absent"
_DISTRIBUTIONS = ("torch", "transformers", "numpy", "tokenizers", "safetensors", "pydantic")


def versions() -> dict[str, str]:
    """Return the versions of the harness, Python and the libraries that affect a result, `ABSENT` for none."""
    libraries = {name: installed_version(name) or ABSENT for name in _DISTRIBUTIONS}
    return {"harness": __version__, "python": platform.python_version(), **libraries}


def hardware() -> dict[str, Any]:
    """Return the processor, the number of usable cores, the memory in bytes and the names of the GPUs."""
    return {
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "processor": processor(),
        "cores": usable_cores(),
        "memory": psutil.virtual_memory().total,
        "gpus": query_gpus(lambda nvml, gpu: str(nvml.nvmlDeviceGetName(gpu))),
    }


@functools.cache
def processor() -> str:
    """Return the name of the processor, from /proc because the platform module does not know it on Linux."""
    for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
