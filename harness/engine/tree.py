"""Sampling as a tree: draws that agree so far are one branch, one row of every pass, and part where they differ.

Draw d of a prefix takes at position t the token that its uniform number points to, and that number is a function of
(seed, prefix, d, t) alone. So the tree holds the suffixes of draws that walk one by one, each once, and which prefixes
share a pass changes nothing but rounding.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.policy import Policy
from harness.engine.branches import Predictor
from harness.engine.decoding import (
    Grown,
    Paths,
    begun,
    host,
    joined_paths,
    on_device,
    placed,
    prefix_groups,
    seen_by,
    slices,
)
from harness.engine.shaping import drawn, shaped
from harness.engine.uniforms import prefix_keys, uniforms


def sampled_paths(
    predictor: Predictor, prefixes: Tokens, policy: Policy, *, draws: int, seed: int, length: int, rows_at_once: int
) -> Paths:
    """`draws` suffixes of `length` tokens for each of the distinct `prefixes` [prefixes, any], at least one of them.

    At most `rows_at_once` branches are alive at a time: a prefix with more draws than that takes several turns, and a
    suffix that two turns draw is in both.
    """
    keys = prefix_keys(prefixes)
    return joined_paths(
        [
            [
                _tree(predictor, prefixes[part], part.start, keys[part], policy, turn, seed, length)
                for turn in slices(draws, rows_at_once)
            ]
            for part in prefix_groups(predictor, len(prefixes), prefixes.shape[1], rows_at_once // draws)
        ]
    )


def _tree(
    predictor: Predictor,
    prefixes: Tokens,
    first_prefix: int,
    keys: NDArray[np.uint64],
    policy: Policy,
    turn: slice,
    seed: int,
    length: int,
) -> Paths:
    """The suffixes that the draws of `turn` take behind prefixes, the first of which is number `first_prefix`."""
    tokens = on_device(predictor, prefixes)  # [prefixes, prefix length]
    draws = np.arange(turn.start, turn.stop)
    most = len(prefixes) * len(draws)
    states, branches, last_prefix_logprob = begun(predictor, tokens, rows=most, room=length - 1)
    uniform = uniforms(seed, keys[:, None, None], draws[:, None], np.arange(length)).reshape(-1, length)
    branch_of = np.repeat(np.arange(len(prefixes)), len(draws))  # [prefixes * draws]
    grown = Grown.none_of(len(prefixes), length)
    evaluations = 0
    for step in range(length):
        evaluations += len(states)
        seen = seen_by(policy, tokens, grown, step)
        token, token_logprob, policy_logprob = _taken(predictor, states, policy, branch_of, uniform[:, step], seen)
        taken, draw, child_of = np.unique(
            branch_of * predictor.vocabulary + token, return_index=True, return_inverse=True
        )
        row_of = placed(taken // predictor.vocabulary)  # [children]
        draw = draw[np.argsort(row_of)]  # one draw of each row
        parents, branch_of = branch_of[draw], row_of[child_of]
        grown = grown.extended(
            parents, step, token[draw], token_logprob[draw], grown.policy_logprob[parents] + policy_logprob[draw]
        )
        if step + 1 < length:
            states = predictor.advance(branches, on_device(predictor, token[draw]), parents)
    return Paths(
        prefix=first_prefix + grown.owner,
        suffixes=grown.suffixes,
        count=np.bincount(branch_of, minlength=len(grown.owner)),
        token_logprobs=grown.token_logprobs,
        policy_logprob=grown.policy_logprob,
        last_prefix_logprob=last_prefix_logprob,
        dropped=np.full(len(prefixes), -np.inf),
        evaluations=evaluations,
    )


def _taken(
    predictor: Predictor, states: Tensor, policy: Policy, branch_of: Ints, uniform: Floats, seen: Tensor | None
) -> tuple[Ints, Floats, Floats]:
    """The token that each draw takes behind its branch, and its log-probability under the model and the policy.

    states: [branches, width]; branch_of, uniform: [draws]; seen: [branches, any]. Returns three of [draws].
    """
    order = np.argsort(branch_of, kind="stable")
    counts = np.bincount(branch_of, minlength=len(states))
    ends = np.cumsum(counts)
    rank = np.arange(len(order)) - np.repeat(ends - counts, counts)
    wide = np.float32 if predictor.device.type == "mps" else np.float64
    parts = []
    for logits in predictor.logit_blocks(states):
        rows = logits.rows
        inside = slice(ends[rows.start] - counts[rows.start], ends[rows.stop - 1])
        # Draws of a branch side by side, [branches of the block, most draws of one]; the rest draw for nobody.
        place = (branch_of[order[inside]] - rows.start, rank[inside])
        side_by_side = np.zeros((len(logits.scores), int(counts[rows].max())), wide)
        side_by_side[place] = uniform[order[inside]]
        support = shaped(logits.scores, policy, None if seen is None else seen[rows])
        token, policy_logprob = drawn(support, torch.as_tensor(side_by_side, device=predictor.device))
        at = tuple(torch.as_tensor(part, device=predictor.device) for part in place)
        parts.append((token[at], logits.logprobs(token)[at], policy_logprob[at]))
    token, token_logprob, policy_logprob = (torch.cat(column) for column in zip(*parts, strict=True))
    back = np.argsort(order)
    return token.cpu().numpy()[back], host(token_logprob)[back], host(policy_logprob)[back]
