"""Convert a GGUF file to a directory in Hugging Face layout: `python -m harness.engine.conversion FILE DIRECTORY`.

It parses a stranger's file, so it runs in the sandbox. A fault is the last line that it prints, with exit code 1.
"""

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.utils import logging as transformers_logging

from harness.core.errors import HarnessError
from harness.core.text import pluralize, sanitize, shorten

_HALF = (GGMLQuantizationType.F16, GGMLQuantizationType.BF16)
_HALVES = (torch.bfloat16, torch.float16)
"""bfloat16 comes first, because activations of a model that was trained in it may overflow in float16."""
_LAYOUT = "Use the directory of the original model in Hugging Face layout."
_READ_BY = f"transformers {transformers.__version__}"
_CONFIGURED = {
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "attention.sliding_window": "sliding_window",
    "rope.freq_base": "rope_theta",
    "rope.scaling.type": "rope_type",
    "rope.scaling.factor": "factor",
    "logit_scale": "logits_scaling",
    "embedding_scale": "embedding_multiplier",
    "residual_scale": "residual_multiplier",
    "attention.scale": "attention_multiplier",
}
"""Metadata that changes the output, and the field of the configuration that must have the same value."""
_LLAMA_3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
_ANGLES = "rope_freqs.weight"
"""The tensor of the factors of Llama 3 by which angles are divided. transformers does not read it."""


class BoundedReader(GGUFReader):
    """A reader that stops at the end of the file, where GGUFReader goes on with empty values."""

    def _get(self, offset: Any, dtype: Any, count: Any = 1, *order: Any, **options: Any) -> Any:
        values = super()._get(offset, dtype, count, *order, **options)
        if len(values) != count:
            raise ValueError("the file ends early")
        return values


def convert(file: Path, folder: Path) -> None:
    """Write the dequantized model and the tokenizer of the GGUF file to the new directory `folder`.

    Raises HarnessError if transformers cannot read the file as it is meant, or the disk lacks the space.
    """
    if find_spec("transformers.integrations.gguf") is None:
        raise HarnessError(f"{_READ_BY} builds wrong tokenizers from GGUF files. Install transformers 5.23 or newer.")
    try:
        reader = BoundedReader(file)
    except Exception as error:
        raise HarnessError(f"not a complete GGUF file ({_reason(error)}). Download it again.") from error
    metadata = {
        key: field.contents() for key, field in reader.fields.items() if field.types[:1] != [GGUFValueType.ARRAY]
    }
    _require_model(reader, metadata)
    folder.mkdir()
    _require_space(reader, folder)
    # transformers opens the file four times, and parsing a large vocabulary takes ten seconds.
    sys.modules["gguf"].GGUFReader = lambda path: reader  # type: ignore[attr-defined]
    # It lists the directory of the file, which the sandbox does not show.
    source = folder.with_name("source")
    source.mkdir()
    (source / "model.gguf").symlink_to(file)
    options: dict[str, Any] = {"gguf_file": "model.gguf", "local_files_only": True, "trust_remote_code": False}
    architecture: Any = AutoModelForCausalLM
    model, report = architecture.from_pretrained(source, dtype=torch.float32, output_loading_info=True, **options)
    _require_complete(reader, model, report)
    _configure(reader, metadata, model.config)
    _save(model, folder)
    AutoTokenizer.from_pretrained(source, **options).save_pretrained(folder)


def _require_model(reader: GGUFReader, metadata: dict[str, Any]) -> None:
    """Raise HarnessError unless the file contains a whole language model."""
    kind, architecture = metadata.get("general.type"), metadata.get("general.architecture")
    if (parts := metadata.get("split.count", 1)) > 1:
        raise HarnessError(
            f"one of {parts} parts of a model. Merge them with `llama-gguf-split --merge FIRST-PART OUTPUT` of "
            "llama.cpp, and name the output."
        )
    if architecture == "clip" or kind == "mmproj":
        raise HarnessError("contains a projector for images or sound. Name the GGUF file of the language model.")
    if kind == "adapter" or metadata.get(f"{architecture}.block_count", 1) > len(reader.tensors):
        content = "an adapter" if kind == "adapter" else f"only {pluralize(len(reader.tensors), 'tensor')} of a model"
        raise HarnessError(f"contains {content}. Name the file of a whole model.")


def _require_space(reader: GGUFReader, folder: Path) -> None:
    needed = sum(int(tensor.n_elements) * (2 if tensor.tensor_type in _HALF else 4) for tensor in reader.tensors)
    if needed > (free := shutil.disk_usage(folder).free):
        raise HarnessError(
            f"needs up to {needed / 1e9:.1f} GB in the cache, whose disk has {free / 1e9:.1f} GB free. Free space, or "
            "set HARNESS_CACHE to a directory on another disk."
        )


def _require_complete(reader: GGUFReader, model: PreTrainedModel, report: dict[str, Any]) -> None:
    """Raise HarnessError unless the file contains the tensors that the model uses, and no others."""
    kind = type(model).__name__
    if wrong := {*report["missing_keys"], *report["unexpected_keys"]}:
        raise HarnessError(f"its tensors are not those of a {kind}, such as {min(wrong)}. {_LAYOUT}")
    # transformers drops tensors without a word, such as biases, for which its model has no place.
    used = sum({tensor.data_ptr(): tensor.numel() for tensor in model.state_dict().values()}.values())
    stored = sum(int(tensor.n_elements) for tensor in reader.tensors if tensor.name != _ANGLES)
    if stored != used:
        raise HarnessError(
            f"contains {pluralize(stored, 'number')} and the {kind} of {_READ_BY} uses {used:,}, so it would predict "
            f"something else. {_LAYOUT}"
        )


def _configure(reader: GGUFReader, metadata: dict[str, Any], config: Any) -> None:
    """Add to the configuration what transformers does not read: the scaling of angles, and of attention in Gemma 27B.

    Raises HarnessError if other metadata that changes the output is missing in it.
    """
    prefix = f"{metadata['general.architecture']}."
    angles = getattr(config, "rope_parameters", None) or {}
    angles = angles.get("full_attention", angles)
    if metadata.get(f"{prefix}rope.scaling.type") == "linear":
        angles |= {"rope_type": "linear", "factor": metadata.get(f"{prefix}rope.scaling.factor")}
    for factors in (torch.from_numpy(tensor.data.copy()) for tensor in reader.tensors if tensor.name == _ANGLES):
        plain = angles["rope_theta"] ** -(torch.arange(len(factors)) / len(factors))
        angles |= {"rope_type": "llama3", "factor": float(factors.max()), **_LLAMA_3}
        scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
        if factors.shape != scaled.shape or not torch.allclose(plain / scaled, factors, rtol=1e-4):
            raise HarnessError(f"scales angles in another way than Llama 3, in {_ANGLES}. {_LAYOUT}")
    # llama.cpp, too, knows Gemma 2 and 3 with 27 billion parameters by their number of blocks.
    if hasattr(config, "query_pre_attn_scalar") and config.num_hidden_layers in (46, 62):
        config.query_pre_attn_scalar = config.hidden_size // config.num_attention_heads
    for key, name in _CONFIGURED.items():
        value = metadata.get(prefix + key)
        if value not in (None, 0, "none", angles.get(name, getattr(config, name, None))):
            raise HarnessError(
                f"sets {prefix}{key} to {shorten(str(value))}, which {_READ_BY} does not read, so it would predict "
                f"something else. {_LAYOUT}"
            )


def _save(model: PreTrainedModel, folder: Path) -> None:
    """Save the model, each tensor in the narrowest type that holds all of its values."""
    vars(model)["hf_quantizer"] = None  # with one, transformers refuses to save
    vars(model.config).pop("quantization_config", None)
    for parameter in model.parameters():
        halves = (parameter.data.to(dtype) for dtype in _HALVES)
        exact = (half for half in halves if torch.equal(half.to(parameter.dtype), parameter.data))
        parameter.data = next(exact, parameter.data)
    model.save_pretrained(folder)


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
        fault = f"{_READ_BY} cannot read it ({_reason(error)}). {_LAYOUT}"
    print(sanitize(fault), flush=True)
    os._exit(1 if fault else 0)


if __name__ == "__main__":
    main()
