"""Sampling as a tree: draws that have agreed so far share one branch, which is one row of every forward pass.

Draw d of a prefix takes at position t the token that its uniform number selects, and that number is a function of
(seed, prefix, d, t) alone. So the tree contains the same suffixes as independent draws, each once, and the prefixes
that share a pass change nothing except rounding.
"""

from dataclasses import dataclass

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
    most_prefixes,
    split_range,
    to_device,
    to_host,
)
from harness.engine.shaping import apply_policy, sample_tokens
from harness.engine.uniforms import prefix_keys, uniforms

_EXPECTED_SHARE = 0.55
"""The branches of a prefix at the end of a suffix relative to its draws, until some have been counted."""
_SPARED = 0.75
"""The part of the rows that a crowded group keeps, so that it does not become crowded again at the next step."""


def sample_paths(
    predictor: Predictor, prefixes: Tokens, policy: Policy, *, draws: int, seed: int, length: int, rows_at_once: int
) -> Paths:
    """Draw `draws` suffixes of `length` tokens for each of the distinct `prefixes` [prefixes, any], at least one.

    At most `rows_at_once` branches are alive at a time. Prefixes are admitted by the branches that they are expected to
    have; if a group has more, its last prefixes wait for the next group. A single prefix with more draws is processed
    in several rounds, and a suffix that two rounds draw appears twice.
    """
    sampling = _Sampling(predictor, policy, prefix_keys(prefixes), seed, length, rows_at_once)
    turns = split_range(draws, rows_at_once)
    # A shared prefix takes the memory of one more branch of its length.
    own = prefixes.shape[1] / length if predictor.shares_prefixes else 0.0
    expected: float | None = None
    groups: list[list[Paths]] = []
    first = 0
    while first < len(prefixes):
        most = expected_prefixes(rows_at_once, draws=draws, own=own, expected=expected)
        most = min(most, most_prefixes(predictor, prefixes.shape[1]))
        group = slice(first, min(first + (most if len(turns) == 1 else 1), len(prefixes)))
        parts = [sampling.paths(prefixes[group], first, turn) for turn in turns]
        groups.append([paths for paths, _ in parts])
        done = len(parts[0][0].last_prefix_logprob)
        expected = min(draws, max(1.0, max(most_rows for _, most_rows in parts) / done))
        first += done
    return concatenate_paths(groups)


def expected_prefixes(rows: int, *, draws: int, own: float, expected: float | None = None) -> int:
    """Return how many prefixes are expected to have at most `rows` branches, at least 1.

    own: the memory of a prefix itself, in rows. expected: the branches of a prefix, None if none has been counted.
    """
    branches = max(1.0, _EXPECTED_SHARE * draws) if expected is None else expected
    return max(1, int(rows / (branches + own)))


@dataclass(frozen=True)
class _Sampling:
    """The parameters of `sample_paths`. keys: [prefixes], those of all prefixes."""

    predictor: Predictor
    policy: Policy
    keys: NDArray[np.uint64]
    seed: int
    length: int
    rows_at_once: int

    def paths(self, prefixes: Tokens, first_prefix: int, turn: slice) -> tuple[Paths, int]:
        """Return the suffixes of the draws `turn` for the first prefixes or all, and the most rows at a time.

        The first prefix has the number `first_prefix`. As many are finished as have room together.
        """
        predictor, length = self.predictor, self.length
        tokens = to_device(predictor, prefixes)  # [prefixes, prefix length]
        draws = np.arange(turn.start, turn.stop)
        states, branches, last_prefix_logprob = begin_branches(predictor, tokens, room=length - 1)
        keys = self.keys[first_prefix : first_prefix + len(prefixes)]
        uniform = uniforms(self.seed, keys[:, None, None], draws[:, None], np.arange(length)).reshape(-1, length)
        branch_of = np.repeat(np.arange(len(prefixes)), len(draws))  # [prefixes * draws]
        grown = LiveBranches.roots(len(prefixes), length)
        evaluations, most_rows = 0, len(prefixes)
        for step in range(length):
            evaluations += len(states)
            seen = context_tokens(self.policy, tokens, grown, step)
            token, token_logprob, policy_logprob = _select_tokens(
                predictor, states, self.policy, branch_of, uniform[:, step], seen
            )
            child = branch_of * predictor.vocabulary + token  # [draws]
            admitted = self._admitted(child, len(draws))
            if admitted < len(prefixes):
                prefixes = prefixes[:admitted]
                kept = slice(0, admitted * len(draws))
                child, token, branch_of, uniform = child[kept], token[kept], branch_of[kept], uniform[kept]
                token_logprob, policy_logprob = token_logprob[kept], policy_logprob[kept]
            taken, draw, child_of = np.unique(child, return_index=True, return_inverse=True)
            row_of = assign_rows(taken // predictor.vocabulary)  # [children]
            draw = draw[np.argsort(row_of)]  # any draw of each row
            parents, branch_of = branch_of[draw], row_of[child_of]
            grown = grown.extend(
                parents, step, token[draw], token_logprob[draw], grown.policy_logprob[parents] + policy_logprob[draw]
            )
            most_rows = max(most_rows, len(parents))
            if step + 1 < length:
                states = predictor.advance(branches, to_device(predictor, token[draw]), parents)
        count = np.bincount(branch_of, minlength=len(grown.owner))
        dropped = np.full(len(prefixes), -np.inf)
        last_prefix_logprob = last_prefix_logprob[: len(prefixes)]
        return grown.paths(first_prefix, count, last_prefix_logprob, dropped, evaluations), most_rows

    def _admitted(self, child: Ints, draws: int) -> int:
        """Return how many prefixes, at least one, have at most `rows_at_once` different children [prefixes * draws].

        If not all do, some room is left for the next steps.
        """
        by_prefix = np.sort(child.reshape(-1, draws), axis=1)
        children = np.cumsum(1 + (np.diff(by_prefix, axis=1) != 0).sum(axis=1))
        if children[-1] <= self.rows_at_once:
            return len(children)
        return max(1, int(np.searchsorted(children, _SPARED * self.rows_at_once, side="right")))


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
