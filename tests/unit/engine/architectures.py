"""A small model of each architecture and variant that the engine decodes itself, and of some that it does not."""

from typing import Any

import torch
from transformers import AutoConfig, PreTrainedModel
from transformers.models.auto import AutoModelForCausalLM

VOCABULARY, WINDOW, POSITIONS = 61, 8, 64
_COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": None,
}
_GPT: dict[str, Any] = {**_COMMON, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": POSITIONS}
_NEO: dict[str, Any] = {
    **_COMMON,
    "hidden_size": 32,
    "num_layers": 2,
    "num_heads": 4,
    "attention_types": [[["global", "local"], 1]],
    "window_size": WINDOW,
    "max_position_embeddings": POSITIONS,
}
_PLAIN: dict[str, Any] = {
    **_COMMON,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": POSITIONS,
}
_GROUPED: dict[str, Any] = {**_PLAIN, "num_key_value_heads": 2}
_OPT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "ffn_dim": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": POSITIONS,
    "word_embed_proj_dim": 32,
    "init_std": 0.3,
    "pad_token_id": None,
}
_ROPE = {"rope_theta": 10000.0, "factor": 2.0, "original_max_position_embeddings": 32}
_LLAMA3_ROPE = {**_ROPE, "rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}

_YARN = {**_ROPE, "rope_type": "yarn"}
_LONG_ROPE = {**_ROPE, "rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
_GEMMA = {**_GROUPED, "head_dim": 16, "query_pre_attn_scalar": 8, "sliding_window": WINDOW}
_LAYERS = {"layer_types": ["sliding_attention", "full_attention"]}
_MOE = {**_GROUPED, "moe_intermediate_size": 24, "num_experts": 4, "num_experts_per_tok": 2, "pad_token_id": 0}
_LOCAL_MOE = {**_GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2}

_new = AutoConfig.for_model

# The first one is in the fast tests.
KNOWN: dict[str, Any] = {
    "gemma3": _new("gemma3_text", **_GEMMA, **_LAYERS),
    "gemma": _new("gemma", **_GROUPED, head_dim=16),
    "gemma2": _new("gemma2", **_GEMMA, **_LAYERS, attn_logit_softcapping=2.0, final_logit_softcapping=3.0),
    "gpt2": _new("gpt2", **_GPT),
    "gpt2, scaled by layer": _new("gpt2", **_GPT, scale_attn_by_inverse_layer_idx=True),
    "gpt_neo": _new("gpt_neo", **_NEO),
    "gpt_neo, relu": _new("gpt_neo", **_NEO, activation_function="relu"),
    "gpt_neox": _new("gpt_neox", **_PLAIN, rotary_pct=0.5),
    "gpt_neox, not parallel": _new("gpt_neox", **_PLAIN, use_parallel_residual=False),
    "gpt_oss": _new("gpt_oss", **_LOCAL_MOE, **_LAYERS, head_dim=16, sliding_window=WINDOW, rope_parameters=_YARN),
    "gptj": _new("gptj", **_GPT, rotary_dim=4),
    "llama": _new("llama", **_GROUPED),
    "llama 3": _new("llama", **_GROUPED, attention_bias=True, mlp_bias=True, rope_parameters=_LLAMA3_ROPE),
    "mistral": _new("mistral", **_GROUPED, sliding_window=WINDOW),
    "mixtral": _new("mixtral", **_LOCAL_MOE, sliding_window=WINDOW),
    "olmo": _new("olmo", **_GROUPED, clip_qkv=1.0),
    "olmo2": _new("olmo2", **_GROUPED),
    "olmo3": _new("olmo3", **_GROUPED, **_LAYERS, sliding_window=WINDOW),
    "olmoe": _new("olmoe", **_MOE, clip_qkv=1.0),
    "opt": _new("opt", **_OPT),
    "phi3": _new("phi3", **_GROUPED, sliding_window=WINDOW),
    "phi3, longrope": _new(
        "phi3", **{**_GROUPED, "pad_token_id": 0}, rope_parameters=_LONG_ROPE, original_max_position_embeddings=32
    ),
    "qwen2": _new("qwen2", **_GROUPED),
    "qwen2, a window": _new("qwen2", **_GROUPED, use_sliding_window=True, sliding_window=WINDOW, max_window_layers=1),
    "qwen3": _new("qwen3", **_GROUPED, head_dim=16),
    "qwen3_moe": _new("qwen3_moe", **_MOE, head_dim=16, mlp_only_layers=[0]),
    "smollm3": _new("smollm3", **_GROUPED, no_rope_layer_interval=2),
}
UNKNOWN: dict[str, Any] = {
    "another architecture": _new("phi", **_GROUPED),
    "an activation": _new("gpt_neo", **_NEO, activation_function="tanh"),
    "angles by length": _new("llama", **_GROUPED, rope_parameters={**_ROPE, "rope_type": "dynamic"}),
    "norms after residuals": _new("opt", **_OPT, do_layer_norm_before=False),
}


def random_model(configuration: Any) -> PreTrainedModel:
    """Return a random model whose norms and biases are random too, because their initial values hide mistakes."""
    torch.manual_seed(7)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(configuration)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()
