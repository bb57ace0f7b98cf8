"""Attention over keys and values that lie in two places: each part by a fused kernel, joined by its normaliser.

softmax over a union is the average of the softmaxes over its parts, weighted by the parts' sums of exponentials (the
step that FlashAttention takes between blocks: Dao et al., NeurIPS 2022). So what a prefix's branches share is read
where it lies, once for all of them.
"""

import torch
from torch import Tensor

_FUSED_ON_CPU = hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu")
_HALVES = (torch.float16, torch.bfloat16)


def attended(query: Tensor, keys: Tensor, values: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """softmax(scale * query . keys) values, and the logarithm of the softmax's denominator.

    query: [batch, heads, queries, width]; keys, values: [batch, heads, positions, width]; every query sees every
    position. Returns [batch, heads, queries, width] in the query's dtype and [batch, heads, queries] float32. Products
    of queries and keys are summed in float32 whatever the dtype, as unscaled ones leave the range of float16.
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
    """FlashAttention's own conditions: 16 bits, heads of at most 256 columns in eights, Ampere or later."""
    width = query.shape[-1]
    is_recent = torch.cuda.get_device_capability(query.device) >= (8, 0)
    return query.dtype in _HALVES and width <= 256 and width % 8 == 0 and is_recent


def joined(parts: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Attention over the union of positions, from each part's `attended`: [..., width] and [...] each."""
    if len(parts) == 1:
        return parts[0][0]
    totals = torch.stack([total for _, total in parts])  # [parts, ...]
    shares = torch.softmax(totals, dim=0).unsqueeze(-1)
    whole = sum(values * share for (values, _), share in zip(parts, shares, strict=True))
    assert isinstance(whole, Tensor)
    return whole.to(parts[0][0].dtype)
