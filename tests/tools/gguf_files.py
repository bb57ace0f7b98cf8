"""Small GGUF files with random weights: `python -m tests.tools.gguf_files FILE QUANTIZATION` writes one."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import pre_tokenizers

VOCABULARY = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "th", "the", "<|end|>"]
_WIDTH, _HEADS, _KEYS, _HIDDEN, _CONTEXT = 64, 4, 2, 96, 128


def write_gguf(
    file: Path,
    *,
    architecture: str = "llama",
    quantization: str = "F32",
    fields: Mapping[str, Any] = {},
    extra: Mapping[str, Sequence[float]] = {},
    without: str = "",
    seed: int = 0,
) -> Path:
    """Write a model of two layers and its byte-level tokenizer, and return the file.

    fields: further metadata. extra: further tensors. without: a tensor to leave out.
    """
    import gguf  # an extra

    rng, kind = np.random.default_rng(seed), gguf.GGMLQuantizationType[quantization]
    writer = gguf.GGUFWriter(file, architecture)
    writer.add_context_length(_CONTEXT)
    writer.add_feed_forward_length(_HIDDEN)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_KEYS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_key_length(_WIDTH // _HEADS)
    writer.add_rope_dimension_count(_WIDTH // _HEADS)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(VOCABULARY)
    writer.add_token_types([1] * (len(VOCABULARY) - 1) + [3])
    writer.add_token_merges(["t h", "th e"])
    writer.add_token_scores([0.0] * len(VOCABULARY))
    writer.add_bos_token_id(len(VOCABULARY) - 1)
    writer.add_eos_token_id(len(VOCABULARY) - 1)
    writer.add_unk_token_id(len(VOCABULARY) - 1)
    writer.add_add_bos_token(False)
    usual = {"rope.freq_base": 10_000.0, "block_count": 2, "embedding_length": _WIDTH}
    for key, value in ({f"{architecture}.{key}": value for key, value in usual.items()} | dict(fields)).items():
        add = {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32}[type(value)]
        add(key, value)
    keys = _WIDTH // _HEADS * _KEYS
    norms = ["attn_norm", "ffn_norm"]
    if architecture == "gemma3":
        norms += ["post_attention_norm", "post_ffw_norm"]
    shapes: dict[str, tuple[int, ...]] = {"token_embd": (len(VOCABULARY), _WIDTH), "output_norm": (_WIDTH,)}
    for layer in range(2):
        shapes |= {f"blk.{layer}.{name}": (_WIDTH,) for name in norms}
        if architecture == "gemma3":
            shapes |= {f"blk.{layer}.{name}": (_WIDTH // _HEADS,) for name in ("attn_q_norm", "attn_k_norm")}
        shapes |= {
            f"blk.{layer}.attn_q": (_WIDTH, _WIDTH),
            f"blk.{layer}.attn_k": (keys, _WIDTH),
            f"blk.{layer}.attn_v": (keys, _WIDTH),
            f"blk.{layer}.attn_output": (_WIDTH, _WIDTH),
            f"blk.{layer}.ffn_gate": (_HIDDEN, _WIDTH),
            f"blk.{layer}.ffn_up": (_HIDDEN, _WIDTH),
            f"blk.{layer}.ffn_down": (_WIDTH, _HIDDEN),
        }
    for name, shape in shapes.items():
        if f"{name}.weight" == without:
            continue
        values = rng.standard_normal(shape).astype(np.float32)
        if len(shape) == 1:
            writer.add_tensor(f"{name}.weight", 1 + values / 8)
        else:
            data = gguf.quantize(values / 8, kind)
            writer.add_tensor(f"{name}.weight", data, raw_dtype=None if quantization == "F32" else kind)
    for name, numbers in extra.items():
        writer.add_tensor(name, np.asarray(numbers, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


if __name__ == "__main__":
    write_gguf(Path(sys.argv[1]), quantization=sys.argv[2])
