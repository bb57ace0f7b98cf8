"""Models that overflow at some position."""

import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file

OVERFLOWING_POSITION = 14
"""After the twelve prefix tokens, so that the first tokens of a suffix are still finite."""


def save_overflowing(folder: Path, copy: Path) -> Path:
    """Save a copy of a model with finite weights that returns NaN from one position on, and return its folder."""
    shutil.copytree(folder, copy)
    tensors = load_file(copy / "model.safetensors")
    tensors["transformer.wpe.weight"][OVERFLOWING_POSITION] = 3e38
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt"})
    return copy
