"""Attention over keys and values in two places: one fused kernel for each part, merged by their normalisers.

The softmax over a union is the average of the softmaxes over its parts, weighted by the parts' sums of exponentials
(the step between the blocks of FlashAttention, Dao et al., NeurIPS 2022). So the keys and values of a prefix are stored
once and read by all of its branches.
"""

import torch
from torch import Tensor

_FUSED_ON_CPU = hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu")
_HALVES = (torch.float16, torch.bfloat16)


def attend(query: Tensor, keys: Tensor, values: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Return softmax(scale * query . keys) values, and the logarithm of the softmax's denominator.

    query: [batch, heads, queries, width]. keys, values: [batch, heads, positions, width]. Every query sees every
    position. Returns [batch, heads, queries, width] in the dtype of the query and [batch, heads, queries] float32.
    Products of queries and keys are summed in float32 in any dtype, because unscaled products overflow float16.
    """
    kernels = torch.ops.aten
    if query.device.type == "cpu" and _FUSED_ON_CPU:
        found = kernels._scaled_dot_product_flash_attention_for_cpu(query, keys, values, scale=scale)
        return found[0], found[1]
    if query.device.type == "cuda" and _flash_runs_on(query):
        found = kernels._scaled_dot_product_flash_attention(query, keys, values, scale=scale)
        return found[0], found[1]
    scores = torch.matmul(query.float(), keys.float().transpose(-1, -2)) * scale  # [batch, heads, queries, positions]
    total = torch.logsumexp(scores, dim=-1)
    weights = torch.exp(scores - total.unsqueeze(-1)).to(values.dtype)
    return torch.matmul(weights, values), total


def _flash_runs_on(query: Tensor) -> bool:
    """Return True if FlashAttention supports the query.

    It needs 16 bits, heads of a multiple of 8 up to 256 columns, and an Ampere GPU or a later one.
    """
    width = query.shape[-1]
    is_recent = torch.cuda.get_device_capability(query.device) >= (8, 0)
    return query.dtype in _HALVES and width <= 256 and width % 8 == 0 and is_recent


def merge_parts(parts: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Return attention over the union of positions, from the results of `attend` for each part.

    Each part is [..., width] and [...].
    """
    if len(parts) == 1:
        return parts[0][0]
    totals = torch.stack([total for _, total in parts])  # [parts, ...]
    shares = torch.softmax(totals, dim=0).unsqueeze(-1)
    whole = sum(values * share for (values, _), share in zip(parts, shares, strict=True))
    assert isinstance(whole, Tensor)
    return whole.to(parts[0][0].dtype)
