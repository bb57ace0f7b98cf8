"""The expensive operations of decoding, each in the fastest form that the device has: products and attention.

Attention reads keys and values in two places, those of a prefix and those of a branch, with one kernel for each part.
The softmax over a union is the average of the softmaxes over its parts, weighted by the parts' sums of exponentials
(the step between the blocks of FlashAttention, Dao et al., NeurIPS 2022). So the keys and values of a prefix are stored
once and read by all of its branches.
"""

from collections.abc import Callable
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_ALIGNED = 64
"""A GPU multiplies faster by a vocabulary that is padded to a multiple of this."""
_HALVES = (torch.float16, torch.bfloat16)
_ACTIVATIONS: dict[str, tuple[tuple[str, str], Callable[[Tensor], Tensor] | None]] = {
    "": (("none", ""), None),
    "gelu": (("gelu", "none"), F.gelu),
    "gelu_new": (("gelu", "tanh"), partial(F.gelu, approximate="tanh")),
    "gelu_fast": (("gelu", "tanh"), partial(F.gelu, approximate="tanh")),
    "gelu_pytorch_tanh": (("gelu", "tanh"), partial(F.gelu, approximate="tanh")),
    "relu": (("relu", ""), F.relu),
    "silu": (("swish", ""), F.silu),
}
"""The activations of models, by the names that `transformers` gives them: oneDNN's name and variant, and a function."""


class Product:
    """A product with a weight matrix, plus a bias, then an activation, or a second operand that is added or multiplied.

    On a CPU the weights can be stored a second time in the order in which oneDNN reads them, which is up to twice as
    fast as torch's own product, and what comes after the product costs no pass of its own.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None = None, *, is_packed: bool = True, activation: str = ""
    ) -> None:
        """Prepare the product with weight [outputs, inputs] and bias [outputs].

        is_packed: store the weights a second time if this helps.
        activation: as `transformers` names it, "" for none.
        Raises ValueError for an activation that is not known here.
        """
        if activation not in _ACTIVATIONS:
            raise ValueError(f"the activation {activation!r} is unknown")
        self._weight, self._bias = weight, bias
        self._fused, self._activation = _ACTIVATIONS[activation]
        self._packed: Tensor | None = None
        if is_packed and _is_packable(weight) and _packs(weight.dtype):
            self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous())

    def __call__(self, states: Tensor, *, plus: Tensor | None = None, times: Tensor | None = None) -> Tensor:
        """Return the product of states [..., inputs], [..., outputs]. plus, times: another operand in its shape."""
        operand = plus if times is None else times
        if self._packed is not None:
            product = torch.ops.mkldnn._linear_pointwise
            if operand is not None:
                name = "add" if times is None else "mul"
                result: Tensor = product.binary(states, operand, self._packed, self._bias, name)
            else:
                result = product(states, self._packed, self._bias, self._fused[0], [], self._fused[1])
            return result
        result = F.linear(states, self._weight, self._bias)
        if operand is not None:
            return operand + result if times is None else operand * result
        return result if self._activation is None else self._activation(result)


class HeadProduct:
    """The product of states with an output embedding, in float32 where a GPU computes it without a further pass."""

    def __init__(self, head: nn.Linear, vocabulary: int, *, is_packed: bool) -> None:
        """Prepare the product for the first `vocabulary` rows of the head's weights."""
        self._vocabulary = vocabulary
        weight = head.weight[:vocabulary]
        self._bias = None if head.bias is None else head.bias[:vocabulary]
        self.product = Product(weight, self._bias, is_packed=is_packed)
        self._padded: Tensor | None = None
        if weight.device.type == "cuda" and weight.dtype != torch.float32:
            padding = -vocabulary % _ALIGNED
            self._padded = (F.pad(weight.detach(), (0, 0, 0, padding)) if padding else weight.detach()).T

    def __call__(self, states: Tensor) -> Tensor:
        if self._padded is None:
            return self.product(states)
        # 16 bits would make one row of seven tie at the cut of top-k 10.
        logits = torch.mm(states.flatten(0, -2), self._padded, out_dtype=torch.float32)[:, : self._vocabulary]
        logits = logits if self._bias is None else logits + self._bias
        return logits.view(*states.shape[:-1], -1)


def rotate(heads: Tensor, cosines: Tensor, sines: Tensor, *, is_interleaved: bool) -> Tensor:
    """Return heads [..., head width] whose first columns are turned by their position (RoPE, Su et al., 2021).

    cosines, sines: [..., columns] for the columns that turn, even in number. Each column is multiplied by its cosine,
    and gets the other column of its pair times its sine, which is therefore negative for the first of each pair.
    is_interleaved: pairs are neighbours; otherwise a column's partner is half of the columns away.
    """
    columns = cosines.shape[-1]
    turned = heads[..., :columns]
    if is_interleaved:
        partner = torch.unflatten(turned, -1, (-1, 2)).flip(-1).flatten(-2)
    else:
        partner = turned.roll(columns // 2, dims=-1)
    rotated = torch.addcmul(turned * cosines, partner, sines).to(heads.dtype)
    return rotated if columns == heads.shape[-1] else torch.cat([rotated, heads[..., columns:]], dim=-1)


def rms_norm(states: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Return states [..., width] divided by their root mean square, times weight [width] (Zhang and Sennrich, 2019)."""
    if states.device.type != "cpu":
        return F.rms_norm(states.to(weight.dtype), weight.shape, weight, epsilon).to(states.dtype)
    # torch has no fused kernel for a CPU.
    norm = torch.linalg.vector_norm(states, dim=-1, keepdim=True, dtype=torch.float32)
    factor = (norm.square() / weight.shape[-1] + epsilon).rsqrt()
    normed: Tensor = (states * factor).to(weight.dtype) * weight
    return normed.to(states.dtype)


def attention_dtype(device: torch.device, dtype: torch.dtype) -> torch.dtype:
    """Return the type in which keys and values are stored: a CPU's kernels for 16 bits are slower than for 32."""
    return torch.float32 if device.type == "cpu" else dtype


def attend(
    query: Tensor, keys: Tensor, values: Tensor, scale: float, *, cap: float | None = None, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return softmax(scale * query . keys) values, and the logarithm of the softmax's denominator.

    query: [batch, heads, queries, width]. With a mask there may be further dimensions.
    keys, values: [batch, heads, positions, width].
    cap: scores are limited to this absolute value by tanh.
    mask: [queries, positions], True where a query sees a position. Without one, every query sees every position.
    Returns [batch, heads, queries, width] in the dtype of the query and [batch, heads, queries] float32. Products of
    queries and keys are summed in float32 in any dtype, because unscaled products overflow float16.
    """
    is_plain = cap is None and mask is None
    kernels = torch.ops.aten
    # One query for each set of keys is faster without the fused kernel of the CPU, which works on blocks of queries.
    if is_plain and query.device.type == "cpu" and query.shape[2] >= 8 and _has_fused_attention():
        result = kernels._scaled_dot_product_flash_attention_for_cpu(query, keys, values, scale=scale)
        return result[0], result[1]
    if is_plain and query.device.type == "cuda" and _flash_runs_on(query):
        result = kernels._scaled_dot_product_flash_attention(query, keys, values, scale=scale)
        return result[0], result[1]
    # [batch, heads, queries, positions]
    scores = torch.matmul(query.float() if scale == 1 else query.float() * scale, keys.float().transpose(-1, -2))
    if cap is not None:
        scores = soft_cap(scores, cap)
    if mask is not None:
        scores.masked_fill_(~mask, -torch.inf)
    highest = scores.amax(dim=-1, keepdim=True)
    weights = (scores - highest).exp_()
    mass = weights.sum(dim=-1, keepdim=True)
    return torch.matmul((weights / mass).to(values.dtype), values), (mass.log_() + highest).squeeze(-1)


def merge_parts(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> Tensor:
    """Return attention over the union of two sets of positions, from the results of `attend` for each.

    Each part is [..., width] and [...].
    """
    share = torch.sigmoid(second[1] - first[1]).unsqueeze(-1)
    return torch.lerp(first[0], second[0], share.to(first[0].dtype))


def add_sinks(mixed: Tensor, total: Tensor, sinks: Tensor) -> tuple[Tensor, Tensor]:
    """Return results of `attend` after one more position without a value was seen, whose scores are `sinks`."""
    share = torch.sigmoid(total - sinks).unsqueeze(-1)
    return mixed * share.to(mixed.dtype), torch.logaddexp(total, sinks)


def soft_cap(scores: Tensor, cap: float) -> Tensor:
    """Return scores that tanh limits to the absolute value `cap`."""
    return torch.tanh(scores / cap) * cap


def _is_packable(weight: Tensor) -> bool:
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return weight.dtype == torch.float32 or (
        weight.dtype == torch.bfloat16 and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    )


@cache
def _packs(dtype: torch.dtype) -> bool:
    """Return True if the private operations of oneDNN exist in this torch and compute a product and what follows it."""
    weight, states = torch.eye(2, dtype=dtype), torch.tensor([[1.0, -1.0]], dtype=dtype)
    kernels = torch.ops.mkldnn
    try:
        packed = kernels._reorder_linear_weight(weight)
        fused = kernels._linear_pointwise(states, packed, None, "relu", [], "")
        added = kernels._linear_pointwise.binary(states, states, packed, None, "add")
    except (RuntimeError, AttributeError, TypeError, NotImplementedError):
        # They cost only speed.
        return False
    return torch.equal(fused, states.relu()) and torch.equal(added, 2 * states)


@cache
def _has_fused_attention() -> bool:
    return hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu")


def _flash_runs_on(query: Tensor) -> bool:
    """Return True if FlashAttention supports the query.

    It needs 16 bits, heads of a multiple of 8 up to 256 columns, and an Ampere GPU or a later one.
    """
    width = query.shape[-1]
    is_recent = torch.cuda.get_device_capability(query.device) >= (8, 0)
    return query.dtype in _HALVES and width <= 256 and width % 8 == 0 and is_recent
