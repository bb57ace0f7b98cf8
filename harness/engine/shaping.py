"""Policies applied to logits: which tokens may come next, with what probability, and which one a draw takes.

This module knows nothing about models. The order of a support is part of the result: ties are broken by token id,
because equal logits, which are common in 16 bits, must not make a draw depend on the device.

A vocabulary has tens of thousands of columns and a policy keeps about ten. Taking the maximum of each block of columns
first, and then looking into the few blocks that can contain a result, reads a row once. A selection over the whole row
reads it several times.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.core.policy import Policy

_FIRST_NUCLEUS = 256
"""The number of tokens that top-p examines before it sorts the whole vocabulary."""
_FEW_COLUMNS = 64
"""A row of so many numbers is compared as a whole, and a longer one is halved repeatedly."""
_BLOCK = 96
"""Columns of a block. A vocabulary of 50,257 tokens has 524 blocks."""
_PART_PER_ID, _MIN_DISTANCE = 2.0**-48, 2.0**-150
"""Ids below 2^20 lower a score by less than 2^-28 of it, and a zero by less than the smallest float32 number."""
_SAFE_EXPONENT = 64
"""exp() of up to this, added over a vocabulary, is finite in float32, and exp() of minus this is not 0."""
_ROWS = 16
"""Rows of exponentials that fit into the caches of a CPU at once."""


@dataclass(frozen=True)
class Support:
    """The tokens that a policy allows at one step, and their renormalised log-probabilities.

    ids: [rows, k] int64, by descending probability, ties by id; None if no filter applies, in which case k is the
    vocabulary size and columns are ids.
    logprobs: [rows, k] float64 (float32 for a full vocabulary); rows that allow fewer than k tokens end in -inf.
    """

    ids: Tensor | None
    logprobs: Tensor


def apply_policy(logits: Tensor, policy: Policy, seen: Tensor | None = None) -> Support:
    """Return the support of `policy` for next-token logits [rows, vocabulary] float32, which are not modified.

    policy: with a constant temperature, such as that of `Policy.at`.
    seen: [rows, any] int64, the tokens of prefix and suffix so far, which the repetition penalty needs.
    """
    assert policy.decay_tokens == 0
    scores = logits
    if policy.repetition_penalty != 1:
        assert seen is not None
        scores = apply_repetition_penalty(logits, policy.repetition_penalty, seen)
    if policy.top_k is not None:
        values, ids = most_likely(scores, policy.top_k)  # [rows, k]
        support = Support(ids, torch.log_softmax(values.double() / policy.temperature, dim=1))
    elif policy.top_p < 1:
        support = _nucleus(scores, policy.temperature, policy.top_p)
    elif policy.typical_p < 1:
        total = tempered_logsumexp(scores, policy.temperature).unsqueeze(1)
        support = Support(None, scores.double() / policy.temperature - total)
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
    policy, seen: as in `apply_policy`.
    total: [rows], log sum exp of the logits.
    """
    assert policy.decay_tokens == 0
    if policy.top_k is not None or policy.top_p < 1 or policy.typical_p < 1:
        support = apply_policy(logits, policy, seen)
        assert support.ids is not None
        return Support(support.ids[:, :count], support.logprobs[:, :count])
    scores = apply_repetition_penalty(logits, policy.repetition_penalty, seen) if seen is not None else logits
    if policy.temperature != 1 or seen is not None:
        total = tempered_logsumexp(scores, policy.temperature)
    values, ids = most_likely(scores, min(count, scores.shape[1]))
    return Support(ids, values.double() / policy.temperature - total.double().unsqueeze(1))


def sample_tokens(support: Support, row: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Return the tokens that inverse-CDF sampling draws and their log-probabilities, both [draws].

    row: [draws], the row of the support that each draw is from.
    uniform: [draws] in [0, 1). Each draw takes the first index whose cumulative mass exceeds its uniform number.
    """
    mass = support.logprobs.exp().cumsum(1, dtype=torch.float64)  # [rows, k]
    total = mass[:, -1]
    index = _count_up_to(mass, row, uniform.double() * total[row], torch.le)
    # Rounding may move a uniform number just below 1 past the last token that has any mass.
    rows = torch.arange(len(mass), device=mass.device)
    index = torch.minimum(index, _count_up_to(mass, rows, total, torch.lt)[row])
    # NaN has no order: some token is taken, and its NaN log-probability makes the caller raise.
    index = index.clamp(max=mass.shape[1] - 1)
    return index if support.ids is None else support.ids[row, index], support.logprobs[row, index]


def _count_up_to(mass: Tensor, row: Tensor, level: Tensor, is_up_to: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return how many masses, from the first on, are up to `level` [n] in the rows `row` [n] of ascending `mass`."""
    columns = mass.shape[1]
    if columns <= _FEW_COLUMNS:
        return is_up_to(mass[row], level.unsqueeze(1)).sum(1)
    count = torch.zeros_like(row)
    for bit in reversed(range(columns.bit_length())):
        more = count + (1 << bit)
        is_more = (more <= columns) & is_up_to(mass[row, more.clamp(max=columns) - 1], level)
        count = torch.where(is_more, more, count)
    return count


def apply_repetition_penalty(logits: Tensor, penalty: float, seen: Tensor) -> Tensor:
    """Return a copy of the logits in which those of seen tokens are divided (multiplied if negative) by the penalty."""
    scores = logits.gather(1, seen)
    return logits.scatter(1, seen, torch.where(scores < 0, scores * penalty, scores / penalty))


def _nucleus(scores: Tensor, temperature: float, top_p: float) -> Support:
    """Return enough of the most likely tokens to hold `top_p` in each row; log-probabilities are not renormalised."""
    total = tempered_logsumexp(scores, temperature).unsqueeze(1)  # [rows, 1]
    count = min(_FIRST_NUCLEUS, scores.shape[1])
    while True:
        values, ids = most_likely(scores, count)
        logprobs = values.double() / temperature - total
        if count == scores.shape[1] or bool((logprobs.exp().sum(1) >= top_p).all()):
            return Support(ids, logprobs)
        count = min(8 * count, scores.shape[1])


def keep_top_p(support: Support, top_p: float) -> Support:
    """Return the smallest leading part of each row that holds at least `top_p`, renormalised."""
    logprobs = _leading_part(support.logprobs, top_p)
    assert support.ids is not None
    return Support(support.ids[:, : logprobs.shape[1]], torch.log_softmax(logprobs, dim=1))


def keep_typical_p(support: Support, typical_p: float, entropy: Tensor | None = None) -> Support:
    """Return the fewest tokens with surprise closest to the entropy that hold at least `typical_p`, renormalised.

    Equally typical tokens are taken in the order of the support until the mass is reached; Hugging Face keeps all of
    them. entropy: [rows, 1] in nats, by default that of the support.
    """
    logprobs = support.logprobs.double()
    if entropy is None:
        entropy = torch.special.entr(logprobs.exp()).sum(1, keepdim=True)
    order = (-logprobs - entropy).abs().sort(dim=1, stable=True).indices  # [rows, k]
    logprobs = _leading_part(logprobs.gather(1, order), typical_p)
    ids = (order if support.ids is None else support.ids.gather(1, order))[:, : logprobs.shape[1]]
    logprobs, ids = sort_by_score(logprobs, ids)
    return Support(ids, torch.log_softmax(logprobs, dim=1))


def _leading_part(logprobs: Tensor, share: float) -> Tensor:
    """Return the smallest leading part of each row that holds at least `share`, [rows, longest], ended by -inf."""
    probabilities = logprobs.exp()
    is_kept = probabilities.cumsum(1) - probabilities < share
    # Rounding of the difference above must not exclude the first token.
    is_kept[:, 0] = True
    width = int(is_kept.sum(1).max())
    return logprobs.masked_fill(~is_kept, -math.inf)[:, :width]


def most_likely(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` highest of scores [rows, vocabulary] and their ids, ties by id; both [rows, count]."""
    vocabulary = scores.shape[1]
    if count >= vocabulary:
        ordered = scores.sort(dim=1, descending=True, stable=True)
        return ordered.values, ordered.indices
    inside, ids = scores, torch.arange(vocabulary, device=scores.device).expand_as(scores)
    # With more winners than that, most blocks hold one.
    if 4 * count <= vocabulary // _BLOCK:
        inside, ids = _inside_best_blocks(scores, count)
    places = _order_scores(inside, ids).topk(count, dim=1).indices
    return inside.gather(1, places), ids.gather(1, places)


def sort_by_score(values: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Sort the columns of each row by descending value, then by id; both [rows, k]."""
    ids, order = ids.sort(dim=1)
    values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    return values, ids.gather(1, order)


def row_blocks(scores: Tensor) -> tuple[Tensor, ...]:
    """Return the rows of a table in parts that fit into the caches of a CPU."""
    return torch.split(scores, _ROWS) if scores.device.type == "cpu" else (scores,)


def logsumexp(scores: Tensor) -> Tensor:
    """Return log sum exp of each row of [rows, columns], [rows]."""
    if scores.device.type != "cpu":
        return torch.logsumexp(scores, dim=1)
    if _is_safe(scores):
        return torch.cat([part.exp().sum(dim=1).log_() for part in row_blocks(scores)])
    return torch.cat([torch.logsumexp(part, dim=1) for part in row_blocks(scores)])


def tempered_logsumexp(scores: Tensor, temperature: float) -> Tensor:
    """Return log sum exp of scores [rows, columns] / temperature, [rows] float64.

    A low temperature gives the likeliest token nearly all probability. Its log-probability is the small sum over the
    others, which would be lost if a float32 sum included it.
    """
    totals = []
    for part in row_blocks(scores):
        highest, column = part.max(dim=1, keepdim=True)
        masses = part.sub(highest).div_(temperature).exp_().scatter_(1, column, 0)
        totals.append(highest.squeeze(1).double() / temperature + masses.sum(dim=1).double().log1p())
    return torch.cat(totals)


def _is_safe(scores: Tensor) -> bool:
    """Return True if the sum of exponentials of each row is neither infinite nor 0 in float32.

    Then no maximum is subtracted, which would read and write the table once more.
    """
    return bool((scores.amax(dim=1).abs() < _SAFE_EXPONENT).all())


def _inside_best_blocks(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return scores and ids in the `count` blocks of the highest maxima, ties by place; both [rows, candidates].

    The `count` highest scores are in these blocks or in the last columns, which do not fill a block and are included.
    """
    rows, vocabulary = scores.shape
    blocks = vocabulary // _BLOCK
    whole = torch.unflatten(scores[:, : blocks * _BLOCK], 1, (blocks, _BLOCK))  # [rows, blocks, block]
    best = whole.amax(2)
    order = _order_scores(best, torch.arange(blocks, device=scores.device))
    best_blocks = order.topk(count, dim=1).indices.unsqueeze(2)  # [rows, count, 1]
    inside = whole.gather(1, best_blocks.expand(rows, count, _BLOCK)).flatten(1)  # [rows, count * block]
    ids = (best_blocks * _BLOCK + torch.arange(_BLOCK, device=scores.device)).flatten(1)
    rest = torch.arange(blocks * _BLOCK, vocabulary, device=scores.device).expand(rows, -1)
    return torch.cat([inside, scores[:, blocks * _BLOCK :]], 1), torch.cat([ids, rest], 1)


def _order_scores(scores: Tensor, ids: Tensor) -> Tensor:
    """Return float64 numbers in the order of the float32 scores in which equal ones are ordered by descending id.

    A score is lowered by a part that is smaller than the distance of float32 numbers and grows with the id. So a
    selection of the highest needs no look at the values, for which the host would wait for a GPU.
    """
    finite = scores.clamp(min=torch.finfo(torch.float32).min).double()
    return torch.addcmul(finite, finite.abs().add_(_MIN_DISTANCE), (ids + 1) * _PART_PER_ID, value=-1)
