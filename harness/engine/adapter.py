"""Adapters in PEFT's layout: reading adapter_config.json, which needs no torch, and merging weights into a model.

An adapter is a stranger's file: nothing in it opens a path, and no regular expression in it is evaluated.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, FiniteFloat, PositiveInt

from harness.core.errors import HarnessError
from harness.core.inputs import read_bounded_json
from harness.core.spec import AdapterRecord
from harness.core.text import shorten

if TYPE_CHECKING:
    from torch import nn

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
_MAX_CONFIG_BYTES = 1 << 20
_SUPPORTED: dict[str, tuple[object, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none",),
    # Other initial values change the weights of the base model.
    "init_lora_weights": (True, False, None, "gaussian", "eva", "orthogonal", "mica"),
}
_WITHOUT_EFFECT = frozenset(
    {"task_type", "peft_version", "auto_mapping", "revision", "inference_mode", "runtime_config", "lora_dropout"}
    | {"target_modules", "exclude_modules", "layers_to_transform", "layers_pattern", "fan_in_fan_out", "megatron_core"}
    | {"loftq_config", "eva_config", "corda_config", "qalora_group_size"}
)
"""Fields that the merged weights do not depend on, because the names and shapes in the file and the layers decide."""
_PLAIN_PATTERN = re.compile(r"\^?(?:\w|\\?\.)+")
_TENSOR = re.compile(r"base_model\.model\.(.+)\.lora_[AB]\.weight")
_ADVICE = "Merge it with merge_and_unload() of peft, and name the directory of the merged model."


class AdapterConfig(BaseModel, extra="allow", frozen=True, strict=True):
    """The fields of adapter_config.json that the merged weights depend on."""

    base_model_name_or_path: str | None = None
    r: PositiveInt = 8
    lora_alpha: FiniteFloat = 8
    rank_pattern: dict[str, PositiveInt] | None = None
    alpha_pattern: dict[str, FiniteFloat] | None = None
    use_rslora: bool = False

    def unsupported(self) -> Iterator[tuple[str, Any]]:
        """Yield the name and the value of each field that makes the adapter more than a plain LoRA."""
        for name, value in {"peft_type": None, **(self.model_extra or {})}.items():
            if value not in _SUPPORTED[name] if name in _SUPPORTED else value and name not in _WITHOUT_EFFECT:
                yield name, value
        patterns = self.alpha_pattern or {}
        yield from (("alpha_pattern", pattern) for pattern in patterns if _PLAIN_PATTERN.fullmatch(pattern) is None)

    def scale(self, layer: str, rank: int) -> float:
        """Return the factor of B @ A in a layer."""
        alpha = self.lora_alpha
        for pattern, of_pattern in reversed((self.alpha_pattern or {}).items()):
            name = pattern.removeprefix("^").replace("\\", "")
            if layer == name or (pattern[0] != "^" and layer.endswith(f".{name}")):
                alpha = of_pattern
        return alpha / (math.sqrt(rank) if self.use_rslora else rank)


def read_adapter(folder: Path) -> AdapterConfig:
    """Return the configuration of the adapter in `folder`.

    Raises HarnessError if it cannot be read, if it is not a plain LoRA, or if its weights are not a safetensors file.
    """
    file = folder / ADAPTER_CONFIG
    config = read_bounded_json(AdapterConfig, file, limit=_MAX_CONFIG_BYTES)
    for name, value in config.unsupported():
        raise HarnessError(f"{file}: {shorten(name)} is {shorten(json.dumps(value))}, not a plain LoRA. {_ADVICE}")
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise HarnessError(f"no {ADAPTER_WEIGHTS} in {folder}. Other formats may run code. Save it as safetensors.")
    return config


def differing_base(adapter: AdapterRecord, path: Path) -> str | None:
    """Return a sentence if the adapter says that it was trained on another model than the one in `path`."""
    said, base = read_adapter(adapter.path).base_model_name_or_path, Path(adapter.base).name or path.name
    is_same = said is None or Path(said).name in (base, path.name)
    sentence = (
        f"{adapter.path.name} says that it is an adapter of {shorten(said or '', 120)}, and was merged into {base}."
    )
    return None if is_same else sentence


def merge_adapter(folder: Path, base: "nn.Module", model: "nn.Module") -> None:
    """Write W + scale * B @ A, computed in float32, into each layer of `model` that the adapter in `folder` changes.

    base: the model with its weights W in float32, which may be `model` itself.
    Raises HarnessError if a tensor does not belong to a plain LoRA or fits no layer, or if a weight is not finite.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file
    from transformers.pytorch_utils import Conv1D

    config, file = read_adapter(folder), folder / ADAPTER_WEIGHTS
    try:
        tensors = load_file(file)
    except SafetensorError:
        raise HarnessError(f"not a safetensors file: {file}. Download it again.") from None
    names = sorted({match[1] for match in map(_TENSOR.fullmatch, tensors) if match})
    halves = {name: [f"base_model.model.{name}.lora_{half}.weight" for half in "AB"] for name in names}
    if (unexpected := tensors.keys() ^ set(chain(*halves.values()))) or not names:
        name = shorten(min(unexpected, default="lora_A"), 120)
        raise HarnessError(f"{file}: {name} is missing, or is not lora_A or lora_B of a linear layer. {_ADVICE}")
    layers = dict(base.named_modules())
    uses = Counter(id(parameter) for _, parameter in base.named_parameters(remove_duplicate=False))
    ranks = {config.r, *(config.rank_pattern or {}).values()}
    for name in names:
        a, b = (tensors[half].float() for half in halves[name])
        layer, where = layers.get(name), f"{file}: {shorten(name, 120)}"
        if not isinstance(layer, (torch.nn.Linear, Conv1D)) or layer.weight.dtype is not torch.float32:
            raise HarnessError(f"{where} is not a linear layer of the base model. Name another --base.")
        if uses[id(layer.weight)] > 1:
            raise HarnessError(f"{where} shares its weight, so merging changes two layers. Train without this layer.")
        weight, written = layer.weight.detach(), model.get_parameter(f"{name}.weight").data
        if isinstance(layer, Conv1D):  # [inputs, outputs]
            weight, written = weight.T, written.T
        rank = len(a) if a.ndim else 0
        if rank not in ranks or (a.shape, b.shape) != ((rank, weight.shape[1]), (len(weight), rank)):
            shapes = f"A {list(a.shape)} and B {list(b.shape)} do not fit {list(weight.shape)} and rank {config.r}"
            raise HarnessError(f"{where}: {shapes}. Name another --base.")
        written.copy_(weight + (b @ a) * config.scale(name, rank))
        if not bool(torch.isfinite(written).all()):
            raise HarnessError(f"{where} is infinite or NaN after merging. Use another adapter or a wider --dtype.")
