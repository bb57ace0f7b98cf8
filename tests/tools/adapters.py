"""Adapters in PEFT's layout with random weights."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

CONFIG = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none", "task_type": "CAUSAL_LM"}
"""The fields of adapter_config.json that `write_adapter` writes if no others are given."""


def write_adapter(
    folder: Path,
    base: Path,
    layers: str = "attn|attention|mlp",
    *,
    ranks: Mapping[str, int] = {},
    spread: float = 0.3,
    transposed: bool = False,
    **fields: Any,
) -> dict[str, torch.Tensor]:
    """Write an adapter of the model in `base` that changes each matrix whose name matches `layers`; return its tensors.

    ranks: of layers that have another rank than 4. transposed: the matrices are [inputs, outputs].
    fields: of adapter_config.json.
    """
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for name, weight in load_file(base / "model.safetensors").items():
        if weight.ndim == 2 and re.search(layers, name):
            layer = name.removesuffix(".weight")
            outputs, inputs = weight.T.shape if transposed else weight.shape
            rank = ranks.get(layer, 4)
            for half, shape in {"A": (rank, inputs), "B": (outputs, rank)}.items():
                random = spread * torch.randn(shape, generator=generator)
                tensors[f"base_model.model.{layer}.lora_{half}.weight"] = random
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base.name, **CONFIG, **fields}))
    return tensors
