"""Device names, resolved without importing torch, because commands need them before any worker starts."""

import os
import re
from importlib.util import find_spec
from pathlib import Path

from harness.core.gpus import query_gpus

_CUDA_VERSION = re.compile(r"^cuda\b[^=]*=\s*['\"]", re.MULTILINE)
"""The line of torch's version.py that names the CUDA version. A CPU build has `None` there."""


def resolve_device(device: str = "auto") -> str:
    """Return the name of a device in which "auto" is replaced by "cuda", or by "cpu" if torch cannot use a GPU.

    "cuda" is any visible GPU: the supervisor takes a free one, and `load_target` the first. The index of "cuda:INDEX"
    counts the visible GPUs.
    """
    if device == "auto":
        return "cuda" if _torch_has_cuda() and _visible_gpus() > 0 else "cpu"
    return device


def _torch_has_cuda() -> bool:
    """Return True if torch was built with CUDA. Its version.py is read and not run."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return False
    try:
        return _CUDA_VERSION.search((Path(spec.origin).parent / "version.py").read_text()) is not None
    except (OSError, ValueError):
        return False


def _visible_gpus() -> int:
    """Return the number of NVIDIA GPUs, or 0 if CUDA_VISIBLE_DEVICES hides all of them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    # An empty list, or one that begins with -1, hides all GPUs.
    if visible is not None and visible.split(",")[0].strip() in ("", "-1"):
        return 0
    return len(query_gpus(lambda _, gpu: gpu))
