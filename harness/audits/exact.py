"""Exact probabilities of given suffixes under several decoding policies, and statistics of given texts.

Every policy is a function of the same logits, so all policies share one teacher-forced pass and the likeliest tokens of
each position. This module draws nothing.

It loads torch, so the audit imports it only where a model is measured.
"""

import math
from collections.abc import Sequence
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from harness.core.arrays import Bools, Floats, Ints, Tokens, padded
from harness.core.policy import Policy
from harness.engine import shaping
from harness.engine.branches import Logits
from harness.engine.likelihood import measure_suffixes
from harness.engine.memory import non_finite_error
from harness.engine.shaping import Support
from harness.engine.target import Target

_HEADS = (16, 128, 1024)
"""Numbers of likeliest tokens to examine, each if the one before does not settle a policy."""


def exact_logprobs(
    target: Target, prefixes: Tokens, suffixes: Tokens, policies: Sequence[Policy], *, min_probability: float = 0.0
) -> Floats:
    """Return the log-probabilities of `suffixes` [rows, length] after `prefixes` [rows, any] under each policy.

    The result, [policies, rows, length] float64, holds the log-probability of each token under the policy's
    renormalised distribution, -inf if the policy excludes it. Raises HarnessError as `Target.sample` does.
    min_probability: a suffix whose first tokens have a smaller probability under every policy is not followed to its
    end; the logarithms of its other tokens are 0, so that their sum is an upper bound.
    """
    target.check_pairs(prefixes, suffixes)
    if len(prefixes) == 0 or not policies:
        return np.empty((len(policies), *suffixes.shape))
    by_step = [[policy.at(step) for step in range(suffixes.shape[1])] for policy in policies]
    # A decaying temperature is measured as several constant ones, at every token, so that all share one pass.
    constant = list(dict.fromkeys(chain(*by_step)))
    places = np.array([[constant.index(policy) for policy in steps] for steps in by_step])  # [policies, length]

    def under_policies(logprobs: Floats) -> Floats:
        """Return the log-probabilities of the first tokens under each policy, from those under the constant ones."""
        steps = np.arange(logprobs.shape[2])
        return np.ascontiguousarray(np.moveaxis(logprobs[places[:, steps], :, steps], 2, 1))  # [policies, rows, tokens]

    of_constant = target.run_within_memory(
        lambda rows_at_once: measure_suffixes(
            target.runner,
            prefixes,
            suffixes,
            lambda logits, targets, before: torch.stack(target_logprobs(logits, targets, constant, before)),
            figures=len(constant),
            rows_at_once=rows_at_once,
            on_step=target.report_step,
            needs_more=None
            if min_probability <= 0
            else (lambda logprobs: _is_likely(under_policies(logprobs), min_probability)),
        )
    )
    logprobs = under_policies(of_constant[:, :, 1:])
    if np.isnan(logprobs).any():
        raise non_finite_error("the target returned NaN", target.dtype)
    return logprobs


def _is_likely(logprobs: Floats, min_probability: float) -> Bools:
    """Return which rows of logprobs [policies, rows, tokens] reach `min_probability` under some policy, [rows].

    A row with NaN is kept, because callers raise an error if the model returns NaN.
    """
    total = logprobs.sum(axis=2)
    return np.asarray(((total >= math.log(min_probability)) | np.isnan(total)).any(axis=0))


def target_logprobs(
    logits: Logits, targets: Tensor, policies: Sequence[Policy], before: Tensor | None = None
) -> list[Tensor]:
    """Return the log-probability of targets [n] under each policy, [n] float64 each, none above 0.

    logits: of n positions.
    policies: with constant temperatures.
    before: [n, any] int64, the tokens before each target, which a repetition penalty needs.
    """
    assert not any(policy.decay_tokens for policy in policies)
    distribution = _Distribution(logits.scores, logits)
    logprobs: dict[Policy, Tensor] = {}
    for penalty in {policy.repetition_penalty for policy in policies}:
        if penalty != 1:
            assert before is not None
            distribution = _Distribution(shaping.apply_repetition_penalty(logits.scores, penalty, before))
        alike = [policy for policy in dict.fromkeys(policies) if policy.repetition_penalty == penalty]
        truncating = [
            policy for policy in alike if policy.top_k is not None or policy.top_p < 1 or policy.typical_p < 1
        ]
        whole = [policy for policy in alike if policy not in truncating]
        logprobs |= {policy: distribution.logprobs(targets, policy.temperature) for policy in whole}
        logprobs |= zip(truncating, _truncated_logprobs(distribution, targets, truncating), strict=True)
    # A sum of exponentials may round to less than its only term.
    return [logprobs[policy].clamp(max=0) for policy in policies]


class _Distribution:
    """Next-token scores [n, vocabulary] with cached normalisers, which top-k does not need."""

    def __init__(self, scores: Tensor, logits: Logits | None = None) -> None:
        """logits: those with these scores, if their normaliser is not to be computed again."""
        self.scores = scores
        self._logits = logits
        self._totals: dict[float, Tensor] = {}
        self._entropies: dict[float, Tensor] = {}

    def total(self, temperature: float) -> Tensor:
        """Return log sum exp of the tempered scores, [n, 1]."""
        if temperature not in self._totals:
            if temperature == 1:
                total = (shaping.logsumexp(self.scores) if self._logits is None else self._logits.total).double()
            else:
                total = shaping.tempered_logsumexp(self.scores, temperature)
            self._totals[temperature] = total.unsqueeze(1)
        return self._totals[temperature]

    def entropy(self, temperature: float) -> Tensor:
        """Return the entropy of the tempered distribution in nats, [n, 1]."""
        if temperature not in self._entropies:
            tempered = self.scores if temperature == 1 else self.scores / temperature
            total = self.total(temperature)
            masses = (tempered - total.to(tempered)).exp_()  # [n, vocabulary]
            mean = torch.linalg.vecdot(masses, tempered)
            if bool(mean.isnan().any()):
                # The score of an impossible token is -inf and contributes nothing, but 0 * inf is NaN.
                mean = torch.linalg.vecdot(masses, torch.where(tempered.isneginf(), 0, tempered))
            self._entropies[temperature] = total - mean.double().unsqueeze(1)
        return self._entropies[temperature]

    def logprobs(self, targets: Tensor, temperature: float) -> Tensor:
        """Return the tempered log-probability of targets [n], [n]."""
        scores = self.scores.gather(1, targets.unsqueeze(1)).double() / temperature
        return (scores - self.total(temperature)).squeeze(1)

    def rows(self, rows: Tensor) -> "_Distribution":
        """Return the distribution of some of the n rows."""
        part = _Distribution(self.scores[rows])
        part._totals = {temperature: total[rows] for temperature, total in self._totals.items()}
        part._entropies = {temperature: entropy[rows] for temperature, entropy in self._entropies.items()}
        return part


def _truncated_logprobs(distribution: _Distribution, targets: Tensor, policies: Sequence[Policy]) -> list[Tensor]:
    """Return the log-probability of targets [n] under each truncating policy, [n] each, with little sorting."""
    vocabulary = distribution.scores.shape[1]
    largest_k = max((policy.top_k or 1 for policy in policies), default=1)
    results = [torch.full(targets.shape, math.nan, dtype=torch.float64, device=targets.device) for _ in policies]
    rows = torch.arange(len(targets), device=targets.device)
    waiting = list(zip(policies, results, strict=True))
    # One token more than top-k keeps shows that no other one is equal to the last that is kept.
    first = max(_HEADS[0], largest_k + 1)
    for count in (head for head in (first, *_HEADS[1:]) if first <= head < vocabulary):
        values, ids = shaping.most_likely(distribution.scores, count)
        is_settled = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
        unsettled = []
        for policy, result in waiting:
            result[rows], settles = _logprobs_from_head(
                distribution, Support(ids, values.double()), targets[rows], policy
            )
            if not bool(settles.all()):
                unsettled.append((policy, result))
                is_settled &= settles
        # Usually few rows and policies need more tokens, and only these pay for them.
        waiting = unsettled
        if not waiting:
            break
        distribution, rows = distribution.rows((~is_settled).nonzero().squeeze(1)), rows[~is_settled]
    for policy, result in waiting:
        if policy.top_k is None and (policy.top_p == 1 or policy.typical_p == 1):
            result[rows] = _logprobs_from_vocabulary(distribution, targets[rows], policy)
        else:
            values, ids = shaping.most_likely(distribution.scores, vocabulary)
            result[rows], _ = _logprobs_from_head(distribution, Support(ids, values.double()), targets[rows], policy)
    return results


def _logprobs_from_head(
    distribution: _Distribution, head: Support, targets: Tensor, policy: Policy
) -> tuple[Tensor, Tensor]:
    """Return the targets' log-probabilities by the likeliest tokens, [n], and whether those tokens settle them, [n].

    head: the likeliest tokens and their scores. They settle a policy if they contain its whole support and that support
    excludes tokens equal to the last one, which may have equals outside. For typical-p they settle it if no token
    outside is as typical as a token that is kept, because tokens outside are at most as likely as the last.
    """
    ids, values = head.ids, head.logprobs
    assert ids is not None
    is_sure = values > values[:, -1:]
    if policy.top_k is not None:
        is_settled = is_sure[:, policy.top_k - 1]
        support = Support(
            ids[:, : policy.top_k], torch.log_softmax(values[:, : policy.top_k] / policy.temperature, dim=1)
        )
    else:
        support = Support(ids, values / policy.temperature - distribution.total(policy.temperature))
        masses = support.logprobs.exp()
        is_settled = (masses * is_sure).sum(1) >= policy.top_p
    if policy.top_p < 1:
        support = shaping.keep_top_p(support, policy.top_p)
    if policy.typical_p < 1 and policy.top_k is None and policy.top_p == 1:
        entropy = distribution.entropy(policy.temperature)
        beyond = -support.logprobs[:, -1:] - entropy  # [n, 1]: a lower bound for tokens outside the head
        nearer = (-support.logprobs - entropy).abs() < beyond
        is_settled = (masses * nearer).sum(1) >= policy.typical_p
        support = shaping.keep_typical_p(support, policy.typical_p, entropy)
    elif policy.typical_p < 1:
        support = shaping.keep_typical_p(support, policy.typical_p)
    assert support.ids is not None
    is_target = (support.ids == targets.unsqueeze(1)) & ~support.logprobs.isneginf()
    # NaN is kept, because callers raise an error if the model returns NaN.
    logprobs = support.logprobs.masked_fill(~is_target, -math.inf).amax(1)
    return torch.where(support.logprobs.isnan().any(1), math.nan, logprobs), is_settled


def _logprobs_from_vocabulary(distribution: _Distribution, targets: Tensor, policy: Policy) -> Tensor:
    """Return the log-probability of targets [n] under a policy of either top-p or typical-p, [n], with one sort."""
    logprobs = (distribution.scores / policy.temperature - distribution.total(policy.temperature)).float()
    distance = logprobs if policy.top_p < 1 else logprobs + distribution.entropy(policy.temperature).float()
    order = _stable_order(distance.abs())  # [n, vocabulary]
    masses = logprobs.gather(1, order).exp_().cumsum(1, dtype=torch.float64)
    limit = torch.full_like(masses[:, :1], min(policy.top_p, policy.typical_p))
    last = torch.searchsorted(masses, limit).clamp(max=masses.shape[1] - 1)  # [n, 1], the first to reach the mass
    place = (order == targets.unsqueeze(1)).nonzero()[:, 1:]
    target_logprobs = logprobs.gather(1, targets.unsqueeze(1)).double()
    result = torch.where(place <= last, target_logprobs - masses.gather(1, last).log(), -math.inf).squeeze(1)
    return torch.where(distribution.total(policy.temperature).squeeze(1).isnan(), math.nan, result)


def _stable_order(keys: Tensor) -> Tensor:
    """Return the ascending order of non-negative float32 keys [n, columns], equal ones by column."""
    if keys.device.type != "cpu":
        return keys.sort(dim=1, stable=True).indices
    # The bits of such numbers have their order. NumPy sorts integers ten times faster than PyTorch.
    packed = keys.view(torch.int32).long() << 32 | torch.arange(keys.shape[1])
    return torch.from_numpy(np.sort(packed.numpy(), axis=1)) & 0xFFFFFFFF


def text_statistics(target: Target, texts: Sequence[Ints], before: Ints) -> list[Floats]:
    """Return the statistics of each text without its first token, [3, tokens - 1], after the tokens `before`."""
    # A model that reads from left to right is not influenced by what follows a text.
    rows = padded(texts)
    prefixes = np.concatenate([np.tile(before, (len(rows), 1)), rows[:, :1]], axis=1).astype(np.int64)
    statistics = token_statistics(target, prefixes, rows[:, 1:])
    return [statistics[:, row, : len(text) - 1] for row, text in enumerate(texts)]


def token_statistics(target: Target, prefixes: Tokens, texts: Tokens) -> Floats:
    """Return statistics of texts [n, length] after prefixes [n, any], [3, n, length].

    They are the log-probability of each token, and the mean and the standard deviation of the log-probability of a
    token that is drawn from the model's distribution there, all in nats. Raises HarnessError as `Target.score` does.
    """
    target.check_pairs(prefixes, texts)
    statistics = target.run_within_memory(
        lambda rows_at_once: measure_suffixes(
            target.runner,
            prefixes,
            texts,
            lambda logits, targets, before: _statistics(logits, targets),
            figures=3,
            rows_at_once=rows_at_once,
            on_step=target.report_step,
        )
    )[:, :, 1:]
    if np.isnan(statistics).any():
        raise non_finite_error("the target returned NaN", target.dtype)
    return statistics


def _statistics(logits: Logits, targets: Tensor) -> Tensor:
    """Return the statistics of targets [n] under the logits of n positions, [3, n]."""
    scores = logits.scores  # [n, vocabulary]
    total = logits.total  # [n]
    means, deviations = [], []
    for part, part_total in zip(shaping.row_blocks(scores), shaping.row_blocks(total.unsqueeze(1)), strict=True):
        logprobs = part - part_total
        masses = logprobs.exp()
        # The log-probability of an impossible token is -inf and contributes nothing, but 0 * inf is NaN.
        logprobs = torch.where(logprobs.isneginf(), 0, logprobs)
        mean = torch.linalg.vecdot(masses, logprobs)
        means.append(mean)
        deviations.append(torch.linalg.vecdot(masses, (logprobs - mean.unsqueeze(1)) ** 2).clamp(min=0).sqrt())
    of_target = scores.gather(1, targets.unsqueeze(1)).squeeze(1) - total
    return torch.stack([of_target, torch.cat(means), torch.cat(deviations)])
