"""Tensors that report a CUDA device and compute with CPU kernels. `tests.tools.fake_gpu.gpu` is the interface.

A `GpuTensor` contains a CPU tensor. PyTorch's C++ code sees it as a tensor on a stand-in, a device of type "meta",
because a CPU build cannot represent a CUDA tensor in a backward pass. Python code sees the device "cuda:INDEX".
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.tools.fake_gpu.events import Kind, copy_later, is_pinned, notify, pin, synchronize
from tests.tools.fake_gpu.kernels import KERNELS

# Indices from here on distinguish stand-ins from the meta device on which transformers creates models.
_FIRST_STAND_IN = 7


_ONE_KERNEL = {"linear", "matmul", "scaled_dot_product_attention"}
"""Composite operations that are a single kernel in most cases and arrive undivided in inference mode."""
_NO_KERNEL = {
    "_local_scalar_dense",
    "_reshape_alias",
    "_unsafe_view",
    "alias",
    "detach",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "is_pinned",
    "is_same_size",
    "lift",
    "lift_fresh",
    "new_empty",
    "new_empty_strided",
    "set_",
}
_SYNCHRONIZING = {
    "_local_scalar_dense",
    "_unique",
    "_unique2",
    "allclose",
    "bincount",
    "equal",
    "histc",
    "masked_select",
    "nonzero",
    "unique_consecutive",
    "unique_dim",
    "unique_dim_consecutive",
}
_INDEXING = {"_index_put_impl_", "_unsafe_index", "_unsafe_index_put", "index", "index_put", "index_put_"}
_TAKES_HOST_SCALARS = {"_index_put_impl_", "fill_", "index_put", "index_put_", "masked_fill", "masked_fill_", "where"}
_FLOATING_ONLY = {"addbmm", "addmm", "addmv", "baddbmm", "bmm", "dot", "linear", "matmul", "mm", "mv"}


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
        return run(func, args, kwargs or {})

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

    def get_device(self) -> int:
        return self.index

    def numpy(self, **options: Any) -> Any:
        raise TypeError("can't convert cuda device type tensor to numpy. Use Tensor.cpu() to copy the tensor first.")

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def __repr__(self, **options: Any) -> str:
        return f"GpuTensor({self.host!r}, {self.index})"


@dataclass(frozen=True)
class Operation:
    """The properties of an operation of `torch.ops` that the fake uses.

    name: without namespace and overload. is_composite: it consists of other operations. is_view: its result shares
    memory with its input.
    """

    func: Any
    name: str
    is_composite: bool
    is_view: bool
    is_mutable: bool
    has_kernel: bool
    takes_host_scalars: bool


@cache
def describe(func: Any) -> Operation:
    """Return the description of an operation."""
    name = func._schema.name.partition("::")[2]
    is_view = any(result.alias_info is not None and not result.alias_info.is_write for result in func._schema.returns)
    is_composite = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
    return Operation(
        func=func,
        name=name,
        is_composite=is_composite and name not in _ONE_KERNEL,
        is_view=is_view,
        is_mutable=func._schema.is_mutable,
        has_kernel=not (is_view or name in _NO_KERNEL or name.startswith("sym_")),
        takes_host_scalars=torch.Tag.pointwise in func.tags or name in _TAKES_HOST_SCALARS,
    )


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation of `torch.ops` on a fake GPU and count it."""
    operation = describe(func)
    name = operation.name
    if operation.is_composite:
        with DispatchMode():
            found = func.decompose(*args, **kwargs)
        if found is not NotImplemented:
            return found
    if name in ("_to_copy", "copy_"):
        return _copied(func, name, args, kwargs)
    if name.endswith("_for_cpu"):
        raise NotImplementedError(f"Could not run '{func}' with arguments from the 'CUDA' backend.")
    tensors = _tensors((*args, *kwargs.values()) if kwargs else args)
    _require_one_device(operation, tensors)
    if name in _FLOATING_ONLY and not tensors[0].dtype.is_floating_point:
        raise RuntimeError(f'"{name}_cuda" not implemented for {tensors[0].dtype}')
    device = kwargs.get("device")
    index = next((tensor.index for tensor in tensors if isinstance(tensor, GpuTensor)), 0)
    index = index if device is None else _gpu_index(device)
    if str(func) in KERNELS:
        notify(Kind.KERNEL, str(func))
        return _wrapped(KERNELS[str(func)](*_unwrapped(args), **_unwrapped(kwargs)), index)
    if _synchronizes(func, name, args, kwargs):
        synchronize(str(func))
    if operation.has_kernel:
        notify(Kind.KERNEL, str(func))
    if device is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    found = func(*_unwrapped(args), **_unwrapped(kwargs))
    if index is None:
        return found
    if operation.is_view and not args[0].is_inference():
        # A view of an ordinary tensor is an ordinary tensor in inference mode too.
        with torch.inference_mode(False):
            return _wrapped(found, index)
    return _mutated(func, tensors, found, index) if operation.is_mutable else _wrapped(found, index)


def _copied(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run a copy, within a GPU, between GPUs or between GPU and host."""
    non_blocking = bool(kwargs.get("non_blocking", args[2] if name == "copy_" and len(args) > 2 else False))
    if name == "copy_":
        destination, source = args[:2]
        if not isinstance(destination, GpuTensor):
            if non_blocking and is_pinned(destination):
                copy_later(destination, source.host)
            else:
                synchronize(str(func))
                destination.copy_(source.host)
            return destination
        _count_to_gpu(func, source, destination.index, non_blocking)
        destination.host.copy_(_unwrapped(source))
        return destination
    (source,), device = args, kwargs.get("device")
    options = {key: value for key, value in kwargs.items() if key not in ("device", "non_blocking", "pin_memory")}
    copy = func(_unwrapped(source), **options)
    index = source.index if device is None else _gpu_index(device)
    if index is not None:
        _count_to_gpu(func, source, index, non_blocking)
        return GpuTensor(copy, index)
    if non_blocking:
        # PyTorch allocates pinned memory for such a copy, and its values are undefined until a synchronization.
        destination = torch.empty_like(copy)
        pin(destination)
        copy_later(destination, copy)
        return destination
    synchronize(str(func))
    return copy


def _count_to_gpu(func: Any, source: Tensor, index: int, non_blocking: bool) -> None:
    """Count a copy to the GPU with this index. The host does not wait for one from another GPU."""
    if isinstance(source, GpuTensor):
        notify(Kind.KERNEL if source.index == index else Kind.PEER_COPY, str(func))
    elif source.dim() > 0 or func._schema.name.endswith("_to_copy"):
        notify(Kind.TRANSFER if non_blocking and is_pinned(source) else Kind.UPLOAD, str(func))
    else:
        # A host scalar is an argument of the kernel.
        notify(Kind.KERNEL, str(func))


def _synchronizes(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    if name in _SYNCHRONIZING:
        return True
    if name == "repeat_interleave":
        return func._overloadname == "Tensor" and kwargs.get("output_size") is None
    if name in _INDEXING and any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1]):
        # A mask with a single value becomes `masked_fill`.
        return name in ("index", "_unsafe_index") or args[2].numel() != 1 or len(args[1]) > 1
    return False


def _require_one_device(operation: Operation, tensors: list[Tensor]) -> None:
    """Raise RuntimeError if the operation mixes devices in a way that CUDA does not support."""
    gpus = sorted({tensor.index for tensor in tensors if isinstance(tensor, GpuTensor)})
    if len(gpus) > 1:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, cuda:{gpus[0]} and "
            f"cuda:{gpus[1]}! (when checking the arguments of {operation.func})"
        )
    on_host = [tensor for tensor in tensors if not isinstance(tensor, GpuTensor)]
    if not on_host or len(on_host) == len(tensors):
        return
    is_written = operation.is_mutable and not isinstance(tensors[0], GpuTensor)
    if is_written or not operation.takes_host_scalars or any(tensor.dim() > 0 for tensor in on_host):
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, cuda:{gpus[0]} and cpu! "
            f"(when checking the arguments of {operation.func})"
        )


def _stand_in(index: int) -> torch.device:
    return torch.device("meta", _FIRST_STAND_IN + index)


def _gpu_index(device: Any) -> int | None:
    """Return the number of the GPU that a device or its stand-in is, None for another device."""
    device = torch.device(device)
    if device.type == "cuda":
        return device.index or 0
    is_stand_in = device.type == "meta" and (device.index or 0) >= _FIRST_STAND_IN
    return device.index - _FIRST_STAND_IN if is_stand_in else None


def _is_on_gpu(values: Any) -> bool:
    """Return True if a tensor on the fake GPU or its device is among the values."""
    for value in values:
        if isinstance(value, GpuTensor) or (isinstance(value, torch.device) and _gpu_index(value) is not None):
            return True
        if isinstance(value, list | tuple) and _is_on_gpu(value):
            return True
    return False


def _tensors(values: Any) -> list[Tensor]:
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += _tensors(value)
    return found


def _unwrapped(value: Any) -> Any:
    if isinstance(value, GpuTensor):
        return value.host
    if isinstance(value, list | tuple):
        return type(value)([_unwrapped(each) for each in value])
    return {key: _unwrapped(each) for key, each in value.items()} if isinstance(value, dict) else value


def _wrapped(value: Any, index: int) -> Any:
    if isinstance(value, Tensor):
        return GpuTensor(value, index)
    return type(value)(_wrapped(each, index) for each in value) if isinstance(value, list | tuple) else value


def _mutated(func: Any, tensors: list[Tensor], found: Any, index: int) -> Any:
    """Return the results of an operation that writes to some of its arguments, which are results too."""
    given = [tensor for tensor in tensors if isinstance(tensor, GpuTensor)]
    if any(tensor.shape != tensor.host.shape for tensor in given):
        raise NotImplementedError(
            f"{func} changes the shape of a tensor in place, which the fake GPU does not support."
        )
    wrappers = {id(tensor.host): tensor for tensor in given}
    if isinstance(found, Tensor):
        return wrappers[id(found)] if id(found) in wrappers else GpuTensor(found, index)
    if isinstance(found, list | tuple):
        return type(found)(_mutated(func, tensors, each, index) for each in found)
    return found


class DispatchMode(TorchDispatchMode):
    """Run operations that have a tensor on a fake GPU or create one there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _is_on_gpu(args) or (kwargs and _is_on_gpu(kwargs.values())):
            return run(func, args, {key: value for key, value in kwargs.items() if key != "pin_memory"})
        name = describe(func).name
        if name in ("_pin_memory", "pin_memory"):
            return pin(args[0].clone())
        if name == "is_pinned":
            return is_pinned(args[0])
        if kwargs.get("pin_memory"):
            return pin(func(*args, **{**kwargs, "pin_memory": False}))
        return func(*args, **kwargs)


class DeviceMode(TorchFunctionMode):
    """Replace CUDA devices in arguments with their stand-ins. count: the number of GPUs that exist."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": self._translated(kwargs["device"])}
        if func is Tensor.cuda:
            options = {key: value for key, value in kwargs.items() if key != "device"}
            return Tensor.to(args[0], _stand_in(0), **options)
        if func is Tensor.to or any(isinstance(value, torch.device) for value in args):
            args = tuple(self._translated(value) if isinstance(value, torch.device | str) else value for value in args)
        return func(*args, **kwargs)

    def _translated(self, device: Any) -> torch.device:
        device = torch.device(device)
        if device.type != "cuda":
            return device
        if (device.index or 0) >= self._count:
            last = self._count - 1
            raise RuntimeError(f"CUDA error: invalid device ordinal {device.index}. The last fake GPU is cuda:{last}.")
        return _stand_in(device.index or 0)
