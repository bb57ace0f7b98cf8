"""A fake GPU for tests: its tensors refuse to mix with other devices, and its kernels and synchronizations are counted.

    with FakeGpu() as gpu:
        target = load_target(folder, device="cuda")
        target.sample(prefixes)
    print(gpu.report())

It shows what code does to a GPU and not how fast it is. Its numbers are those of the CPU's kernels.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace, TracebackType
from typing import Any
from unittest.mock import patch

import torch

from tests.tools.fake_gpu import events
from tests.tools.fake_gpu.events import Kind, synchronize, unfinished_copies
from tests.tools.fake_gpu.tensors import DeviceMode, DispatchMode, GpuTensor

__all__ = ["FakeGpu", "GpuTensor", "Kind"]
_open: list["FakeGpu"] = []
_CAPABILITY = (9, 0)
_MEMORY = 16 << 30
"""Bytes of memory of each GPU, all of them free."""


class FakeGpu:
    """A context in which device "cuda" exists, and the counters of its work. Contexts may be nested.

    devices: the number of GPUs, "cuda:0", "cuda:1", …, which do not mix either; their work is counted together.
    """

    def __init__(self, devices: int = 1) -> None:
        self.devices = devices
        self._exits = ExitStack()
        self.reset()

    def reset(self) -> None:
        """Set all counters to 0."""
        self.counts: Counter[Kind] = Counter()
        self.operations: dict[Kind, Counter[str]] = {kind: Counter() for kind in Kind}

    @property
    def kernels(self) -> int:
        """The number of operations that launched work: all but views, metadata and allocation."""
        return self.counts[Kind.KERNEL]

    @property
    def synchronizations(self) -> int:
        """The number of times that the host waited for the GPU, except for uploads."""
        return self.counts[Kind.SYNCHRONIZATION]

    @property
    def uploads(self) -> int:
        """The number of copies from pageable host memory, which wait for the GPU too."""
        return self.counts[Kind.UPLOAD]

    @property
    def transfers(self) -> int:
        """The number of copies between pinned host memory and the GPU that do not wait."""
        return self.counts[Kind.TRANSFER]

    @property
    def peer_copies(self) -> int:
        """The number of copies from one GPU to another, for which the host does not wait."""
        return self.counts[Kind.PEER_COPY]

    def report(self) -> str:
        """Return the counters and the operations that they counted, most frequent first."""
        return "\n".join(f"{kind.value}: {self.counts[kind]} {self.operations[kind].most_common()}" for kind in Kind)

    def _observe(self, kind: Kind, operation: str) -> None:
        self.counts[kind] += 1
        self.operations[kind][operation] += 1

    def __enter__(self) -> "FakeGpu":
        _open.append(self)
        self._exits.enter_context(_observing(self._observe))
        if len(_open) == 1:
            self._exits.enter_context(_patched_cuda())
            was_lifting = torch._C._only_lift_cpu_tensors()
            # Without this, torch.tensor(..., device=...) would not go through the mode below.
            torch._C._set_only_lift_cpu_tensors(True)
            self._exits.callback(torch._C._set_only_lift_cpu_tensors, was_lifting)
            self._exits.enter_context(DeviceMode(self.devices))
            self._exits.enter_context(DispatchMode())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _open.remove(self)
        self._exits.close()


@contextmanager
def _observing(observer: Any) -> Iterator[None]:
    events.observers.append(observer)
    try:
        yield
    finally:
        events.observers.remove(observer)


class _Event:
    """torch.cuda.Event: waiting for it finishes the asynchronous copies before it."""

    def __init__(self, **options: Any) -> None:
        self._copies = unfinished_copies()

    def record(self, stream: Any = None) -> None:
        self._copies = unfinished_copies()

    def synchronize(self) -> None:
        synchronize("Event.synchronize", self._copies)

    def query(self) -> bool:
        return True

    def wait(self, stream: Any = None) -> None:
        pass


class _Stream:
    """torch.cuda.Stream."""

    device = torch.device("cuda", 0)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        pass

    def synchronize(self) -> None:
        synchronize("Stream.synchronize")


def _properties(device: Any = None) -> SimpleNamespace:
    major, minor = _CAPABILITY
    return SimpleNamespace(name="Fake GPU", major=major, minor=minor, total_memory=_MEMORY, multi_processor_count=1)


_CUDA: dict[str, Any] = {
    "Event": _Event,
    "Stream": _Stream,
    "_lazy_init": lambda: None,
    "current_device": lambda: 0,
    "current_stream": lambda device=None: _Stream(),
    "default_stream": lambda device=None: _Stream(),
    "device": lambda device=None: nullcontext(),
    "device_count": lambda: _open[0].devices,
    "empty_cache": lambda: None,
    "get_device_capability": lambda device=None: _CAPABILITY,
    "get_device_name": lambda device=None: "Fake GPU",
    "get_device_properties": _properties,
    "is_available": lambda: True,
    "is_bf16_supported": lambda including_emulation=True: True,
    "is_current_stream_capturing": lambda: False,
    "manual_seed": lambda seed: None,
    "manual_seed_all": lambda seed: None,
    "max_memory_allocated": lambda device=None: 0,
    "max_memory_reserved": lambda device=None: 0,
    "mem_get_info": lambda device=None: (_MEMORY, _MEMORY),
    "memory_allocated": lambda device=None: 0,
    "memory_reserved": lambda device=None: 0,
    "memory_stats": lambda device=None: {},
    "reset_peak_memory_stats": lambda device=None: None,
    "set_device": lambda device: None,
    "stream": lambda stream: nullcontext(),
    "synchronize": lambda device=None: synchronize("torch.cuda.synchronize"),
}
"""The functions and classes of torch.cuda that the fake replaces."""


@contextmanager
def _patched_cuda() -> Iterator[None]:
    with ExitStack() as patches:
        for name, replacement in _CUDA.items():
            patches.enter_context(patch.object(torch.cuda, name, replacement, create=True))
        yield
