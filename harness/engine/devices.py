"""Which device a target would run on, found without importing torch: commands ask before any worker starts."""

import ast
import os
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from harness.core.syntax import syntax_tree

_NVIDIA_DRIVER = Path("/proc/driver/nvidia/gpus")


def resolved_device(device: str = "auto") -> str:
    """`cuda:0` or `cpu` for "auto"; "cuda" as `cuda:0`; anything else as it is (Apple's `mps` by name only)."""
    if device == "auto":
        return "cuda:0" if _torch_has_cuda() and _gpus() > 0 else "cpu"
    return "cuda:0" if device == "cuda" else device


def _torch_has_cuda() -> bool:
    """Torch was built with CUDA, by its own version.py, which is read and not run."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return False
    with suppress(OSError, SyntaxError, ValueError):
        for statement in syntax_tree((Path(spec.origin).parent / "version.py").read_text()).body:
            names = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
            if any(isinstance(name, ast.Name) and name.id == "cuda" for name in names):
                value = getattr(statement, "value", None)
                return isinstance(value, ast.Constant) and bool(value.value)
    return False


def _gpus() -> int:
    """NVIDIA GPUs that this process may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    # An empty list, or one that begins with -1, hides them all.
    if visible is not None and visible.split(",")[0].strip() in ("", "-1"):
        return 0
    try:
        import pynvml
    except ImportError:
        return len(list(_NVIDIA_DRIVER.iterdir())) if _NVIDIA_DRIVER.is_dir() else 0
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return 0
    try:
        return int(pynvml.nvmlDeviceGetCount())
    finally:
        pynvml.nvmlShutdown()
