"""Sampling as a tree: draws that have agreed so far share one branch, which is one row of every forward pass.

Draw d of a prefix takes at position t the token that its uniform number selects, and that number is a function of
(seed, prefix, d, t) alone. So the tree contains the same suffixes as independent draws, each once, and the prefixes
that share a pass change nothing except rounding.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.policy import Policy
from harness.engine.branches import Predictor
from harness.engine.decoding import (
    LiveBranches,
    Paths,
    assign_rows,
    begin_branches,
    concatenate_paths,
    context_tokens,
    prefix_groups,
    split_range,
    to_device,
    to_host,
)
from harness.engine.shaping import apply_policy, sample_tokens
from harness.engine.uniforms import prefix_keys, uniforms


def sample_paths(
    predictor: Predictor, prefixes: Tokens, policy: Policy, *, draws: int, seed: int, length: int, rows_at_once: int
) -> Paths:
    """Draw `draws` suffixes of `length` tokens for each of the distinct `prefixes` [prefixes, any], at least one.

    At most `rows_at_once` branches are alive at a time. A prefix with more draws is processed in several rounds, and a
    suffix that two rounds draw appears twice.
    """
    keys = prefix_keys(prefixes)
    return concatenate_paths(
        [
            [
                _sample_group(predictor, prefixes[part], part.start, keys[part], policy, turn, seed, length)
                for turn in split_range(draws, rows_at_once)
            ]
            for part in prefix_groups(predictor, len(prefixes), prefixes.shape[1], rows_at_once // draws)
        ]
    )


def _sample_group(
    predictor: Predictor,
    prefixes: Tokens,
    first_prefix: int,
    keys: NDArray[np.uint64],
    policy: Policy,
    turn: slice,
    seed: int,
    length: int,
) -> Paths:
    """Return the suffixes of the draws `turn` for prefixes, the first of which has the number `first_prefix`."""
    tokens = to_device(predictor, prefixes)  # [prefixes, prefix length]
    draws = np.arange(turn.start, turn.stop)
    most = len(prefixes) * len(draws)
    states, branches, last_prefix_logprob = begin_branches(predictor, tokens, rows=most, room=length - 1)
    uniform = uniforms(seed, keys[:, None, None], draws[:, None], np.arange(length)).reshape(-1, length)
    branch_of = np.repeat(np.arange(len(prefixes)), len(draws))  # [prefixes * draws]
    grown = LiveBranches.roots(len(prefixes), length)
    evaluations = 0
    for step in range(length):
        evaluations += len(states)
        seen = context_tokens(policy, tokens, grown, step)
        token, token_logprob, policy_logprob = _select_tokens(
            predictor, states, policy, branch_of, uniform[:, step], seen
        )
        taken, draw, child_of = np.unique(
            branch_of * predictor.vocabulary + token, return_index=True, return_inverse=True
        )
        row_of = assign_rows(taken // predictor.vocabulary)  # [children]
        draw = draw[np.argsort(row_of)]  # any draw of each row
        parents, branch_of = branch_of[draw], row_of[child_of]
        grown = grown.extend(
            parents, step, token[draw], token_logprob[draw], grown.policy_logprob[parents] + policy_logprob[draw]
        )
        if step + 1 < length:
            states = predictor.advance(branches, to_device(predictor, token[draw]), parents)
    count = np.bincount(branch_of, minlength=len(grown.owner))
    return grown.paths(first_prefix, count, last_prefix_logprob, np.full(len(prefixes), -np.inf), evaluations)


def _select_tokens(
    predictor: Predictor, states: Tensor, policy: Policy, branch_of: Ints, uniform: Floats, seen: Tensor | None
) -> tuple[Ints, Floats, Floats]:
    """Return the token that each draw takes after its branch and its log-probabilities under model and policy.

    states: [branches, width]. branch_of, uniform: [draws]. seen: [branches, any]. Returns three arrays [draws].
    """
    order = np.argsort(branch_of, kind="stable")
    counts = np.bincount(branch_of, minlength=len(states))
    ends = np.cumsum(counts)
    rank = np.arange(len(order)) - np.repeat(ends - counts, counts)
    parts = []
    for logits in predictor.logit_blocks(states):
        rows = logits.rows
        inside = slice(ends[rows.start] - counts[rows.start], ends[rows.stop - 1])
        # Each row holds the draws of one branch, [branches of the block, maximum draws of a branch], padded with zeros.
        place = (branch_of[order[inside]] - rows.start, rank[inside])
        side_by_side = np.zeros((len(logits.scores), int(counts[rows].max())))
        side_by_side[place] = uniform[order[inside]]
        support = apply_policy(logits.scores, policy, None if seen is None else seen[rows])
        token, policy_logprob = sample_tokens(support, torch.as_tensor(side_by_side, device=predictor.device))
        at = tuple(torch.as_tensor(part, device=predictor.device) for part in place)
        parts.append((token[at], logits.logprobs(token)[at], policy_logprob[at]))
    token, token_logprob, policy_logprob = (torch.cat(column) for column in zip(*parts, strict=True))
    back = np.argsort(order)
    return token.cpu().numpy()[back], to_host(token_logprob)[back], to_host(policy_logprob)[back]
