"""The table of the zoo: how each model is made, what is changed in its files, and what must happen."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoConfig, PreTrainedModel
from transformers.models.auto import AutoModelForCausalLM

Tensors = dict[str, Tensor]
VOCABULARY, LIMIT = 61, 64
ENGINE, MODEL, WHOLE_SEQUENCES = "the engine's decoder", "the model's code", "whole sequences"
_SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": None,
}
_MOE = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
_LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 4, "long_factor": [4.0, 6.0, 8.0, 9.0]}
_DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}


@dataclass(frozen=True)
class Entry:
    """One model of the zoo.

    architecture: the `model_type` of its configuration. shape: added to the common shape. change: edits its tensors by
    name. config: replaces fields of config.json. files: texts of further files. shards: the largest size of a weight
    file. vocabulary: the ids that the round has, None for all that the model predicts. first_token: what its tokenizer
    puts before every text. refusal: a regular expression of the sentence with which it is refused, None if it runs.
    decoding: what decodes its suffixes. has_angles_by_length: its rotary embeddings change with
    the length of the sequence. is_fast: it runs in `make test`.
    """

    architecture: str = "llama"
    shape: dict[str, Any] = field(default_factory=dict)
    change: Callable[[Tensors], Tensors | None] | None = None
    config: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    shards: str | None = None
    vocabulary: int | None = None
    first_token: int | None = None
    refusal: str | None = None
    decoding: str = ENGINE
    has_angles_by_length: bool = False
    is_fast: bool = False


def make(entry: Entry, folder: Path) -> PreTrainedModel:
    """Write the model of an entry into a folder, and return the model before its files were changed."""
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(entry.architecture, **_SHAPE | entry.shape))
    sizes = {} if entry.shards is None else {"max_shard_size": entry.shards}
    model.save_pretrained(folder, **sizes)
    if entry.change is not None:
        file = folder / "model.safetensors"
        tensors = load_file(file)
        tensors = entry.change(tensors) or tensors
        save_file({name: each.clone() for name, each in tensors.items()}, file, metadata={"format": "pt"})
    if entry.config:
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | entry.config))
    for name, text in entry.files.items():
        (folder / name).write_text(text)
    return model.eval()


def _add(*names: str, shape: tuple[int, ...] = (4,)) -> Callable[[Tensors], None]:
    return lambda tensors: tensors.update({name: torch.ones(shape) for name in names})


def _with_scales(tensors: Tensors) -> None:
    for name in [name for name in tensors if name.endswith("proj.weight")]:
        tensors[f"{name}_scale_inv"] = torch.full((1, 1), 0.5)


def _gptq(tensors: Tensors) -> None:
    for name in [name for name in tensors if name.endswith("proj.weight")]:
        stem = name.removesuffix("weight")
        rows, columns = tensors.pop(name).shape
        tensors[f"{stem}qweight"] = torch.ones(columns // 8, rows, dtype=torch.int32)
        tensors[f"{stem}qzeros"] = torch.ones(1, max(1, rows // 8), dtype=torch.int32)
        tensors[f"{stem}scales"] = torch.ones(1, rows)


def _rename(old: str, new: str) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {name.replace(old, new): each for name, each in tensors.items()}


def _only_head(tensors: Tensors) -> None:
    tensors["lm_head.weight"] = tensors.pop("model.embed_tokens.weight")


def _prefixed(tensors: Tensors) -> Tensors:
    return {f"base_model.model.{name}": each for name, each in tensors.items()}


_GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
_BUFFERS = ("attn.bias", "attn.masked_bias")
_LINEAR = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "head_dim": 8,
    "layer_types": ["linear_attention", "full_attention"],
}
_WORDS = {f"w{number}": number for number in range(VOCABULARY)}
_TOKENIZER: dict[str, Any] = {
    "version": "1.0",
    "pre_tokenizer": {"type": "Whitespace"},
    "model": {"type": "WordLevel", "vocab": _WORDS, "unk_token": "w1"},
}
_TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "w2", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
    "special_tokens": {"w2": {"id": "w2", "ids": [2], "tokens": ["w2"]}},
}
_PLAIN_TOKENIZER = {"tokenizer.json": json.dumps(_TOKENIZER)}
_FIRST_TOKEN = {"tokenizer.json": json.dumps({**_TOKENIZER, "post_processor": _TEMPLATE})}
_ADAPTER = {"adapter_config.json": '{"peft_type": "LORA", "base_model_name_or_path": "x"}'}

ZOO: dict[str, Entry] = {
    # Architectures that the engine decodes itself.
    "llama": Entry(is_fast=True),
    "gpt_neo, local attention": Entry(
        "gpt_neo",
        {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 16},
        is_fast=True,
    ),
    "gpt2": Entry("gpt2", _GPT),
    "gpt_neox": Entry("gpt_neox"),
    "mistral, a window": Entry("mistral", {"sliding_window": 16}),
    "qwen2, a window": Entry("qwen2", {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1}),
    "qwen3": Entry("qwen3", {"head_dim": 8}),
    "olmo2": Entry("olmo2"),
    "opt": Entry("opt", {"ffn_dim": 48, "word_embed_proj_dim": 32, "init_std": 0.3}),
    "olmo3, a window": Entry("olmo3", {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}),
    "phi3": Entry("phi3"),
    "gemma": Entry("gemma", {"head_dim": 8}),
    "gemma2, windows and a cap": Entry("gemma2", {"head_dim": 8, "sliding_window": 16, "query_pre_attn_scalar": 8}),
    "gemma3 text": Entry("gemma3_text", {"head_dim": 8, "sliding_window": 16}, is_fast=True),
    "gemma3, nested": Entry(
        "gemma3",
        {
            "text_config": _SHAPE | {"head_dim": 8, "sliding_window": 16},
            "vision_config": {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "image_size": 28}
            | {"patch_size": 14, "num_attention_heads": 4},
            "mm_tokens_per_image": 4,
            "image_token_index": 60,
            "boi_token_index": 59,
            "eoi_token_index": 58,
        },
        is_fast=True,
    ),
    "mixtral": Entry("mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2}, is_fast=True),
    "olmoe": Entry("olmoe", {"num_experts": 4, "num_experts_per_tok": 2}),
    "qwen3 moe": Entry("qwen3_moe", {**_MOE, "num_experts": 4, "head_dim": 8}),
    "gpt-oss, sinks": Entry(
        "gpt_oss", {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 8, "sliding_window": 16}
    ),
    "smollm3": Entry("smollm3", {"no_rope_layer_interval": 2}),
    # Architectures that decode with their own code.
    "cohere2, a window and a scale": Entry("cohere2", {"sliding_window": 16}, decoding=MODEL),
    "bloom, ALiBi": Entry("bloom", {"n_layer": 2, "n_head": 4}, decoding=MODEL, is_fast=True),
    "mpt, ALiBi": Entry("mpt", {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 128}, decoding=MODEL),
    "falcon, ALiBi": Entry("falcon", {"alibi": True, "new_decoder_architecture": False}, decoding=MODEL),
    "phi": Entry("phi", decoding=MODEL),
    "llama4, chunks": Entry(
        "llama4_text",
        {"attention_chunk_size": 32, "num_local_experts": 2, "intermediate_size_mlp": 48, "head_dim": 8},
        decoding=MODEL,
        is_fast=True,
    ),
    "bart": Entry(
        "bart",
        {"d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 48},
        decoding=MODEL,
    ),
    # Angles that depend on the length of the sequence.
    "phi3, longrope": Entry(
        "phi3",
        {
            "original_max_position_embeddings": LIMIT,
            "rope_parameters": _LONG | {"original_max_position_embeddings": LIMIT},
        },
        decoding=WHOLE_SEQUENCES,
        has_angles_by_length=True,
        is_fast=True,
    ),
    "llama, dynamic angles": Entry(
        shape={
            "rope_parameters": _DYNAMIC | {"original_max_position_embeddings": LIMIT},
            "max_position_embeddings": 128,
        },
        decoding=MODEL,
        has_angles_by_length=True,
    ),
    # State-space models and linear attention.
    "mamba": Entry("mamba", {"state_size": 8}, decoding=WHOLE_SEQUENCES, is_fast=True),
    "mamba2": Entry(
        "mamba2",
        {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 16},
        decoding=WHOLE_SEQUENCES,
    ),
    "qwen3-next": Entry(
        "qwen3_next",
        {**_MOE, **_LINEAR, "num_experts": 4, "shared_expert_intermediate_size": 16},
        decoding=WHOLE_SEQUENCES,
    ),
    "lfm2": Entry("lfm2", {"layer_types": ["conv", "full_attention"]}, decoding=WHOLE_SEQUENCES),
    # Layouts that load.
    "shards": Entry(shards="20KB", is_fast=True),
    "tied": Entry(shape={"tie_word_embeddings": True}),
    "tied, only the head is stored": Entry(shape={"tie_word_embeddings": True}, change=_only_head),
    "tied in config.json alone": Entry(config={"tie_word_embeddings": True}),
    "consolidated weights beside": Entry(files={"consolidated.safetensors": "not read"}),
    "angles are stored": Entry(change=_add("model.layers.0.self_attn.rotary_emb.inv_freq")),
    "masks are stored": Entry(
        "gpt2", _GPT, change=_add(*(f"transformer.h.0.{name}" for name in _BUFFERS)), is_fast=True
    ),
    "a vision tower beside": Entry(change=_add("vision_tower.a.weight", "multi_modal_projector.weight"), is_fast=True),
    "a value head beside": Entry(change=_add("v_head.summary.weight")),
    "a padded vocabulary": Entry(vocabulary=VOCABULARY - 4, is_fast=True),
    "a tokenizer without a first token": Entry(files=_PLAIN_TOKENIZER),
    "a tokenizer with a first token": Entry(files=_FIRST_TOKEN, first_token=2, is_fast=True),
    "a first token and windows": Entry(
        "gemma3_text", {"head_dim": 8, "sliding_window": 16}, files=_FIRST_TOKEN, first_token=2
    ),
    # Refusals.
    "an adapter beside": Entry(files=_ADAPTER, refusal="contains an adapter .* not a whole model", is_fast=True),
    "LoRA tensors": Entry(
        change=_add("model.layers.0.self_attn.q_proj.lora_A.weight", "model.layers.0.self_attn.q_proj.lora_B.weight"),
        refusal="contain 2 tensors .* does not use, such as .*lora_A.* adapter that is not merged",
        is_fast=True,
    ),
    "an adapter around the layers": Entry(
        change=_rename("q_proj", "q_proj.base_layer"), refusal="lack 2 tensors .* adapter that is not merged"
    ),
    "all names of an adapter": Entry(change=_prefixed, refusal="lack .* adapter that is not merged"),
    "fp8 without its configuration": Entry(
        change=_with_scales, refusal="contain 14 tensors .*scale_inv.* quantized, and config.json has no", is_fast=True
    ),
    "GPTQ, old layout": Entry(
        change=_gptq, files={"quantize_config.json": '{"bits": 4}'}, refusal="lack 14 .* quantized, and", is_fast=True
    ),
    "fewer layers": Entry(
        config={"num_hidden_layers": 1}, refusal="does not use, such as model.layers.1.* another model", is_fast=True
    ),
    "a gate in a layer, named like a head": Entry(
        change=_add("model.layers.0.mlp.score_gate.weight", "model.layers.1.self_attn.image_gate.weight"),
        refusal="contain 2 tensors .* does not use, such as model.layers.0.mlp.score_gate.* another model",
    ),
    "no biases in config.json": Entry(
        shape={"attention_bias": True}, config={"attention_bias": False}, refusal="does not use, such as .*bias"
    ),
    "fewer experts": Entry(
        "mixtral",
        {"num_local_experts": 4, "num_experts_per_tok": 2},
        config={"num_local_experts": 2},
        refusal="cannot be loaded as a causal language model",
    ),
    "an untied head that is not stored": Entry(
        shape={"tie_word_embeddings": True}, config={"tie_word_embeddings": False}, refusal="lack 1 tensors .*lm_head"
    ),
    "another vocabulary": Entry(config={"vocab_size": 50}, refusal="cannot be loaded as a causal language model"),
    "bert": Entry("bert", refusal="depends on later tokens", is_fast=True),
    "electra": Entry("electra", {"embedding_size": 32}, refusal="depends on later tokens"),
}
