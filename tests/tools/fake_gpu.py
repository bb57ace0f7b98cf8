"""A fake GPU for tests: its tensors refuse to mix with other devices, and its kernels, waits and copies are counted.

    with FakeGpu() as gpu:
        target = load_target(folder, device="cuda")
        target.sample(prefixes)
    print(gpu.events)

It shows what code does to a GPU and not how fast it is. Its numbers are those of the CPU's kernels. A `GpuTensor`
contains a CPU tensor. PyTorch's C++ code sees it as a tensor on a stand-in, a device of type "meta", because a CPU
build cannot represent a CUDA tensor in a backward pass. Python code sees the device "cuda:INDEX".
"""

from collections import Counter
from contextlib import ExitStack
from functools import cache
from types import TracebackType
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

_open: list["FakeGpu"] = []
# Indices from here on distinguish stand-ins from the meta device on which transformers creates models.
_FIRST_STAND_IN = 7
_CAPABILITY = (9, 0)
_MEMORY = 16 << 30
"""Bytes of memory of each GPU, all of them free."""
_CUDA: dict[str, Any] = {
    "_lazy_init": lambda: None,
    "current_device": lambda: 0,
    "device_count": lambda: _open[0].devices,
    "empty_cache": lambda: None,
    "get_device_capability": lambda device=None: _CAPABILITY,
    "get_device_name": lambda device=None: "Fake GPU",
    "is_available": lambda: True,
    "is_current_stream_capturing": lambda: False,
    "mem_get_info": lambda device=None: (_MEMORY, _MEMORY),
}
"""The functions of torch.cuda that the fake replaces."""
_ONE_KERNEL = {"linear", "matmul", "scaled_dot_product_attention"}
"""Composite operations that are a single kernel in most cases."""
_NO_KERNEL = ("_local_scalar_dense", "_reshape_alias", "_unsafe_view", "alias", "detach", "empty", "lift", "new_empty")
"""The beginnings of the names of operations that launch no work."""
_TAKES_HOST_SCALARS = {"_index_put_impl_", "fill_", "index_put", "index_put_", "masked_fill", "masked_fill_", "where"}
_WAITING = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


class FakeGpu:
    """A context in which device "cuda" exists.

    devices: the number of GPUs, "cuda:0", "cuda:1", …, which do not mix either. Their work is counted together.
    events: the number of each (kind, operation). A "kernel" is any work except views and allocation. The host "waits"
    for a GPU to read from it; an "upload" from host memory waits too. It does not wait for a "peer copy" from another
    GPU.
    """

    def __init__(self, devices: int = 1) -> None:
        self.devices = devices
        self.events: Counter[tuple[str, str]] = Counter()
        self._exits = ExitStack()

    def count(self, kind: str) -> int:
        """Return the number of events of a kind."""
        return sum(number for (counted, _), number in self.events.items() if counted == kind)

    def __enter__(self) -> "FakeGpu":
        _open.append(self)
        for name, replacement in _CUDA.items():
            self._exits.enter_context(patch.object(torch.cuda, name, replacement))
        was_lifting = torch._C._only_lift_cpu_tensors()
        # Without this, torch.tensor(..., device=...) would not go through the mode below.
        torch._C._set_only_lift_cpu_tensors(True)
        self._exits.callback(torch._C._set_only_lift_cpu_tensors, was_lifting)
        self._exits.enter_context(_DeviceMode())
        self._exits.enter_context(_DispatchMode())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _open.remove(self)
        self._exits.close()


class GpuTensor(Tensor):
    """A tensor on a fake GPU. host: its values, a CPU tensor. index: the number of the GPU."""

    host: Tensor
    index: int

    @staticmethod
    def __new__(cls, host: Tensor, index: int) -> "GpuTensor":
        made = Tensor._make_wrapper_subclass(
            cls,
            host.size(),
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            layout=host.layout,
            device=_stand_in(index),
        )
        made.host, made.index = host, index
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})

    # With these two methods `Module.to` exchanges the contents of parameters, so that tied weights stay tied.
    def __tensor_flatten__(self) -> tuple[list[str], int]:
        return ["host"], self.index

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Tensor], context: int, size: Any, stride: Any) -> "GpuTensor":
        return GpuTensor(inner["host"], context)

    device = property(lambda self: torch.device("cuda", self.index))
    is_cuda = property(lambda self: True)
    is_meta = property(lambda self: False)
    is_cpu = property(lambda self: False)

    def numpy(self, **options: Any) -> Any:
        raise TypeError("can't convert cuda device type tensor to numpy. Use Tensor.cpu() to copy the tensor first.")

    def tolist(self) -> Any:
        return self.cpu().tolist()


class _DispatchMode(TorchDispatchMode):
    """Run operations that have a tensor on a fake GPU or create one there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        for value in _flat((args, kwargs)):
            if isinstance(value, GpuTensor) or (isinstance(value, torch.device) and _gpu_index(value) is not None):
                return _run(func, args, kwargs)
        return func(*args, **kwargs)


class _DeviceMode(TorchFunctionMode):
    """Replace CUDA devices in arguments with their stand-ins."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": self._translated(kwargs["device"])}
        if func is Tensor.to or any(isinstance(value, torch.device) for value in args):
            args = tuple(self._translated(value) if isinstance(value, torch.device | str) else value for value in args)
        return func(*args, **kwargs)

    def _translated(self, device: Any) -> torch.device:
        device = torch.device(device)
        return _stand_in(device.index or 0) if device.type == "cuda" else device


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation of `torch.ops` on a fake GPU and count it."""
    name, is_composite, is_view = _description(func)
    if is_composite:
        with _DispatchMode():
            found = func.decompose(*args, **kwargs)
        if found is not NotImplemented:
            return found
    if name == "copy_":
        destination, source = args[:2]
        _count_copy(func, source, destination)
        _on_host(destination).copy_(_on_host(source))
        return destination
    tensors = [value for value in _flat((args, kwargs)) if isinstance(value, Tensor)]
    index = next((tensor.index for tensor in tensors if isinstance(tensor, GpuTensor)), 0)
    if kwargs.get("device") is not None:
        index = _gpu_index(kwargs["device"])
        kwargs = {**kwargs, "device": torch.device("cpu")}
    if name == "_to_copy":
        found = _wrapped(func(_on_host(args[0]), **kwargs), index)
        _count_copy(func, args[0], found)
        return found
    _require_one_device(func, name, tensors)
    if name == "_scaled_dot_product_flash_attention":
        _count("kernel", func)
        return _wrapped(_flash_attention(*_on_host(args), **_on_host(kwargs)), index)
    if _waits(func, args):
        _count("wait", func)
    if not is_view and not name.startswith(_NO_KERNEL):
        _count("kernel", func)
    if str(func) == "aten.mm.dtype":
        return GpuTensor(torch.mm(*(_on_host(factor).float() for factor in args[:2])), index)
    on_host = _on_host(args)
    if name == "histc":
        # The CPU has no kernel for integers, the GPU no deterministic one for floats.
        on_host = (on_host[0].float(), *on_host[1:])
    found = func(*on_host, **_on_host(kwargs))
    if is_view and not args[0].is_inference():
        # A view of an ordinary tensor is an ordinary tensor in inference mode too.
        with torch.inference_mode(False):
            return _wrapped(found, index)
    # The results of an operation that writes to its arguments are these arguments.
    written = {id(tensor.host): tensor for tensor in tensors if isinstance(tensor, GpuTensor)}
    return written[id(found)] if id(found) in written else _wrapped(found, index)


@cache
def _description(func: Any) -> tuple[str, bool, bool]:
    """Return the name of an operation, whether it consists of other operations, and whether it returns a view."""
    name = func._schema.name.partition("::")[2]
    is_composite = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
    is_view = any(result.alias_info is not None and not result.alias_info.is_write for result in func._schema.returns)
    return name, is_composite and name not in _ONE_KERNEL, is_view


def _flash_attention(query: Tensor, key: Tensor, value: Tensor, *, scale: float) -> tuple[Tensor, Tensor]:
    """Return softmax(scale * query . key) value and the log-sum-exp of the scores, with the limits of the kernel."""
    if query.dtype not in (torch.float16, torch.bfloat16) or query.shape[-1] > 256 or query.shape[-1] % 8:
        raise RuntimeError("FlashAttention supports 16 bits, and heads of a multiple of 8 up to 256 columns")
    if query.stride(-1) != 1 or key.stride(-1) != 1 or value.stride(-1) != 1:
        raise RuntimeError("the input tensors must have a contiguous last dimension")
    scores = torch.matmul(query.float(), key.float().transpose(-1, -2)) * scale  # [batch, heads, queries, positions]
    return torch.matmul(scores.softmax(-1), value.float()).to(query.dtype), torch.logsumexp(scores, dim=-1)


def _waits(func: Any, args: Any) -> bool:
    """Return True if the host needs numbers of the GPU to run an operation."""
    if func._schema.name in ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"):
        is_masked = any(index is not None and index.dtype is torch.bool for index in args[1])
        # An assignment of a single value through a mask becomes `masked_fill`.
        return is_masked and (func._schema.name == "aten::index" or args[2].numel() != 1)
    return bool(_WAITING & {*func.tags})


def _require_one_device(func: Any, name: str, tensors: list[Tensor]) -> None:
    """Raise RuntimeError if an operation mixes devices in a way that CUDA does not support."""
    takes_scalars = torch.Tag.pointwise in func.tags or name in _TAKES_HOST_SCALARS
    is_written_on_host = func._schema.is_mutable and not isinstance(tensors[0], GpuTensor)
    devices = {
        str(tensor.device)
        for tensor in tensors
        if isinstance(tensor, GpuTensor) or tensor.dim() > 0 or not takes_scalars or is_written_on_host
    }
    if len(devices) > 1:
        first, second = sorted(devices, reverse=True)[:2]
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}! "
            f"(when checking the arguments of {func})"
        )


def _count(kind: str, func: Any) -> None:
    _open[-1].events[kind, str(func)] += 1


def _count_copy(func: Any, source: Tensor, destination: Tensor) -> None:
    if not isinstance(destination, GpuTensor):
        _count("wait", func)
    elif isinstance(source, GpuTensor):
        _count("kernel" if source.index == destination.index else "peer copy", func)
    else:
        # A host scalar that is assigned is an argument of the kernel.
        _count("upload" if source.dim() > 0 or func._schema.name == "aten::_to_copy" else "kernel", func)


def _stand_in(index: int) -> torch.device:
    return torch.device("meta", _FIRST_STAND_IN + index)


def _gpu_index(device: torch.device) -> int | None:
    """Return the number of the GPU that a device or its stand-in is, None for another device."""
    if device.type == "cuda":
        return device.index or 0
    return device.index - _FIRST_STAND_IN if device.type == "meta" and (device.index or 0) >= _FIRST_STAND_IN else None


def _flat(value: Any) -> list[Any]:
    """Return the values in nested lists, tuples and dictionaries."""
    if isinstance(value, dict):
        value = list(value.values())
    return [part for item in value for part in _flat(item)] if isinstance(value, list | tuple) else [value]


def _on_host(value: Any) -> Any:
    if isinstance(value, GpuTensor):
        return value.host
    if isinstance(value, list | tuple):
        return type(value)([_on_host(item) for item in value])
    return {name: _on_host(item) for name, item in value.items()} if isinstance(value, dict) else value


def _wrapped(value: Any, index: int | None) -> Any:
    if isinstance(value, Tensor):
        return value if index is None else GpuTensor(value, index)
    return type(value)(_wrapped(item, index) for item in value) if isinstance(value, list | tuple) else value
