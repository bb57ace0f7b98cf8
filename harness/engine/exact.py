"""Exact probabilities of given suffixes under several decoding policies at once, from one teacher-forced pass.

Every policy is a function of the same logits, so they share the pass and the likeliest tokens of each position. It
knows nothing of drawing.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from harness.core.arrays import Floats, Tokens
from harness.core.policy import Policy
from harness.engine.branches import Logits
from harness.engine.likelihood import teacher_forced
from harness.engine.selection import highest, logsumexp, most_likely, ordered
from harness.engine.shaping import Support, log_softmax, most_massive, most_typical, penalised, wide
from harness.engine.trunk import Trunk

_HEADS = (16, 128, 1024)
"""Likeliest tokens looked at, first and where those do not settle a policy, before the whole vocabulary is."""
_BINS, _BIN = 2048, 1 / 64
"""How many bins a whole vocabulary is ordered into, and how many nats wide they are; the last one has no end."""


def exact_logprobs(
    trunk: Trunk, prefixes: Tokens, suffixes: Tokens, policies: Sequence[Policy], *, rows_at_once: int
) -> Floats:
    """The log-probability of each suffix token under each policy, renormalised, [policies, rows, length].

    prefixes: [rows, prefix length]; suffixes: [rows, length], at least one row. -inf where a policy does not allow
    the token behind what stands before it.
    """
    found = teacher_forced(
        trunk,
        prefixes,
        suffixes,
        lambda logits, targets, before: torch.stack(target_logprobs(logits, targets, policies, before)),
        figures=len(policies),
        rows_at_once=rows_at_once,
    )
    return found[:, :, 1:]


def target_logprobs(
    logits: Logits, targets: Tensor, policies: Sequence[Policy], before: Tensor | None = None
) -> list[Tensor]:
    """The log-probability of targets [n] under each policy, [n] each in the widest type, as `shaped` has it.

    None is above 0.

    logits: of n positions; before: [n, any] int64, the tokens that stand before, which a repetition penalty asks for.
    """
    given = _Distribution(logits.scores, logits.total)
    found: dict[Policy, Tensor] = {}
    for penalty in {policy.repetition_penalty for policy in policies}:
        if penalty != 1:
            assert before is not None
            scores = penalised(logits.scores, penalty, before)
            given = _Distribution(scores, logsumexp(scores))
        alike = [policy for policy in dict.fromkeys(policies) if policy.repetition_penalty == penalty]
        truncating = [policy for policy in alike if _is_truncating(policy)]
        found |= {policy: given.logprobs(targets, policy.temperature) for policy in alike if policy not in truncating}
        found |= zip(truncating, _truncated(given, targets, truncating), strict=True)
    # A sum of exponentials may round to less than its only term.
    return [found[policy].clamp(max=0) for policy in policies]


def _is_truncating(policy: Policy) -> bool:
    return policy.top_k is not None or policy.top_p < 1 or policy.typical_p < 1


class _Distribution:
    """Next-token scores [n, vocabulary] of which parts are asked for again and again. total: [n], log sum exp."""

    def __init__(self, scores: Tensor, total: Tensor) -> None:
        self.scores = scores
        self._totals = {1.0: wide(total).unsqueeze(1)}
        self._entropies: dict[float, Tensor] = {}

    def total(self, temperature: float) -> Tensor:
        """log sum exp of the tempered scores, [n, 1]."""
        if temperature not in self._totals:
            self._totals[temperature] = wide(logsumexp(self.scores / temperature)).unsqueeze(1)
        return self._totals[temperature]

    def entropy(self, temperature: float) -> Tensor:
        """Of the tempered distribution in nats, [n, 1]."""
        if temperature not in self._entropies:
            tempered = self.scores if temperature == 1 else self.scores / temperature
            total = self.total(temperature)
            masses = (tempered - total.to(tempered)).exp_()  # [n, vocabulary]
            mean = torch.linalg.vecdot(masses, tempered)
            if bool(mean.isnan().any()):
                # An impossible token has score -inf and adds nothing, where 0 * inf gives NaN.
                mean = torch.linalg.vecdot(masses, torch.where(tempered.isneginf(), 0, tempered))
            self._entropies[temperature] = total - wide(mean).unsqueeze(1)
        return self._entropies[temperature]

    def logprobs(self, targets: Tensor, temperature: float) -> Tensor:
        """The tempered log-probability of targets [n], [n]."""
        # Divided in the type that `total` divides them in.
        scores = self.scores.gather(1, targets.unsqueeze(1)) / temperature
        return (wide(scores) - self.total(temperature)).squeeze(1)

    def rows(self, rows: Tensor) -> "_Distribution":
        """Some of the n rows."""
        part = _Distribution(self.scores[rows], self._totals[1.0][rows].squeeze(1))
        part._totals = {temperature: total[rows] for temperature, total in self._totals.items()}
        part._entropies = {temperature: entropy[rows] for temperature, entropy in self._entropies.items()}
        return part


def _truncated(given: _Distribution, targets: Tensor, policies: Sequence[Policy]) -> list[Tensor]:
    """The log-probability of targets [n] under policies that truncate, [n] each; no more is sorted than is needed."""
    vocabulary = given.scores.shape[1]
    least = max((policy.top_k or 1 for policy in policies), default=1)
    found = [
        torch.full(targets.shape, math.nan, dtype=wide(given.scores[:0]).dtype, device=targets.device) for _ in policies
    ]
    rows = torch.arange(len(targets), device=targets.device)
    waiting = list(zip(policies, found, strict=True))
    for count in (*(head for head in _HEADS if least <= head < vocabulary), vocabulary):
        is_whole = count == vocabulary
        if not is_whole:
            values, ids = ordered(*highest(given.scores, count))
        elif not all(_is_one_filter(policy) for policy, _ in waiting):
            values, ids = most_likely(given.scores, count)
        is_settled = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
        unsettled = []
        for policy, result in waiting:
            if is_whole and _is_one_filter(policy):
                result[rows] = _within_whole(given, targets[rows], policy)
                continue
            result[rows], settles = _within_head(given, Support(ids, wide(values)), targets[rows], policy)
            if not bool(settles.all()):
                unsettled.append((policy, result))
                is_settled &= settles
        if not unsettled:
            break
        # A few rows and policies in need of a longer head: only those pay for it.
        waiting, given, rows = unsettled, given.rows((~is_settled).nonzero().squeeze(1)), rows[~is_settled]
    return found


def _is_one_filter(policy: Policy) -> bool:
    """It keeps the tokens that come first in one order, up to a mass."""
    return policy.top_k is None and (policy.top_p < 1) != (policy.typical_p < 1)


def _within_head(given: _Distribution, head: Support, targets: Tensor, policy: Policy) -> tuple[Tensor, Tensor]:
    """The targets' log-probabilities, [n], by the likeliest tokens and their scores, and where those settle it, [n].

    They do where they hold the policy's whole support, without those equal to the last, which may have equals beyond.
    For typical-p: no token beyond them is as typical as one that is taken, since all are at most as likely as the last.
    """
    ids, values = head.ids, head.logprobs
    assert ids is not None
    is_whole = torch.full((len(values),), ids.shape[1] == given.scores.shape[1], device=targets.device)
    is_sure = values > values[:, -1:]
    if policy.top_k is not None:
        is_settled = is_whole | is_sure[:, policy.top_k - 1]
        support = Support(ids[:, : policy.top_k], log_softmax(values[:, : policy.top_k] / policy.temperature))
    else:
        support = Support(ids, values / policy.temperature - given.total(policy.temperature))
        masses = support.logprobs.exp()
        is_settled = is_whole | ((masses * is_sure).sum(1) >= policy.top_p)
    if policy.top_p < 1:
        support = most_massive(support, policy.top_p)
    if policy.typical_p < 1 and policy.top_k is None and policy.top_p == 1:
        entropy = given.entropy(policy.temperature)
        beyond = -support.logprobs[:, -1:] - entropy  # [n, 1]: how untypical any further token is, at least
        nearer = (-support.logprobs - entropy).abs() < beyond
        is_settled = is_whole | ((masses * nearer).sum(1) >= policy.typical_p)
        support = most_typical(support, policy.typical_p, entropy)
    elif policy.typical_p < 1:
        support = most_typical(support, policy.typical_p)
    assert support.ids is not None
    is_target = (support.ids == targets.unsqueeze(1)) & ~support.logprobs.isneginf()
    # NaN stands for itself: it is looked for where the model answers none.
    found = support.logprobs.masked_fill(~is_target, -math.inf).amax(1)
    return torch.where(support.logprobs.isnan().any(1), math.nan, found), is_settled


def _within_whole(given: _Distribution, targets: Tensor, policy: Policy) -> Tensor:
    """The log-probability of targets [n] under a policy of one filter, [n], by the whole vocabulary without sorting it.

    Bins of nearly equal tokens are put in order, and the tokens of one bin: of that which the set's edge runs through.
    """
    logprobs = (given.scores / policy.temperature - given.total(policy.temperature)).to(given.scores)  # [n, vocabulary]
    keys = -logprobs if policy.top_p < 1 else (-logprobs - given.entropy(policy.temperature).to(logprobs)).abs()
    wanted = policy.top_p if policy.top_p < 1 else policy.typical_p
    masses = wide(logprobs.exp())
    bins = (keys / _BIN).clamp(max=_BINS - 1).nan_to_num(nan=_BINS - 1).long()
    upto = torch.zeros(len(keys), _BINS, dtype=masses.dtype, device=keys.device).scatter_add_(1, bins, masses).cumsum(1)
    edge = torch.searchsorted(upto, torch.full_like(upto[:, :1], wanted)).clamp(max=_BINS - 1)  # [n, 1]
    before = torch.where(edge > 0, upto.gather(1, (edge - 1).clamp(min=0)), 0)  # [n, 1]
    found = torch.empty(len(keys), dtype=masses.dtype, device=keys.device)
    for row, target in enumerate(targets):
        ids = (bins[row] == edge[row]).nonzero().squeeze(1)
        ids = ids[keys[row, ids].sort(stable=True).indices]
        mass = masses[row, ids].cumsum(0)
        # Up to the first token with which the mass is reached, that one included.
        taken = min(len(ids), int((before[row] + mass < wanted).sum()) + 1)
        total = before[row, 0] + mass[taken - 1]
        is_kept = bins[row, target] < edge[row, 0] or bool((ids[:taken] == target).any())
        found[row] = wide(logprobs[row, target]) - total.log() if is_kept else -math.inf
    return torch.where(given.total(policy.temperature).squeeze(1).isnan(), math.nan, found)
