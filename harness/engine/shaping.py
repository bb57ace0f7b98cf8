"""Policies applied to logits: which tokens may come next, with what probability, and which one a draw takes.

This module knows nothing of models. The order of a support is part of the result: ties are broken by token id, because
equal logits, which are common in 16 bits, must not make a draw depend on the device.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.core.policy import Policy
from harness.engine.selection import logsumexp, most_likely, sort_by_score

_FIRST_NUCLEUS = 256
"""The number of tokens that top-p examines before it sorts the whole vocabulary."""


@dataclass(frozen=True)
class Support:
    """The tokens that a policy allows at one step, and their renormalised log-probabilities.

    ids: [rows, k] int64, by descending probability, ties by id; None if no filter applies, in which case k is the
    vocabulary size and columns are ids. logprobs: [rows, k] float64 (float32 for a full vocabulary); rows that allow
    fewer than k tokens end in -inf.
    """

    ids: Tensor | None
    logprobs: Tensor


def apply_policy(logits: Tensor, policy: Policy, seen: Tensor | None = None) -> Support:
    """Return the support of `policy` for next-token logits [rows, vocabulary] float32, which are not modified.

    seen: [rows, any] int64, the tokens of prefix and suffix so far, which the repetition penalty needs.
    """
    scores = logits
    if policy.repetition_penalty != 1:
        assert seen is not None
        scores = apply_repetition_penalty(logits, policy.repetition_penalty, seen)
    if policy.top_k is not None:
        values, ids = most_likely(scores, policy.top_k)  # [rows, k]
        support = Support(ids, torch.log_softmax(values.double() / policy.temperature, dim=1))
    elif policy.top_p < 1:
        support = _nucleus(scores, policy.temperature, policy.top_p)
    else:
        support = Support(
            None, torch.log_softmax(scores if policy.temperature == 1 else scores / policy.temperature, dim=1)
        )
    if policy.top_p < 1:
        support = keep_top_p(support, policy.top_p)
    if policy.typical_p < 1:
        support = keep_typical_p(support, policy.typical_p)
    return support


def top_tokens(logits: Tensor, policy: Policy, count: int, seen: Tensor | None, total: Tensor) -> Support:
    """Return the `count` likeliest tokens of the support of `policy` in each row, or all if it has fewer.

    This equals the beginning of `apply_policy`'s support but computes no log-probabilities for a whole vocabulary.
    total: [rows], log sum exp of the logits.
    """
    if policy.top_k is not None or policy.top_p < 1 or policy.typical_p < 1:
        support = apply_policy(logits, policy, seen)
        assert support.ids is not None
        return Support(support.ids[:, :count], support.logprobs[:, :count])
    scores = apply_repetition_penalty(logits, policy.repetition_penalty, seen) if seen is not None else logits
    if policy.temperature != 1 or seen is not None:
        scores = scores / policy.temperature
        total = logsumexp(scores)
    values, ids = most_likely(scores, min(count, scores.shape[1]))
    return Support(ids, values.double() - total.double().unsqueeze(1))


def sample_tokens(support: Support, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Return the tokens that inverse-CDF sampling draws and their log-probabilities, both [rows, draws].

    uniform: [rows, draws] in [0, 1). Each draw takes the first index whose cumulative mass exceeds its uniform number.
    """
    mass = support.logprobs.exp().cumsum(1, dtype=torch.float64)  # [rows, k]
    total = mass[:, -1:].contiguous()
    index = torch.searchsorted(mass, uniform.to(mass) * total, right=True)  # [rows, draws]
    # Rounding may move a uniform number just below 1 past the last token that has any mass.
    index = torch.minimum(index, torch.searchsorted(mass, total))
    # NaN has no order: some token is taken, and its NaN log-probability makes the caller raise.
    index = index.clamp(max=mass.shape[1] - 1)
    return index if support.ids is None else support.ids.gather(1, index), support.logprobs.gather(1, index)


def apply_repetition_penalty(logits: Tensor, penalty: float, seen: Tensor) -> Tensor:
    """Return a copy of the logits in which those of seen tokens are divided (multiplied if negative) by the penalty."""
    scores = logits.gather(1, seen)
    return logits.scatter(1, seen, torch.where(scores < 0, scores * penalty, scores / penalty))


def _nucleus(scores: Tensor, temperature: float, top_p: float) -> Support:
    """Return enough of the most likely tokens to hold `top_p` in each row; log-probabilities are not renormalised."""
    tempered = scores if temperature == 1 else scores / temperature
    total = logsumexp(tempered).unsqueeze(1).double()  # [rows, 1]
    count = min(_FIRST_NUCLEUS, scores.shape[1])
    while True:
        values, ids = most_likely(tempered, count)
        logprobs = values.double() - total
        if count == scores.shape[1] or bool((logprobs.exp().sum(1) >= top_p).all()):
            return Support(ids, logprobs)
        count = min(8 * count, scores.shape[1])


def keep_top_p(support: Support, top_p: float) -> Support:
    """Return the smallest leading part of each row that holds at least `top_p`, renormalised."""
    probabilities = support.logprobs.exp()
    is_kept = probabilities.cumsum(1) - probabilities < top_p
    # Rounding of the difference above must not exclude the first token.
    is_kept[:, 0] = True
    width = int(is_kept.sum(1).max())
    logprobs = support.logprobs.masked_fill(~is_kept, -math.inf)[:, :width]
    assert support.ids is not None
    return Support(support.ids[:, :width], torch.log_softmax(logprobs, dim=1))


def keep_typical_p(support: Support, typical_p: float, entropy: Tensor | None = None) -> Support:
    """Return the fewest tokens with surprise closest to the entropy that hold at least `typical_p`, renormalised.

    Equally typical tokens are taken in the order of the support until the mass is reached; Hugging Face keeps all of
    them. entropy: [rows, 1] in nats, by default that of the support.
    """
    logprobs = support.logprobs.double()
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
    logprobs, ids = sort_by_score(logprobs, ids)
    return Support(ids, torch.log_softmax(logprobs, dim=1))
