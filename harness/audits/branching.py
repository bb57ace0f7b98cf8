"""The next tokens of partial suffixes in a search that compares them with given suffixes.

This module loads torch, so an audit imports it only where a model is measured.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from harness.audits.exact import target_logprobs
from harness.core.arrays import Floats, Ints
from harness.core.policy import Policy
from harness.engine.branches import Predictor
from harness.engine.memory import non_finite_error
from harness.engine.shaping import top_tokens
from harness.engine.tree import to_host

_HEAD = 256
"""The number of likeliest tokens to examine after each partial suffix."""


class NextTokens(NamedTuple):
    """The tokens that may follow some partial suffixes.

    own: [partial suffixes], the log-probability of the given suffix's own token. parent, token, logprob: [others], the
    partial suffix, the token and its log-probability, for each other one of the likeliest tokens. rest: [partial
    suffixes], the probability of all tokens that were not examined.
    """

    own: Floats
    parent: Ints
    token: Ints
    logprob: Floats
    rest: Floats


def next_tokens(
    predictor: Predictor, states: Tensor, prefixes: Tensor, so_far: Ints, wanted: Ints, policy: Policy
) -> NextTokens:
    """Return the likeliest tokens under `policy` after partial suffixes and the given suffixes' own tokens.

    states: [partial suffixes, width]. prefixes: [partial suffixes, prefix length], the prefix of each. so_far: [partial
    suffixes, tokens]. wanted: [partial suffixes], the own tokens. Raises HarnessError if the model returns NaN.
    """
    device = predictor.device
    targets = torch.as_tensor(wanted, device=device)
    parents, tokens, logprobs, own, rest = [], [], [], [], []
    for logits in predictor.logit_blocks(states):
        rows = logits.rows
        seen = None
        if policy.repetition_penalty != 1:
            seen = torch.cat([prefixes[rows], torch.as_tensor(so_far[rows], device=device)], 1)
        (of_target,) = target_logprobs(logits, targets[rows], [policy], seen)
        support = top_tokens(logits.scores, policy, _HEAD, seen, logits.total)
        assert support.ids is not None
        is_other = support.ids != targets[rows].unsqueeze(1)
        others = to_host(support.logprobs.masked_fill(~is_other, -math.inf).clamp(max=0))  # [block, head]
        mine = to_host(of_target)
        is_whole = np.isneginf(to_host(support.logprobs[:, -1])) | (support.ids.shape[1] < _HEAD)
        rest.append(np.where(is_whole, 0, np.maximum(0, -np.expm1(np.minimum(mine, 0)) - np.exp(others).sum(1))))
        parent, column = np.nonzero(~np.isneginf(others))
        parents.append(parent + rows.start)
        tokens.append(support.ids.cpu().numpy()[parent, column])
        logprobs.append(others[parent, column])
        own.append(mine)
    found = np.concatenate(own)
    if np.isnan(found).any():
        raise non_finite_error("the target returned NaN", predictor.dtype)
    return NextTokens(
        found, np.concatenate(parents), np.concatenate(tokens), np.concatenate(logprobs), np.concatenate(rest)
    )
