"""A policy applied to logits: which tokens may come next, with what probability, and which one a draw takes.

Knows nothing of models. The order of a support is part of the result, so ties are broken by token id: equal logits,
which are common in 16 bits, must not make a draw depend on the device.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.core.policy import Policy
from harness.engine.selection import logsumexp, most_likely, ordered

_FIRST_NUCLEUS = 256
"""Tokens looked at before the whole vocabulary is sorted for top-p."""


@dataclass(frozen=True)
class Support:
    """The tokens that a policy allows at one step, and their renormalised log-probabilities.

    ids: [rows, k] int64, most likely first, ties by id; None where no filter applies: then k is the vocabulary, in
    the order of ids. logprobs: [rows, k] float64 (float32 for a full vocabulary); rows that allow fewer than k tokens
    end in -inf.
    """

    ids: Tensor | None
    logprobs: Tensor


def shaped(logits: Tensor, policy: Policy, seen: Tensor | None = None) -> Support:
    """The support of `policy` for next-token logits [rows, vocabulary] float32, which are left as they are.

    seen: [rows, any] int64, the tokens of prefix and suffix so far, which the repetition penalty asks for.
    """
    scores = logits
    if policy.repetition_penalty != 1:
        assert seen is not None
        scores = penalised(logits, policy.repetition_penalty, seen)
    if policy.top_k is not None:
        values, ids = most_likely(scores, policy.top_k)  # [rows, k]
        support = Support(ids, log_softmax(wide(values) / policy.temperature))
    elif policy.top_p < 1:
        support = _nucleus(scores, policy.temperature, policy.top_p)
    else:
        support = Support(None, log_softmax(scores if policy.temperature == 1 else scores / policy.temperature))
    if policy.top_p < 1:
        support = most_massive(support, policy.top_p)
    if policy.typical_p < 1:
        support = most_typical(support, policy.typical_p)
    return support


def leading(logits: Tensor, policy: Policy, count: int, seen: Tensor | None, total: Tensor) -> Support:
    """The `count` likeliest tokens of the support of `policy` in each row, or all of them where it has fewer.

    As `shaped`, without log-probabilities for a whole vocabulary. total: [rows], log sum exp of the logits.
    """
    if policy.top_k is not None or policy.top_p < 1 or policy.typical_p < 1:
        support = shaped(logits, policy, seen)
        assert support.ids is not None
        return Support(support.ids[:, :count], support.logprobs[:, :count])
    scores = penalised(logits, policy.repetition_penalty, seen) if seen is not None else logits
    if policy.temperature != 1 or seen is not None:
        scores = scores / policy.temperature
        total = logsumexp(scores)
    values, ids = most_likely(scores, min(count, scores.shape[1]))
    return Support(ids, wide(values) - wide(total).unsqueeze(1))


def drawn(support: Support, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """The tokens that inverse-CDF sampling takes, [rows, draws] int64, and their log-probabilities, [rows, draws].

    uniform: [rows, draws] in [0, 1). Each takes the first index whose cumulative mass exceeds it.
    """
    mass = support.logprobs.exp().cumsum(1, dtype=_wide_dtype(support.logprobs))  # [rows, k]
    total = mass[:, -1:].contiguous()
    index = torch.searchsorted(mass, uniform.to(mass) * total, right=True)  # [rows, draws]
    # Rounding may carry a uniform just below 1 past the last token that has any mass.
    index = torch.minimum(index, torch.searchsorted(mass, total))
    # NaN has no place in an order: some token is taken, and its log-probability says that it means nothing.
    index = index.clamp(max=mass.shape[1] - 1)
    return index if support.ids is None else support.ids.gather(1, index), support.logprobs.gather(1, index)


def penalised(logits: Tensor, penalty: float, seen: Tensor) -> Tensor:
    """A copy of the logits with those of seen tokens divided, or multiplied where negative, by the penalty."""
    scores = logits.gather(1, seen)
    return logits.scatter(1, seen, torch.where(scores < 0, scores * penalty, scores / penalty))


def _nucleus(scores: Tensor, temperature: float, top_p: float) -> Support:
    """The most likely tokens, enough of them to hold `top_p` in each row, with log-probabilities not renormalised."""
    tempered = scores if temperature == 1 else scores / temperature
    total = wide(logsumexp(tempered).unsqueeze(1))  # [rows, 1]
    count = min(_FIRST_NUCLEUS, scores.shape[1])
    while True:
        values, ids = most_likely(tempered, count)
        logprobs = wide(values) - total
        if count == scores.shape[1] or bool((logprobs.exp().sum(1) >= top_p).all()):
            return Support(ids, logprobs)
        count = min(8 * count, scores.shape[1])


def most_massive(support: Support, top_p: float) -> Support:
    """The smallest leading part of each row that holds at least `top_p`, renormalised."""
    probabilities = support.logprobs.exp()
    is_kept = probabilities.cumsum(1) - probabilities < top_p
    # The first token is kept whatever the rounding of the difference above.
    is_kept[:, 0] = True
    width = int(is_kept.sum(1).max())
    logprobs = support.logprobs.masked_fill(~is_kept, -math.inf)[:, :width]
    assert support.ids is not None
    return Support(support.ids[:, :width], log_softmax(logprobs))


def most_typical(support: Support, typical_p: float, entropy: Tensor | None = None) -> Support:
    """The fewest tokens nearest to the entropy in surprise that hold at least `typical_p`, renormalised.

    Equally typical tokens are taken in the order of the support, as many as are needed; Hugging Face keeps them all.
    entropy: [rows, 1] in nats, by default that of the support.
    """
    logprobs = wide(support.logprobs)
    if entropy is None:
        entropy = torch.special.entr(logprobs.exp()).sum(1, keepdim=True)
    order = (-logprobs - entropy).abs().sort(dim=1, stable=True).indices  # [rows, k]
    logprobs = logprobs.gather(1, order)
    probabilities = logprobs.exp()
    is_kept = probabilities.cumsum(1) - probabilities < typical_p
    is_kept[:, 0] = True
    width = int(is_kept.sum(1).max())
    logprobs = logprobs.masked_fill(~is_kept, -math.inf)[:, :width]
    ids = (order if support.ids is None else support.ids.gather(1, order))[:, :width]
    logprobs, ids = ordered(logprobs, ids)
    return Support(ids, log_softmax(logprobs))


def log_softmax(values: Tensor) -> Tensor:
    """Log-probabilities of each row of scores."""
    return torch.log_softmax(values, dim=1)


def _wide_dtype(values: Tensor) -> torch.dtype:
    # Apple's GPUs have no float64.
    return torch.float32 if values.device.type == "mps" else torch.float64


def wide(values: Tensor) -> Tensor:
    """The values in the widest floating type of their device."""
    return values.to(_wide_dtype(values))
