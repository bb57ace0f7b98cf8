"""From a folder of safetensors to a model on its device; no network, no code from the folder, no pickle."""

import json
import struct
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging as transformers_logging

from harness.core.errors import HarnessError
from harness.core.text import shorten
from harness.engine.memory import is_out_of_memory
from harness.engine.target import Target

_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
_STORED = {"F16": torch.float16, "BF16": torch.bfloat16}
_MAX_HEADER_BYTES = 100 << 20


def load_target(
    path: Path,
    *,
    device: str = "auto",
    dtype: str = "auto",
    threads: int | None = None,
    rows_at_once: int | None = None,
    suffix_length: int = 50,
) -> Target:
    """The target in the folder `path`, in Hugging Face layout.

    dtype "auto": float32 on a CPU; on a GPU what the weights are stored in. threads: CPU threads of this process.
    rows_at_once: sequences that go through the model together, by default as many as memory suggests. Raises
    HarnessError when the folder holds no such model, its weights are no finite numbers, memory does not suffice for
    them, or the device is absent.
    """
    path = Path(path)
    model = loaded_model(
        path, AutoModelForCausalLM, "a causal language model", device=device, dtype=dtype, threads=threads
    )
    try:
        return Target(model, path=path, rows_at_once=rows_at_once, suffix_length=suffix_length)
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            raise _too_large(path, model.device) from None
        raise HarnessError(f"{path}: cannot be run on {model.device} ({_reason(error)}).") from error


def loaded_model(
    path: Path, architecture: Any, what: str, *, device: str, dtype: str, threads: int | None
) -> PreTrainedModel:
    """The model in the folder `path` on its device, in evaluation mode and without gradients.

    architecture: the class of transformers that reads it; what: what that makes it, for a sentence. The rest and the
    errors are those of `load_target`.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    # TensorFloat-32 would leave float32 in name only.
    torch.set_float32_matmul_precision("highest")
    where = _device(device)
    model: PreTrainedModel = _model(path, _dtype(dtype, path, where), architecture, what)
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise _damaged(path, name, parameter)
    try:
        model.to(where)  # type: ignore[arg-type]
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            raise _too_large(path, where) from None
        raise HarnessError(f"{path}: cannot be run on {where} ({_reason(error)}).") from error
    model.train(False).requires_grad_(False)
    return model


def _damaged(path: Path, name: str, parameter: torch.Tensor) -> HarnessError:
    if bool(torch.isnan(parameter).any()):
        return HarnessError(f"{path}: the weights {name} hold NaN: the files are damaged, and have to be fetched anew.")
    dtype = str(parameter.dtype).removeprefix("torch.")
    return HarnessError(
        f"{path}: the weights {name} hold infinity in {dtype}: the files are damaged, or need a --dtype of wider range."
    )


def _reason(error: Exception) -> str:
    """The words of a library's error, in one line."""
    return shorten(" ".join(str(error).split()), 160)


def _too_large(path: Path, where: torch.device) -> HarnessError:
    return HarnessError(
        f"{path}: the memory of {where} does not suffice to load it; free some, or take a smaller dtype."
    )


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device("cuda:0" if name == "cuda" else name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda", "mps"):
        raise HarnessError(f"unknown device {shorten(name)!r}: auto, cpu, cuda, cuda:N or mps.")
    if device.type == "cuda" and not torch.cuda.is_available():
        build = f"torch {torch.__version__}"
        raise HarnessError(f"{name} is asked for and {build} finds no CUDA GPU; use --device cpu, or a CUDA build.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise HarnessError(f"{name} is asked for and there are {torch.cuda.device_count()} CUDA GPUs, from cuda:0 on.")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise HarnessError("mps is asked for and this machine has no Apple GPU that torch can use.")
    return device


def _dtype(name: str, path: Path, device: torch.device) -> torch.dtype:
    if name != "auto":
        if name not in _DTYPES:
            raise HarnessError(f"unknown dtype {shorten(name)!r}: auto, {', '.join(_DTYPES)}.")
        return _DTYPES[name]
    if device.type == "cpu":
        return torch.float32
    stored = _STORED.get(_stored_dtype(path), torch.float32)
    if stored is torch.bfloat16 and device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 0):
        # Emulated before Ampere; float16 lacks its range.
        return torch.float32
    return stored


def _stored_dtype(path: Path) -> str:
    """The dtype that most numbers in the folder's weights have, in safetensors' words."""
    numbers: dict[str, int] = {}
    for file in _weight_files(path):
        with file.open("rb") as stream:
            try:
                (size,) = struct.unpack("<Q", stream.read(8))
                header = json.loads(stream.read(min(size, _MAX_HEADER_BYTES)))
                tensors = [entry for name, entry in header.items() if name != "__metadata__"]
                for entry in tensors:
                    first, last = entry["data_offsets"]
                    numbers[entry["dtype"]] = numbers.get(entry["dtype"], 0) + last - first
            except (struct.error, ValueError, KeyError, TypeError, AttributeError):
                raise HarnessError(f"{file}: not a safetensors file.") from None
    return max(numbers, key=lambda dtype: numbers[dtype], default="F32")


def _weight_files(path: Path) -> list[Path]:
    if not path.is_dir():
        raise HarnessError(f"{path}: no such folder, and a target is a folder with config.json and *.safetensors.")
    if not (path / "config.json").exists():
        raise HarnessError(f"{path}: not a model folder, it has no config.json.")
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise HarnessError(f"{path}: no *.safetensors here, and weights in other formats may run code when read.")
    return files


def _model(path: Path, dtype: torch.dtype, architecture: Any, what: str) -> PreTrainedModel:
    _weight_files(path)
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    loaded: Any
    try:
        loaded = architecture.from_pretrained(
            path,
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
    except Exception as error:
        if is_out_of_memory(error):
            raise _too_large(path, torch.device("cpu")) from error
        # Whatever a broken folder makes the loader raise, the user reads one sentence; --debug shows the rest.
        raise HarnessError(f"{path}: cannot be loaded as {what} ({_reason(error)}).") from error
    finally:
        if bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
    model, found = loaded
    if missing := sorted(found["missing_keys"]):
        raise HarnessError(
            f"{path}: the weights lack {len(missing)} tensors of a {type(model).__name__}, {missing[0]} among them."
        )
    assert isinstance(model, PreTrainedModel)
    return model
