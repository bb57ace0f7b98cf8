"""Convert a GGUF file to a directory in Hugging Face layout: `python -m harness.engine.conversion FILE DIRECTORY`.

It parses a stranger's file, so it runs in the sandbox. A fault is the last line that it prints, with exit code 1.
"""

import json
import os
import re
import shutil
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import transformers
from gguf import GGMLQuantizationType, GGUFReader
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging as transformers_logging

from harness.core.errors import HarnessError
from harness.core.files import read_start
from harness.core.text import pluralize, sanitize, shorten

_HEADER = struct.Struct("<4sIQQ")
_MAX_TENSORS = 1_000_000
_HALF = (GGMLQuantizationType.F16, GGMLQuantizationType.BF16)
_HALVES = (torch.bfloat16, torch.float16)
"""bfloat16 comes first, because activations of a model that was trained in it may overflow in float16."""
_LAYOUT = "Use the directory of the original model in Hugging Face layout."
_AGAIN = "Download it again."
_CONFIGURED = {
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "attention.sliding_window": "sliding_window",
    "rope.freq_base": "rope_theta",
    "logit_scale": "logits_scaling",
    "embedding_scale": "embedding_multiplier",
    "residual_scale": "residual_multiplier",
    "attention.scale": "attention_multiplier",
}
"""Metadata that changes the output, and the field of the configuration that must have the same value."""


def convert(file: Path, folder: Path) -> None:
    """Write the dequantized model and the tokenizer of the GGUF file to the new directory `folder`.

    Raises HarnessError if transformers cannot read the file as it is meant, or the disk lacks the space.
    """
    reader = _open(file)
    _require_model(reader)
    folder.mkdir()
    _require_space(reader, folder)
    # transformers opens the file four times, and parsing a large vocabulary takes ten seconds.
    sys.modules["gguf"].GGUFReader = lambda path: reader  # type: ignore[attr-defined]
    options: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True, "trust_remote_code": False}
    architecture: Any = AutoModelForCausalLM
    model, report = architecture.from_pretrained(file.parent, dtype=torch.float32, output_loading_info=True, **options)
    _require_complete(reader, model, report)
    _require_configured(reader, model)
    _save(model, folder)
    AutoTokenizer.from_pretrained(file.parent, **options).save_pretrained(folder)


def _open(file: Path) -> GGUFReader:
    magic, _, tensors, _ = _HEADER.unpack(read_start(file, _HEADER.size).ljust(_HEADER.size, b"\0"))
    if magic != b"GGUF":
        raise HarnessError(f"not a GGUF file. {_AGAIN}")
    if tensors > _MAX_TENSORS:
        raise HarnessError(f"claims to have {tensors:,} tensors, so it is damaged. {_AGAIN}")
    try:
        return GGUFReader(file)
    except Exception as error:
        raise HarnessError(f"incomplete or damaged ({_reason(error)}). {_AGAIN}") from error


def _require_model(reader: GGUFReader) -> None:
    """Raise HarnessError unless the file contains a whole language model."""
    kind, architecture = _text(reader, "general.type"), _text(reader, "general.architecture")
    parts = reader.get_field("split.count")
    if parts is not None and (number := int(parts.contents())) > 1:
        raise HarnessError(
            f"one of {number} parts of a model. Merge them with `llama-gguf-split --merge FIRST-PART OUTPUT` of "
            "llama.cpp, and name the output."
        )
    if architecture == "clip" or kind == "mmproj":
        raise HarnessError("contains a projector for images or sound. Name the GGUF file of the language model.")
    if kind == "adapter":
        raise HarnessError("contains an adapter, not a model. Merge it with `llama-export-lora` of llama.cpp.")
    if not architecture or not reader.tensors:
        raise HarnessError("contains no model. Name another file.")


def _require_space(reader: GGUFReader, folder: Path) -> None:
    needed = sum(int(tensor.n_elements) * (2 if tensor.tensor_type in _HALF else 4) for tensor in reader.tensors)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise HarnessError(
            f"needs up to {needed / 1e9:.1f} GB in the cache, whose disk has {free / 1e9:.1f} GB free. Free space, or "
            "set HARNESS_CACHE to a directory on another disk."
        )


def _require_complete(reader: GGUFReader, model: PreTrainedModel, report: dict[str, Any]) -> None:
    """Raise HarnessError unless the file contains the tensors that the model uses, and no others."""
    kind = type(model).__name__
    if missing := {*report["missing_keys"], *report["unexpected_keys"]}:
        raise HarnessError(f"its tensors are not those of a {kind}, such as {min(missing)}. {_LAYOUT}")
    # transformers drops what its model has no place for without a word, such as biases and factors of angles.
    tensors = {tensor.data_ptr(): tensor.numel() for tensor in model.state_dict().values()}
    unused = sum(int(tensor.n_elements) for tensor in reader.tensors) - sum(tensors.values())
    if unused:
        known = [tensor.name for tensor in reader.tensors if re.search(r"^rope_|bias$", tensor.name)]
        raise HarnessError(
            f"contains {pluralize(unused, 'number')} that the {kind} of transformers {transformers.__version__} does "
            f"not use{f', probably in {shorten(known[0])}' if known else ''}, so it would predict something else. "
            f"{_LAYOUT}"
        )


def _require_configured(reader: GGUFReader, model: PreTrainedModel) -> None:
    """Raise HarnessError if the file has metadata that changes the output and that transformers did not read."""
    prefix, config = f"{_text(reader, 'general.architecture')}.", model.config.to_dict()
    ropes = config.get("rope_parameters") or {}
    ropes = ropes.get("full_attention", ropes)
    for key in (key.removeprefix(prefix) for key in reader.fields if key.startswith(prefix)):
        value = reader.fields[prefix + key].contents()
        name = _CONFIGURED.get(key)
        read = ropes.get(name, config.get(name)) if name else None
        is_scaled = key == "rope.scaling.type" and value != "none" and ropes.get("rope_type", "default") == "default"
        if is_scaled or (name and value and (read is None or abs(read - value) > 1e-5 * abs(value))):
            raise HarnessError(
                f"sets {prefix}{key} to {shorten(str(value))}, which transformers {transformers.__version__} does not "
                f"read, so it would predict something else. {_LAYOUT}"
            )


def _save(model: PreTrainedModel, folder: Path) -> None:
    """Save the model, each tensor in the narrowest type that holds all of its values."""
    vars(model)["hf_quantizer"] = None  # with one, transformers refuses to save
    vars(model.config).pop("quantization_config", None)
    for parameter in model.parameters():
        parameter.data = _narrowest(parameter.data)
    model.save_pretrained(folder)
    types = {str(parameter.dtype).removeprefix("torch.") for parameter in model.parameters()}
    config = json.loads((folder / "config.json").read_bytes())
    config["dtype"] = types.pop() if len(types) == 1 else "float32"
    (folder / "config.json").write_text(json.dumps(config, indent=2))


def _narrowest(values: torch.Tensor) -> torch.Tensor:
    """Return the values in the first type of 16 bits that holds them exactly, else unchanged."""
    halves: Iterable[torch.Tensor] = (values.to(dtype) for dtype in _HALVES)
    return next((half for half in halves if torch.equal(half.to(values.dtype), values)), values)


def _text(reader: GGUFReader, key: str) -> str:
    field = reader.get_field(key)
    value = None if field is None else field.contents()
    return value if isinstance(value, str) else ""


def _reason(error: Exception) -> str:
    # The text of a KeyError is the key alone.
    text = f"{error} is missing" if isinstance(error, KeyError) else " ".join(str(error).split())
    return shorten(text or type(error).__name__, 160)


def main() -> None:
    """Convert the file, and exit at once: a library may have started threads."""
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    fault = ""
    try:
        convert(Path(sys.argv[1]), Path(sys.argv[2]))
    except HarnessError as error:
        fault = str(error)
    except Exception as error:
        fault = f"transformers {transformers.__version__} cannot read it ({_reason(error)}). {_LAYOUT}"
    print(sanitize(fault), flush=True)
    os._exit(1 if fault else 0)


if __name__ == "__main__":
    main()
