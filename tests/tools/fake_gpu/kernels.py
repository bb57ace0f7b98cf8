"""Kernels of CUDA that a CPU lacks, computed in float32 with the same results and the same restrictions."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_PADDING = 32
"""The efficient kernel pads the queries of its log-sum-exp to a multiple of this."""


def _attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, is_causal: bool, scale: float | None):
    """Return softmax(scale * query . key + bias) value and the log-sum-exp of the scores in float32."""
    if query.stride(-1) != 1 or key.stride(-1) != 1 or value.stride(-1) != 1:
        raise RuntimeError("the input tensors must have a contiguous last dimension")
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = torch.matmul(query.float(), key.float().transpose(-1, -2)) * scale  # [batch, heads, queries, positions]
    if bias is not None:
        scores = scores + bias.float()
    if is_causal:
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -torch.inf)
    total = torch.logsumexp(scores, dim=-1)
    weights = torch.exp(scores - total.unsqueeze(-1))
    found = torch.matmul(weights, value.float()).to(query.dtype)
    # The kernels write [batch, queries, heads, width].
    return found.transpose(1, 2).contiguous().transpose(1, 2), total


def _flash(query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    if query.dtype not in (torch.float16, torch.bfloat16):
        raise RuntimeError("FlashAttention only support fp16 and bf16 data type")
    if query.shape[-1] > 256 or query.shape[-1] % 8:
        raise RuntimeError("FlashAttention forward only supports head dimensions that are multiples of 8, at most 256")
    found, total = _attention(query, key, value, None, is_causal, scale)
    state = torch.zeros(2, dtype=torch.int64)
    nothing = query.new_empty(0)
    return found, total, None, None, query.shape[2], key.shape[2], state, state[0].clone(), nothing


def _efficient(query, key, value, attn_bias, compute_log_sumexp, dropout_p=0.0, is_causal=False, *, scale=None):
    found, total = _attention(query, key, value, attn_bias, is_causal, scale)
    queries = -(-query.shape[2] // _PADDING) * _PADDING if compute_log_sumexp else 0
    padded = torch.full((*total.shape[:2], queries), math.inf)
    if compute_log_sumexp:
        padded[..., : query.shape[2]] = total
    state = torch.zeros((), dtype=torch.int64)
    return found, padded, state, state.clone()


def _mm_to(one: Tensor, other: Tensor, dtype: torch.dtype) -> Tensor:
    if one.dtype not in (torch.float16, torch.bfloat16) or dtype != torch.float32:
        raise RuntimeError("out_dtype must be float32 and the inputs must have 16 bits")
    return torch.mm(one.float(), other.float())


KERNELS: dict[str, Callable[..., Any]] = {
    "aten._scaled_dot_product_flash_attention.default": _flash,
    "aten._scaled_dot_product_efficient_attention.default": _efficient,
    "aten.mm.dtype": _mm_to,
}
"""The kernels by their operations, as functions of CPU tensors."""
