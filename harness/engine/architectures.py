"""Models that the engine decodes itself: where each architecture of `transformers` keeps the parts of `Decoder`.

To add an architecture, write a function that returns its `Parts` and name it in `_READERS` under the `model_type` of
its configuration. `ModelRunner` compares the logits of every loaded model with those of the model's own code, and uses
that code if they differ. `tests/unit/engine/architectures.py` lists a small model of each for the tests.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from harness.engine.decoder import Angles, Attention, Block, Decoder, Function, Mlp, Parts, Rotary
from harness.engine.kernels import Product, rms_norm
from harness.engine.pieces import Piece

_STATIC_ROPE = ("default", "linear", "llama3", "yarn", "longrope")
"""Kinds of rotary embedding whose angles depend only on the position, and not on the length of the sequence.

Those of "longrope" change once, at a length that the configuration names, so the comparison decodes across it.
"""
MakeProduct = Callable[..., Product]


def own_decoder(model: PreTrainedModel, pieces: Sequence[Piece] = (), *, is_packed: bool) -> Decoder | None:
    """Return the engine's decoder with the weights of `model`, None for an architecture that it does not know.

    pieces: those of a model that is split over devices.
    is_packed: as in `Product`.
    Raises ValueError for a variant of a known architecture that is not supported.
    """
    reader = _READERS.get(model.config.model_type)
    if reader is None:
        return None
    parts = reader(model.base_model, partial(Product, is_packed=is_packed))
    return Decoder(parts, pieces or [Piece(model.device, 0, len(parts.blocks))], model.dtype)


def _gpt_neo(model: Any, make: MakeProduct) -> Parts:
    blocks = []
    for block in model.h:
        attention = block.attn.attention
        window = attention.config.window_size if attention.attention_type == "local" else None
        block_attention = _attention(
            make, attention, attention.out_proj, heads=attention.num_heads, scale=1.0, window=window
        )
        mlp = _mlp(make, block.mlp.c_fc, block.mlp.c_proj, attention.config.activation_function)
        blocks.append(Block(block_attention, mlp, block.ln_1, block.ln_2))
    return Parts(model.wte, blocks, model.ln_f, position_embeddings=model.wpe.weight)


def _gpt2(model: Any, make: MakeProduct) -> Parts:
    blocks = []
    for block in model.h:
        attention = block.attn
        block_attention = Attention(
            _linear(make, attention.c_attn),
            _linear(make, attention.c_proj),
            heads=attention.num_heads,
            key_value_heads=attention.num_heads,
            scale=attention.scaling,
        )
        mlp = _mlp(make, block.mlp.c_fc, block.mlp.c_proj, model.config.activation_function)
        blocks.append(Block(block_attention, mlp, block.ln_1, block.ln_2))
    return Parts(model.wte, blocks, model.ln_f, position_embeddings=model.wpe.weight)


def _opt(model: Any, make: MakeProduct) -> Parts:
    model, config = model.decoder, model.config
    if not config.do_layer_norm_before or model.project_in is not None:
        raise ValueError("its norms come after the residuals, or its embeddings are projected")
    blocks = []
    for block in model.layers:
        attention = block.self_attn
        block_attention = _attention(
            make, attention, attention.out_proj, heads=attention.num_heads, scale=attention.scaling
        )
        mlp = _mlp(make, block.fc1, block.fc2, config.activation_function)
        blocks.append(Block(block_attention, mlp, block.self_attn_layer_norm, block.final_layer_norm))
    positions = model.embed_positions.weight[model.embed_positions.offset :]
    return Parts(model.embed_tokens, blocks, model.final_layer_norm, position_embeddings=positions)


def _gpt_j(model: Any, make: MakeProduct) -> Parts:
    def rotary(positions: Tensor) -> Angles:
        sines, cosines = model.h[0].attn.embed_positions[positions].to(model.dtype).chunk(2, dim=-1)
        signed = torch.stack([-sines, sines], dim=-1).flatten(-2)
        return cosines.repeat_interleave(2, dim=-1), signed

    blocks = []
    for block in model.h:
        attention = block.attn
        block_attention = _attention(
            make,
            attention,
            attention.out_proj,
            heads=attention.num_attention_heads,
            scale=attention.head_dim**-0.5,
            rotary=rotary,
            is_interleaved=True,
        )
        mlp = _mlp(make, block.mlp.fc_in, block.mlp.fc_out, model.config.activation_function)
        blocks.append(Block(block_attention, mlp, block.ln_1, block.ln_1, is_parallel=True))
    return Parts(model.wte, blocks, model.ln_f)


def _gpt_neox(model: Any, make: MakeProduct) -> Parts:
    config, rotary, blocks = model.config, _rotary(model.rotary_emb, model.dtype), []
    for layer in model.layers:
        attention = layer.attention
        block_attention = Attention(
            _linear(make, attention.query_key_value),
            _linear(make, attention.dense),
            heads=config.num_attention_heads,
            key_value_heads=config.num_attention_heads,
            scale=attention.scaling,
            is_by_head=True,
            rotary=rotary,
        )
        mlp = _mlp(make, layer.mlp.dense_h_to_4h, layer.mlp.dense_4h_to_h, config.hidden_act)
        norms = (layer.input_layernorm, layer.post_attention_layernorm)
        blocks.append(Block(block_attention, mlp, *norms, is_parallel=layer.use_parallel_residual))
    return Parts(model.embed_in, blocks, model.final_layer_norm)


def _llama(model: Any, make: MakeProduct) -> Parts:
    """Read Llama and its relatives.

    They differ in norms, windows, biases, grouped heads, rotary embeddings, caps, sinks and experts.
    """
    config, embedding, blocks = model.config, model.rotary_emb, []
    # Gemma 3 and OLMo-3 have an embedding for each type of layer.
    types = config.layer_types if isinstance(embedding.rope_type, dict) else [None] * len(model.layers)
    rotaries = {layer_type: _rotary(embedding, model.dtype, layer_type) for layer_type in set(types)}
    # These have one window for all layers, Gemma, Qwen and others for some.
    of_all = config.sliding_window if config.model_type in ("mistral", "mixtral", "phi3") else None
    # Older versions of transformers run Gemma 2 with a kernel that leaves the cap out.
    has_cap = config.model_type == "gemma2" and config._attn_implementation != "sdpa"
    for layer, layer_type in zip(model.layers, types, strict=True):
        attention, sinks = layer.self_attn, getattr(layer.self_attn, "sinks", None)
        if hasattr(attention, "qkv_proj"):
            qkv = _linear(make, attention.qkv_proj)
        else:
            qkv = _join(make, attention.q_proj, attention.k_proj, attention.v_proj)
        block_attention = Attention(
            qkv,
            _linear(make, attention.o_proj),
            heads=config.num_attention_heads,
            key_value_heads=config.num_key_value_heads,
            scale=attention.scaling,
            query_norm=_head_norm(getattr(attention, "q_norm", None), attention.head_dim),
            key_norm=_head_norm(getattr(attention, "k_norm", None), attention.head_dim),
            clip=getattr(config, "clip_qkv", None),
            # Some layers of SmolLM3 have no positions.
            rotary=rotaries[layer_type] if getattr(attention, "use_rope", True) else None,
            window=getattr(attention, "sliding_window", of_all),
            cap=config.attn_logit_softcapping if has_cap else None,
            sinks=None if sinks is None else sinks.detach().float().view(config.num_key_value_heads, -1),
        )
        mlp, after = _gated(make, layer.mlp, config), _norm(layer.post_attention_layernorm)
        if not hasattr(layer, "post_feedforward_layernorm"):
            blocks.append(Block(block_attention, mlp, _norm(layer.input_layernorm), after))
            continue
        # Gemma norms before and after attention and MLP, OLMo-2 after them.
        first, second = (getattr(layer, name, None) for name in ("input_layernorm", "pre_feedforward_layernorm"))
        last = _norm(layer.post_feedforward_layernorm)
        blocks.append(Block(block_attention, mlp, _norm(first), _norm(second), after, last))
    return Parts(model.embed_tokens, blocks, _norm(model.norm))


_READERS: dict[str, Callable[[Any, MakeProduct], Parts]] = {
    "gemma": _llama,
    "gemma2": _llama,
    "gemma3": lambda model, make: _llama(model.language_model, make),
    "gemma3_text": _llama,
    "gpt2": _gpt2,
    "gpt_neo": _gpt_neo,
    "gpt_neox": _gpt_neox,
    "gpt_oss": _llama,
    "gptj": _gpt_j,
    "llama": _llama,
    "mistral": _llama,
    "mixtral": _llama,
    "olmo": _llama,
    "olmo2": _llama,
    "olmo3": _llama,
    "olmoe": _llama,
    "opt": _opt,
    "phi3": _llama,
    "qwen2": _llama,
    "qwen3": _llama,
    "qwen3_moe": _llama,
    "smollm3": _llama,
}


def _attention(make: MakeProduct, attention: Any, output: nn.Linear, *, heads: int, **options: Any) -> Attention:
    """Return the attention of a block that has a layer each for query, key and value."""
    qkv = _join(make, attention.q_proj, attention.k_proj, attention.v_proj)
    return Attention(qkv, _linear(make, output), heads=heads, **{"key_value_heads": heads, **options})


def _mlp(make: MakeProduct, up: Any, down: Any, activation: str) -> Mlp:
    return Mlp(_linear(make, up, activation), _linear(make, down))


def _gated(make: MakeProduct, mlp: Any, config: Any) -> Callable[[Tensor, Tensor | None], Tensor]:
    """Return an MLP with a gate, or a mixture of experts, whose own code groups tokens by expert."""
    if hasattr(mlp, "experts"):

        def mixture(states: Tensor, residual: Tensor | None) -> Tensor:
            result = mlp(states.reshape(1, -1, states.shape[-1]))
            mixed: Tensor = (result[0] if isinstance(result, tuple) else result).view_as(states)
            return mixed if residual is None else residual + mixed

        return mixture
    if hasattr(mlp, "gate_up_proj"):
        # Phi-3 has no biases.
        gate, up = ((weight, None) for weight in mlp.gate_up_proj.weight.chunk(2))
    else:
        gate, up = ((linear.weight, linear.bias) for linear in (mlp.gate_proj, mlp.up_proj))
    activation = getattr(config, "hidden_act", None) or config.hidden_activation
    return Mlp(make(*up), _linear(make, mlp.down_proj), gate=make(*gate, activation=activation))


def _linear(make: MakeProduct, linear: Any, activation: str = "") -> Product:
    """Return the product of a layer, whose weights are [outputs, inputs], or the other way round in GPT-2."""
    weight = linear.weight.T if isinstance(linear, Conv1D) else linear.weight
    return make(weight, linear.bias, activation=activation)


def _join(make: MakeProduct, *linears: nn.Linear) -> Product:
    """Return one product for several layers with the same input, which from now on share its weights."""
    # A prompt is trained through the model's own code, which cannot use tensors made in inference mode.
    with torch.inference_mode(False), torch.no_grad():
        weight = torch.cat([linear.weight for linear in linears])
        rows = [linear.out_features for linear in linears]
        for linear, part in zip(linears, torch.split(weight, rows), strict=True):
            # Both would store the same weights.
            linear.weight = nn.Parameter(part, requires_grad=False)
    biases = [linear.bias.detach() for linear in linears if linear.bias is not None]
    return make(weight, torch.cat(biases) if biases else None)


def _norm(norm: Any) -> Function | None:
    """Return a norm of the model in a faster form if there is one, None for None."""
    if hasattr(norm, "variance_epsilon"):
        return partial(rms_norm, weight=norm.weight, epsilon=norm.variance_epsilon)
    if type(norm).__name__.startswith("Gemma"):
        return partial(rms_norm, weight=1 + norm.weight.detach().float(), epsilon=norm.eps)
    function: Function | None = norm
    return function


def _head_norm(norm: Any, head_width: int) -> Function | None:
    """Return a norm of heads [..., heads, width], whether the model norms each head or all of them together."""
    function = _norm(norm)
    if function is None or len(norm.weight) == head_width:
        return function
    return lambda heads: function(heads.flatten(-2)).view_as(heads)


def _rotary(embedding: Any, dtype: torch.dtype, layer_type: str | None = None) -> Rotary:
    """Return the angles of a rotary embedding that pairs each column with the one half of the columns away.

    layer_type: one that has angles of its own.
    """
    kind = embedding.rope_type if layer_type is None else embedding.rope_type[layer_type]
    if kind not in _STATIC_ROPE:
        raise ValueError(f"its rotary embedding is of the kind {kind!r}")
    of_type = {} if layer_type is None else {"layer_type": layer_type}

    def angles(positions: Tensor) -> Angles:
        like = torch.empty(0, dtype=dtype, device=positions.device)
        cosines, sines = (part[0] for part in embedding(like, positions.unsqueeze(0), **of_type))
        if embedding.config.model_type != "gpt_oss":  # which returns each angle once
            cosines, sines = (part.chunk(2, dim=-1)[0] for part in (cosines, sines))
        return torch.cat([cosines, cosines], dim=-1), torch.cat([-sines, sines], dim=-1)

    return angles
