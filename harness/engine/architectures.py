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

from harness.engine.decoder import Attention, Block, Decoder, Function, Mlp, Parts
from harness.engine.kernels import Product, rms_norm
from harness.engine.pieces import Piece

_STATIC_ROPE = ("default", "linear", "llama3", "yarn")
"""Kinds of rotary embedding whose angles depend only on the position, and not on the length of the sequence."""
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
    blocks = []
    for block in model.h:
        attention = block.attn
        block_attention = _attention(
            make,
            attention,
            attention.out_proj,
            heads=attention.num_attention_heads,
            scale=attention.head_dim**-0.5,
        )
        mlp = _mlp(make, block.mlp.fc_in, block.mlp.fc_out, model.config.activation_function)
        blocks.append(Block(block_attention, mlp, block.ln_1, block.ln_1, is_parallel=True))

    def rotary(positions: Tensor) -> tuple[Tensor, Tensor]:
        sines, cosines = model.h[0].attn.embed_positions[positions].to(model.dtype).chunk(2, dim=-1)
        signed = torch.stack([-sines, sines], dim=-1).flatten(-2)
        return cosines.repeat_interleave(2, dim=-1), signed

    return Parts(model.wte, blocks, model.ln_f, rotary=rotary, is_interleaved=True)


def _gpt_neox(model: Any, make: MakeProduct) -> Parts:
    config, rotary, blocks = model.config, _rotary(model), []
    for layer in model.layers:
        attention = layer.attention
        block_attention = Attention(
            _linear(make, attention.query_key_value),
            _linear(make, attention.dense),
            heads=config.num_attention_heads,
            key_value_heads=config.num_attention_heads,
            scale=attention.scaling,
            is_by_head=True,
        )
        mlp = _mlp(make, layer.mlp.dense_h_to_4h, layer.mlp.dense_4h_to_h, config.hidden_act)
        norms = (layer.input_layernorm, layer.post_attention_layernorm)
        blocks.append(Block(block_attention, mlp, *norms, is_parallel=layer.use_parallel_residual))
    return Parts(model.embed_in, blocks, model.final_layer_norm, rotary=rotary)


def _llama(model: Any, make: MakeProduct) -> Parts:
    """Read Llama and its relatives, which differ in norms, windows, biases and grouped heads."""
    config, rotary, blocks = model.config, _rotary(model), []
    for layer in model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        width = attention.head_dim
        # Mistral has one window for all layers, Qwen one for some.
        of_all = config.sliding_window if config.model_type == "mistral" else None
        block_attention = _attention(
            make,
            attention,
            attention.o_proj,
            heads=config.num_attention_heads,
            key_value_heads=config.num_key_value_heads,
            scale=attention.scaling,
            query_norm=_head_norm(getattr(attention, "q_norm", None), width),
            key_norm=_head_norm(getattr(attention, "k_norm", None), width),
            clip=config.clip_qkv if config.model_type == "olmo" else None,
            window=getattr(attention, "sliding_window", of_all),
        )
        gate = _linear(make, mlp.gate_proj, activation=config.hidden_act)
        block_mlp = Mlp(_linear(make, mlp.up_proj), _linear(make, mlp.down_proj), gate=gate)
        after = _norm(layer.post_attention_layernorm)
        if hasattr(layer, "post_feedforward_layernorm"):
            last = _norm(layer.post_feedforward_layernorm)
            blocks.append(Block(block_attention, block_mlp, attention_post_norm=after, mlp_post_norm=last))
        else:
            blocks.append(Block(block_attention, block_mlp, _norm(layer.input_layernorm), after))
    return Parts(model.embed_tokens, blocks, _norm(model.norm), rotary=rotary)


_READERS: dict[str, Callable[[Any, MakeProduct], Parts]] = {
    "gpt2": _gpt2,
    "gpt_neo": _gpt_neo,
    "gpt_neox": _gpt_neox,
    "gptj": _gpt_j,
    "llama": _llama,
    "mistral": _llama,
    "olmo": _llama,
    "olmo2": _llama,
    "opt": _opt,
    "qwen2": _llama,
    "qwen3": _llama,
}


def _attention(make: MakeProduct, attention: Any, output: nn.Linear, *, heads: int, **options: Any) -> Attention:
    """Return the attention of a block that has a layer each for query, key and value."""
    qkv = _join(make, attention.q_proj, attention.k_proj, attention.v_proj)
    return Attention(qkv, _linear(make, output), heads=heads, **{"key_value_heads": heads, **options})


def _mlp(make: MakeProduct, up: Any, down: Any, activation: str) -> Mlp:
    return Mlp(_linear(make, up, activation), _linear(make, down))


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


def _norm(norm: Any) -> Function:
    """Return a norm of the model in a faster form if there is one."""
    if hasattr(norm, "variance_epsilon"):
        return partial(rms_norm, weight=norm.weight, epsilon=norm.variance_epsilon)
    function: Function = norm
    return function


def _head_norm(norm: Any, head_width: int) -> Function | None:
    """Return a norm of heads [..., heads, width], whether the model norms each head or all of them together."""
    if norm is None:
        return None
    function = _norm(norm)
    if len(norm.weight) == head_width:
        return function
    return lambda heads: function(heads.flatten(-2)).view_as(heads)


def _rotary(model: Any) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Return the angles of a rotary embedding that pairs each column with the one half of the columns away."""
    embedding, dtype = model.rotary_emb, model.dtype
    if embedding.rope_type not in _STATIC_ROPE:
        raise ValueError(f"its rotary embedding is of the kind {embedding.rope_type!r}")

    def angles(positions: Tensor) -> tuple[Tensor, Tensor]:
        like = torch.empty(0, dtype=dtype, device=positions.device)
        cosines, sines = (part[0] for part in embedding(like, positions.unsqueeze(0)))
        first, second = sines.chunk(2, dim=-1)
        return cosines, torch.cat([-first, second], dim=-1)

    return angles
