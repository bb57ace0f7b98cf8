"""This machine: the memory and the cores that control groups leave to this process, and the GPUs that NVML reports.

Device names are resolved without importing torch, because commands need them before any worker starts.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

VERSION_2 = ""
"""The name of the hierarchy of version 2, which has all controllers. Version 1 has a hierarchy for each controller."""
_PROCESS = Path("/proc/self")
_MEMORY_FILES = {
    VERSION_2: ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""The files of limit and usage, and the name in memory.stat of the cache that can be freed, by hierarchy."""

_QUOTA_FILES = {VERSION_2: ("cpu.max",), "cpu": ("cpu.cfs_quota_us", "cpu.cfs_period_us")}
"""The files with the microseconds of processor time that a group may use in each period, by hierarchy."""
Answer = TypeVar("Answer")
_CUDA_VERSION = re.compile(r"^cuda\b[^=]*=\s*['\"]", re.MULTILINE)
"""The line of torch's version.py that names the CUDA version. A CPU build has `None` there."""


class MemoryLimit(NamedTuple):
    """The limit of a group and the memory that its members use, without cached files that can be freed, in bytes."""

    limit: int
    used: int


def own_groups(process: Path = _PROCESS) -> dict[str, list[Path]]:
    """Return this process's group and its ancestors up to the mount, by hierarchy. process: its directory in /proc."""
    processor: dict[str, list[Path]] = {}
    with contextlib.suppress(OSError, ValueError):
        groups: dict[str, str] = {}
        for line in (process / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            groups |= dict.fromkeys(controllers.split(","), path)
        for line in (process / "mountinfo").read_text().splitlines():
            fields, _, after = line.partition(" - ")
            kind, _, options = after.split(" ", 2)
            root, mount = fields.split()[3:5]
            for name in {"cgroup2": [VERSION_2], "cgroup": options.split(",")}.get(kind, []):
                if name in groups and Path(groups[name]).is_relative_to(root):
                    group = Path(mount) / Path(groups[name]).relative_to(root)
                    above = [path for path in (group, *group.parents) if path.is_relative_to(mount)]
                    processor.setdefault(name, above)
    return processor


def memory_limits(process: Path = _PROCESS) -> Iterator[MemoryLimit]:
    """Yield the memory limit of each group that limits this process: its own group and all ancestors."""
    groups = own_groups(process)
    for hierarchy, (limit, usage, cache) in _MEMORY_FILES.items():
        for group in groups.get(hierarchy, ()):
            # int() fails on "max", which stands for no limit. The root group has no such files.
            with contextlib.suppress(OSError, ValueError):
                bound, used = int((group / limit).read_text()), int((group / usage).read_text())
                statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
                yield MemoryLimit(bound, max(0, used - int(statistics.get(cache, 0))))


def usable_cores(process: Path = _PROCESS) -> int:
    """Return the number of cores that this process may keep busy: at least 1, and at most those of its affinity.

    A container with a quota, such as `docker run --cpus 2`, sees all cores of the machine and may use the time of two.
    More threads than that would wait for each other. process: as in `own_groups`.
    """
    cores, groups = len(os.sched_getaffinity(0)), own_groups(process)
    for hierarchy, files in _QUOTA_FILES.items():
        for group in groups.get(hierarchy, ()):
            # int() fails on "max", and -1 stands for no limit in version 1. The root group has no such files.
            with contextlib.suppress(OSError, ValueError):
                quota, period = (int(number) for name in files for number in (group / name).read_text().split())
                if quota > 0 and period > 0:
                    cores = min(cores, max(1, quota // period))
    return cores


def query_gpus(question: Callable[[Any, Any], Answer]) -> list[Answer]:
    """Return `question(pynvml, handle)` for each GPU in NVML's order; none if there is no NVIDIA driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return [question(pynvml, handle) for handle in handles]
    except pynvml.NVMLError:
        return []


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
