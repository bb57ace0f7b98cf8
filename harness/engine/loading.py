"""Loading a model from a folder of safetensors, without network, code from the folder or pickle."""

import contextlib
import math
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging as transformers_logging

from harness.core.errors import HarnessError
from harness.core.spec import AdapterRecord
from harness.core.text import shorten
from harness.engine.adapter import differing_base, merge_adapter
from harness.engine.first_token import first_token
from harness.engine.memory import is_out_of_memory, keep_freed_memory
from harness.engine.model_runner import Warn
from harness.engine.pieces import split_model
from harness.engine.resolving import weight_files
from harness.engine.target import Target

_BUFFERS = re.compile(
    r"(^|\.)(inv_freq|masked_bias|position_ids|embed_positions\.weights|attn\.bias|attention\.bias|num_batches_tracked)$"
)
"""Tables that models compute themselves and that older files store: angles, positions and causal masks."""
_OTHER_PARTS = re.compile(
    r"^(?:(?!\d+\.)[^.]+\.)*"
    r"(?:vision|visual|vit|image|audio|speech|video|multi_?modal|mm_projector|perceiver|talker|token2wav|code2wav"
    r"|mtp|nextn|pooler|seq_relationship|v_head|value_head|score|classifier|qa_outputs|multiple_choice_head)",
)
"""Parts that no language model reads: towers and projectors of other media, heads of other tasks.

They are not in a numbered layer of the language model: what is in one changes its output.
"""
_LANGUAGE_HEADS = re.compile(r"(^|\.)(lm_head|cls|predictions|generator_lm_head)\.")
_ADVICE = (
    (
        re.compile(r"lora_|\.base_layer\.|adapter|\.ia3_|^base_model\.model\."),
        "They are of an adapter that is not merged. Merge it into the base model, for example with merge_and_unload() "
        "of peft.",
    ),
    (
        re.compile(r"\.(qweight|qzeros|scales|g_idx|absmax|quant_map)|scale|quant"),
        "The weights are quantized, and config.json has no quantization_config. Use the model before its quantization.",
    ),
)
_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
_STORED_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def require_used_weights(path: Path, kind: str, unused: Collection[str], *, has_language_head: bool = True) -> None:
    """Raise HarnessError unless the tensors of a folder that a model of class `kind` does not use are harmless.

    unused: their names, without those that the architecture itself lists.
    has_language_head: the model predicts tokens.
    """
    left = sorted(name for name in unused if not _BUFFERS.search(name) and not _OTHER_PARTS.search(name))
    if not has_language_head:
        left = [name for name in left if not _LANGUAGE_HEADS.search(name)]
    if left:
        advice = _advice(left) or "config.json describes another model than the weights. Download the folder again."
        raise HarnessError(
            f"the weights contain {len(left)} tensors that a {kind} does not use, such as {shorten(left[0])}: {path}. "
            f"{advice}"
        )


def missing_weights_error(path: Path, kind: str, missing: Collection[str], unused: Collection[str]) -> HarnessError:
    """Return the error for tensors that a model of class `kind` needs and that the files do not contain."""
    return HarnessError(
        f"the weights lack {len(missing)} tensors of a {kind}, such as {min(missing)}: {path}. "
        f"{_advice(unused) or 'Download the folder again.'}"
    )


def _advice(unused: Collection[str]) -> str:
    """Return advice on tensors with such names, "" if the names do not tell."""
    return next((advice for names, advice in _ADVICE if any(names.search(name) for name in unused)), "")


def load_target(
    path: Path,
    *,
    adapter: AdapterRecord | None = None,
    device: str = "auto",
    shards: Sequence[str] = (),
    dtype: str = "auto",
    threads: int | None = None,
    rows_at_once: int | None = None,
    prefix_length: int = 50,
    suffix_length: int = 50,
    vocabulary: int | None = None,
    warn: Warn | None = None,
) -> Target:
    """Load the target in the folder `path`, in Hugging Face layout.

    adapter: an adapter that is merged into it.
    shards: the devices to split it over, instead of `device`, if it does not fit on one.
    dtype: "auto" is float32 on a CPU and 16 bits on a GPU, whatever the weights are stored in.
    threads: CPU threads of this process.
    rows_at_once: sequences that go through the model together, by default derived from free memory and from
    prefix_length and suffix_length, those of the round.
    vocabulary: the ids that it may predict, from 0 on, by default all.
    warn: gets the sentences that decoding is slow and that the adapter was trained on another model, by default
    `warnings.warn`. If the tokenizer puts a first token before every text, the target sees it before every prefix that
    does not begin with it.
    Raises HarnessError if the folder contains no such model, its weights are not finite, the model does not use some of
    them, they do not fit into memory, a device does not exist, or the model cannot be split.
    """
    path = Path(path)
    devices = [_torch_device(name) for name in shards or (device,)]
    role, architecture = "a causal language model", AutoModelForCausalLM
    model = _load_on_cpu(path, architecture, role, devices[0], adapter=adapter, dtype=dtype, threads=threads)
    if adapter is not None and (sentence := differing_base(adapter, path)):
        (warn or warnings.warn)(sentence)
    place = ", ".join(dict.fromkeys(map(str, devices)))
    with _loading_errors(path, place, f"the model cannot be run on {place}"):
        pieces = split_model(model, devices)
        return Target(
            model,
            pieces,
            path=path,
            rows_at_once=rows_at_once,
            prefix_length=prefix_length,
            suffix_length=suffix_length,
            vocabulary=vocabulary,
            bos_token=_checked_first_token(path, model),
            stored_dtype=_STORED_DTYPES.get(_stored_dtype(path)),
            warn=warn,
        )


def load_model(path: Path, architecture: Any, role: str, *, device: str = "auto", **options: Any) -> PreTrainedModel:
    """Load the model in the folder `path` to its device, in evaluation mode and without gradients.

    architecture: the `transformers` class that reads it.
    role: the kind of model, for errors. The other arguments and the errors are those of `load_target`.
    """
    where = _torch_device(device)
    model = _load_on_cpu(path, architecture, role, where, **options)
    with _loading_errors(path, str(where), f"the model cannot be run on {where}"):
        model.to(where)  # type: ignore[arg-type]
    return model


def _load_on_cpu(
    path: Path,
    architecture: Any,
    role: str,
    where: torch.device,
    *,
    adapter: AdapterRecord | None = None,
    dtype: str = "auto",
    threads: int | None = None,
) -> PreTrainedModel:
    """Load a model into the memory of the host, for the device `where`. The arguments are those of `load_model`."""
    if threads is not None:
        torch.set_num_threads(threads)
    # "highest" disables TensorFloat-32, which has only 10 bits of mantissa.
    torch.set_float32_matmul_precision("highest")
    if where.type == "cpu":
        keep_freed_memory()
    stored_in = _torch_dtype(dtype, path, where)
    model: PreTrainedModel = _read_model(path, stored_in, architecture, role)
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise _damaged_weights_error(path, name, parameter)
    if adapter is not None:
        base = model if stored_in is torch.float32 else _read_model(path, torch.float32, architecture, role)
        with _loading_errors(adapter.path, "cpu", "the adapter cannot be merged into its base"):
            merge_adapter(adapter.path, base, model)
    model.train(False).requires_grad_(False)
    return model


@contextlib.contextmanager
def _loading_errors(path: Path, place: str, problem: str) -> Iterator[None]:
    """Turn errors into a HarnessError that names the model: out of memory on `place`, or else `problem`."""
    try:
        yield
    except HarnessError:
        raise
    except Exception as error:
        # A broken folder, and the code of hundreds of architectures, may raise anything. The user reads one sentence;
        # --debug shows the rest.
        if is_out_of_memory(error):
            raise HarnessError(
                f"out of memory on {place} while loading: {path}. Free memory or use a smaller --dtype."
            ) from None
        raise HarnessError(f"{problem}: {path} ({shorten(' '.join(str(error).split()), 160)}).") from error


def _checked_first_token(path: Path, model: PreTrainedModel) -> int | None:
    """Return the first token of the folder's tokenizer. Raises HarnessError if the model has no such token."""
    token = first_token(path)
    # Architectures name the number of embeddings differently in their configurations.
    embeddings = len(cast("torch.Tensor", model.get_input_embeddings().weight))
    if token is not None and token >= embeddings:
        raise HarnessError(
            f"the tokenizer begins every text with token {token}, and the model has {embeddings}: {path}. "
            "Download the folder again."
        )
    return token


def _damaged_weights_error(path: Path, name: str, parameter: torch.Tensor) -> HarnessError:
    if bool(torch.isnan(parameter).any()):
        return HarnessError(f"the weights {name} contain NaN: {path}. The files are damaged. Download them again.")
    dtype = str(parameter.dtype).removeprefix("torch.")
    return HarnessError(
        f"the weights {name} contain infinity in {dtype}: {path}. The files are damaged or need a wider --dtype."
    )


def _torch_device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    match = re.fullmatch(r"cpu|cuda(?::(\d{1,3}))?", name)
    if match is None:
        raise HarnessError(f"unknown device: {shorten(name)!r}. Use auto, cpu, cuda or cuda:INDEX.")
    if name == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise HarnessError(
            f"device {name} is not available: torch {torch.__version__} found no CUDA GPU. Use --device cpu or install "
            "a CUDA build of torch."
        )
    index, gpus = int(match[1] or 0), torch.cuda.device_count()
    if index >= gpus:
        raise HarnessError(f"device {name} is not available: torch found {gpus} GPUs. Use cuda:0 to cuda:{gpus - 1}.")
    return torch.device("cuda", index)


def _torch_dtype(name: str, path: Path, device: torch.device) -> torch.dtype:
    if name != "auto":
        if name not in _DTYPES:
            raise HarnessError(f"unknown dtype: {shorten(name)!r}. Use auto, {', '.join(_DTYPES)}.")
        return _DTYPES[name]
    if device.type == "cpu":
        return torch.float32
    stored = _STORED_DTYPES.get(_stored_dtype(path), torch.float32)
    if stored is torch.float16:
        return stored
    if torch.cuda.get_device_capability(device) >= (8, 0):
        # It has the range of float32, so that no model overflows.
        return torch.bfloat16
    # GPUs before Ampere emulate bfloat16, and float16 lacks its range.
    return torch.float32 if stored is torch.bfloat16 else torch.float16


def _stored_dtype(path: Path) -> str:
    """Return the most frequent dtype of the folder's weights, as safetensors names it."""
    numbers: Counter[str] = Counter()
    for file in weight_files(path):
        try:
            with safe_open(file, framework="pt") as weights:
                for name in weights.keys():  # noqa: SIM118  it cannot be iterated
                    tensor = weights.get_slice(name)
                    numbers[tensor.get_dtype()] += math.prod(tensor.get_shape())
        except SafetensorError:
            raise HarnessError(f"not a safetensors file: {file}. Download it again.") from None
    return numbers.most_common(1)[0][0] if numbers else "F32"


def _read_model(path: Path, dtype: torch.dtype, architecture: Any, role: str) -> PreTrainedModel:
    weight_files(path)
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    with _loading_errors(path, "cpu", f"the folder cannot be loaded as {role}"):
        model, report = architecture.from_pretrained(
            path,
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
    kind, unused = type(model).__name__, report["unexpected_keys"]
    if missing := report["missing_keys"]:
        raise missing_weights_error(path, kind, missing, unused)
    require_used_weights(path, kind, unused, has_language_head=model.get_output_embeddings() is not None)
    assert isinstance(model, PreTrainedModel)
    return model
