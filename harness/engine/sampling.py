"""Sampling as a tree: draws that have agreed so far share one branch, which is one row of every forward pass.

Draw d of a prefix takes at position t the token that its uniform number selects, and that number is a function of
(seed, prefix, d, t) alone. So the tree contains the same suffixes as independent draws, each once, and the prefixes
that share a pass change nothing except rounding.

Draws and branches are tensors on the model's device. The host reads three numbers at each step.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harness.core.arrays import Tokens
from harness.core.policy import Policy
from harness.engine.branches import Placement, Predictor
from harness.engine.shaping import apply_policy, sample_tokens
from harness.engine.tree import (
    OnStep,
    Paths,
    Tree,
    begin_branches,
    beginning_borders,
    concatenate_paths,
    prefix_keys,
    prefixes_at_once,
    split_range,
    step_name,
    to_device,
    uniforms,
)

_EXPECTED_SHARE = 0.55
"""The branches of a prefix at the end of a suffix relative to its draws, until some have been counted."""
_SPARED = 0.75
"""The part of the rows that a crowded group keeps, so that it does not become crowded again at the next step."""


def sample_paths(
    predictor: Predictor,
    prefixes: Tokens,
    *,
    policy: Policy,
    draws: int,
    seed: int,
    length: int,
    rows_at_once: int,
    on_step: OnStep,
) -> Paths:
    """Draw `draws` suffixes of `length` tokens for each of the distinct `prefixes` [prefixes, any], at least one.

    At most `rows_at_once` branches are alive at a time. Prefixes are admitted by the branches that they are expected to
    have; if a group has more, its last prefixes wait for the next group. A single prefix with more draws is processed
    in several rounds, and a suffix that two rounds draw appears twice.
    """
    sampling = _Sampling(predictor, policy, prefix_keys(prefixes), seed, draws, length, rows_at_once, on_step)
    turns = split_range(draws, rows_at_once)
    # A shared prefix takes the memory of one more branch of its length.
    prefix_rows = prefixes.shape[1] / length if predictor.shares_prefixes else 0.0
    expected: float | None = None
    groups: list[list[Paths]] = []
    borders = [*beginning_borders(predictor, prefixes), len(prefixes)]
    first = 0
    while first < len(prefixes):
        size = expected_prefixes(rows_at_once, draws=draws, prefix_rows=prefix_rows, expected=expected)
        size = min(size, prefixes_at_once(predictor.device, prefixes.shape[1]))
        border = next(border for border in borders if border > first)
        group = slice(first, min(first + (size if len(turns) == 1 else 1), border))
        parts = [sampling.paths(prefixes[group], first, turn) for turn in turns]
        groups.append([paths for paths, _ in parts])
        done = len(parts[0][0].last_prefix_logprob)
        expected = min(draws, max(1.0, max(max_rows for _, max_rows in parts) / done))
        first += done
    return concatenate_paths(groups)


def expected_prefixes(rows: int, *, draws: int, prefix_rows: float, expected: float | None = None) -> int:
    """Return how many prefixes are expected to have at most `rows` branches, at least 1.

    prefix_rows: the memory of a prefix itself, in rows.
    expected: the branches of a prefix, None if none has been counted.
    """
    branches = max(1.0, _EXPECTED_SHARE * draws) if expected is None else expected
    return max(1, int(rows / (branches + prefix_rows)))


@dataclass(frozen=True)
class _Sampling:
    """The parameters of `sample_paths`. keys: [prefixes], those of all prefixes."""

    predictor: Predictor
    policy: Policy
    keys: NDArray[np.uint64]
    seed: int
    draws: int
    length: int
    rows_at_once: int
    on_step: OnStep

    def paths(self, prefixes: Tokens, first_prefix: int, turn: slice) -> tuple[Paths, int]:
        """Return the suffixes of the draws `turn` for the first prefixes or all, and the maximum of rows at a time.

        The first prefix has the number `first_prefix`. As many are finished as have room together.
        """
        predictor, length, admitted = self.predictor, self.length, len(prefixes)
        numbers = np.arange(turn.start, turn.stop)
        draws = len(numbers)
        tokens = to_device(predictor, prefixes)  # [prefixes, prefix length]
        self._report(first_prefix, admitted, turn.start, 0)
        states, branches, last_prefix_logprob = begin_branches(predictor, tokens, room=length - 1, is_shared=draws > 1)
        keys = self.keys[first_prefix : first_prefix + admitted]
        uniform = torch.as_tensor(
            uniforms(self.seed, keys[:, None, None], numbers[:, None], np.arange(length)).reshape(-1, length),
            device=predictor.device,
        )
        branch_of = torch.arange(admitted * draws, device=predictor.device) // draws  # [prefixes * draws]
        # Again after the pass over the prefixes, whose time says nothing about the tokens.
        self._report(first_prefix, admitted, turn.start, 0)
        alone = Placement(branch_of, branch_of, branch_of[:0], max_branches=1)
        tree = Tree(admitted, length, predictor.device)
        evaluations, max_rows = 0, admitted
        for step in range(length):
            evaluations += len(states)
            token, token_logprob, policy_logprob = select_tokens(
                predictor,
                states,
                branch_of,
                uniform[: len(branch_of), step],
                self.policy.at(step),
                tree.tokens_so_far(self.policy, tokens),
            )
            if draws == 1:
                placement, draw, child = alone, branch_of, branch_of
            else:
                placement, draw, child = place_children(branch_of, token, tree.owner, admitted, predictor.vocabulary)
            if len(placement) > self.rows_at_once and admitted > 1:
                admitted = self._count_admitted(placement, admitted)
                branch_of, token = branch_of[: admitted * draws], token[: admitted * draws]
                placement, draw, child = place_children(branch_of, token, tree.owner, admitted, predictor.vocabulary)
            branch_of = child
            max_rows = max(max_rows, len(placement))
            whole = tree.policy_logprob[placement.parents] + policy_logprob[draw]
            tree.grow(placement, token[draw], token_logprob[draw], whole)
            self._report(first_prefix, admitted, turn.start + len(numbers) * (step + 1) / length, step + 1)
            if step + 1 < length:
                states = predictor.advance(branches, token[draw], placement)
        count = torch.zeros_like(tree.owner).scatter_add_(0, branch_of, torch.ones_like(branch_of)).cpu().numpy()
        drawn = turn.start + torch.arange(len(branch_of), device=predictor.device) % draws
        first = torch.full_like(tree.owner, self.draws).scatter_reduce_(0, branch_of, drawn, "amin").cpu().numpy()
        return tree.paths(first_prefix, count, last_prefix_logprob[:admitted], evaluations, first), max_rows

    def _report(self, first_prefix: int, prefixes: int, draws: float, step: int) -> None:
        """Report that so many draws of some prefixes are done, after so many tokens."""
        share = (first_prefix + prefixes * draws / self.draws) / len(self.keys)
        self.on_step(share, step_name(len(self.keys), step, self.length))

    def _count_admitted(self, placement: Placement, prefixes: int) -> int:
        """Return how many of the prefixes, at least one, have children that leave some room for the next steps."""
        children = np.bincount(placement.owner.cpu().numpy(), minlength=prefixes).cumsum()
        return max(1, int(np.searchsorted(children, _SPARED * self.rows_at_once, side="right")))


def select_tokens(
    predictor: Predictor, states: Tensor, branch_of: Tensor, uniform: Tensor, policy: Policy, seen: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the token that each draw takes after its branch and its log-probabilities under model and policy.

    states: [branches, width].
    branch_of, uniform: [draws].
    policy: that of this step.
    seen: [branches, any].
    Returns three tensors [draws].
    """
    token = torch.empty_like(branch_of)
    token_logprob = torch.empty(len(token), device=token.device)
    policy_logprob = torch.empty_like(uniform)
    for logits in predictor.logit_blocks(states):
        rows = logits.rows
        support = apply_policy(logits.scores, policy, None if seen is None else seen[rows])
        # One block holds all draws, so the host need not know where the draws of a block are.
        block_draws: Tensor | slice = slice(None)
        if len(logits.scores) < len(states):
            block_draws = ((branch_of >= rows.start) & (branch_of < rows.stop)).nonzero().squeeze(1)
        branch = branch_of[block_draws] - rows.start
        taken, logprob = sample_tokens(support, branch, uniform[block_draws])
        policy_logprob[block_draws] = logprob.to(policy_logprob.dtype)
        token[block_draws], token_logprob[block_draws] = taken, logits.scores[branch, taken] - logits.total[branch]
    return token, token_logprob, policy_logprob


def place_children(
    branch_of: Tensor, token: Tensor, owner: Tensor, prefixes: int, vocabulary: int
) -> tuple[Placement, Tensor, Tensor]:
    """Merge draws that took the same token after the same branch, and give each child a row.

    branch_of, token: [draws].
    owner: [branches]. The first child of a branch keeps its row if possible, because its keys and values then stay
    where they are.
    Returns the placement of the children, some draw of each, and the child of each draw, [draws]. Three numbers are
    read from the device, at once.
    """
    key, order = (branch_of * vocabulary + token).sort(stable=True)
    draws = torch.arange(len(key), device=key.device)
    child = (key[1:] != key[:-1]).long().cumsum(0)
    child = torch.cat([child.new_zeros(1), child])  # [draws], of the sorted draws
    first = torch.searchsorted(child, draws)  # [draws], the first draw of each child, then len(draws)
    count = child[-1] + 1
    is_child = draws < count
    parent = branch_of[order[first.clamp(max=len(key) - 1)]]
    is_first = torch.cat([is_child[:1], parent[1:] != parent[:-1]])
    stays = is_child & is_first & (parent < count)
    moves = is_child & ~stays
    # Free rows in ascending order go to the children that move. The last place takes what is not needed.
    last = len(key)
    is_free = torch.ones(last + 1, dtype=torch.bool, device=key.device)
    is_free.scatter_(0, torch.where(stays, parent, last), False)
    is_free[last] = False
    free = draws.new_zeros(last + 1).scatter_(0, torch.where(is_free[:last], is_free[:last].cumsum(0) - 1, last), draws)
    move = moves.cumsum(0)
    row = torch.where(stays, parent, free[(move - 1).clamp(min=0)])
    branches = torch.zeros(prefixes + 1, dtype=torch.long, device=key.device)
    branches.scatter_add_(0, torch.where(is_child, owner[parent], prefixes), is_child.long())
    rows, moved, max_branches = torch.stack([count, move[-1], branches.max()]).tolist()
    by_child = torch.empty(rows, dtype=torch.long, device=key.device).scatter_(0, row[:rows], draws[:rows])
    parents = parent[by_child]
    moving = torch.searchsorted(move, torch.arange(1, moved + 1, device=key.device))
    placement = Placement(parents, owner[parents], row[moving], max_branches)
    return placement, order[first[by_child]], torch.empty_like(order).scatter_(0, order, row[child])
