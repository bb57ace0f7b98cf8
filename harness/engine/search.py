"""Beam search for likely suffixes.

The `width` likeliest partial suffixes of each prefix are extended at each step. With a minimum probability and no
width, the result is every suffix of at least that probability; there are at most 1/least of them.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.policy import Policy
from harness.engine.branches import Placement, Predictor
from harness.engine.memory import non_finite_error
from harness.engine.shaping import top_tokens
from harness.engine.tree import (
    OnStep,
    Paths,
    Tree,
    assign_rows,
    begin_branches,
    concatenate_paths,
    prefix_groups,
    step_name,
    to_device,
    to_host,
)

_FIRST_CHILDREN = 32
"""Next tokens examined first, and partial suffixes expected per prefix, if only a minimum probability limits them."""


@dataclass(frozen=True)
class Bounds:
    """Limits of the search.

    width: how many partial suffixes of each prefix are kept, None for no limit.
    min_logprob: the log-probability below which none is kept, -inf for no limit.
    """

    width: int | None
    min_logprob: float


def search_paths(
    predictor: Predictor,
    prefixes: Tokens,
    *,
    policy: Policy,
    bounds: Bounds,
    length: int,
    rows_at_once: int,
    on_step: OnStep,
) -> Paths:
    """Return the likeliest suffixes of `length` tokens under `policy` after each of `prefixes` [prefixes, any].

    At most `rows_at_once` branches are alive at a time, unless a single prefix has more.
    """
    expected = bounds.width or _FIRST_CHILDREN
    groups = prefix_groups(predictor, prefixes, rows_at_once // expected)
    search = _Search(predictor, policy, bounds, length, rows_at_once, len(prefixes), on_step)
    return concatenate_paths([[paths] for group in groups for paths in search.paths(prefixes[group], group.start)])


@dataclass(frozen=True)
class _Search:
    predictor: Predictor
    policy: Policy
    bounds: Bounds
    length: int
    rows_at_once: int
    all_prefixes: int
    on_step: OnStep

    def paths(self, prefixes: Tokens, first_prefix: int) -> list[Paths]:
        """Return the suffixes of prefixes, the first of which has the number `first_prefix`.

        If they have more branches than fit into memory, the prefixes are split into halves.
        """
        device = self.predictor.device
        tokens = to_device(self.predictor, prefixes)  # [prefixes, prefix length]
        self._report(first_prefix, len(prefixes), 0)
        states, branches, last_prefix_logprob = begin_branches(
            self.predictor, tokens, room=self.length - 1, is_shared=self.bounds.width != 1
        )
        # Again after the pass over the prefixes, whose time says nothing about the tokens.
        self._report(first_prefix, len(prefixes), 0)
        tree = Tree(len(prefixes), self.length, device)
        owner = rank = np.arange(len(prefixes))
        evaluations = 0
        for step in range(self.length):
            evaluations += len(states)
            children = self._children(states, tree, self.policy.at(step), tree.tokens_so_far(self.policy, tokens))
            followed = self._select(children, owner, rank, len(prefixes))
            if len(followed.parents) > self.rows_at_once and len(prefixes) > 1:
                half = len(prefixes) // 2
                return self.paths(prefixes[:half], first_prefix) + self.paths(prefixes[half:], first_prefix + half)
            # The order of likelihood, and not the row, decides between equal candidates at the next step.
            rank = np.argsort(assign_rows(followed.parents))
            followed = followed.part(rank)
            owner = owner[followed.parents]
            placement = Placement.of(followed.parents, owner, device)
            columns = (followed.tokens, followed.token_logprob, followed.policy_logprob)
            tree.grow(placement, *(torch.as_tensor(column, device=device) for column in columns))
            self._report(first_prefix, len(prefixes), step + 1)
            if step + 1 < self.length:
                if len(owner) == 0:
                    break
                states = self.predictor.advance(branches, to_device(self.predictor, followed.tokens), placement)
        count = np.ones(len(owner), np.int64)
        return [tree.paths(first_prefix, count, last_prefix_logprob, evaluations)]

    def _report(self, first_prefix: int, prefixes: int, step: int) -> None:
        share = (first_prefix + prefixes * step / self.length) / self.all_prefixes
        self.on_step(share, step_name(self.all_prefixes, step, self.length))

    def _children(self, states: Tensor, tree: Tree, policy: Policy, seen: Tensor | None) -> "_Children":
        """Return the candidates for the next step: enough of the likeliest tokens that no better one is missing.

        policy: that of this step.
        """
        parts = []
        for logits in self.predictor.logit_blocks(states):
            rows = logits.rows
            so_far = tree.policy_logprob[rows].unsqueeze(1)
            count = self.bounds.width or _FIRST_CHILDREN
            while True:
                seen_here = None if seen is None else seen[rows]
                support = top_tokens(logits.scores, policy, count, seen_here, logits.total)
                assert support.ids is not None
                whole = so_far + support.logprobs  # [rows, count]
                is_enough = self.bounds.width is not None or bool((whole[:, -1] < self.bounds.min_logprob).all())
                if is_enough or support.ids.shape[1] < count or count >= self.predictor.vocabulary:
                    break
                count *= 4
            parents = torch.arange(rows.start, rows.stop, device=self.predictor.device).unsqueeze(1).expand_as(whole)
            is_possible = ~torch.isneginf(whole)
            columns = (parents, support.ids, logits.logprobs(support.ids), whole)
            parts.append([column[is_possible] for column in columns])
        parent, token, token_logprob, policy_logprob = (torch.cat(column) for column in zip(*parts, strict=True))
        likelihood = to_host(policy_logprob)
        if np.isnan(likelihood).any():
            # Raise now, because no bound ends a partial suffix whose likelihood is NaN.
            raise non_finite_error("the target returned NaN", self.predictor.dtype)
        return _Children(parent.cpu().numpy(), token.cpu().numpy(), to_host(token_logprob), likelihood)

    def _select(self, children: "_Children", owner: Ints, rank: Ints, prefixes: int) -> "_Children":
        """Return the children that are kept, by prefix and likelihood.

        owner, rank: [branches], the prefix of each branch and its place in the order of the previous step.
        """
        order = np.lexsort((children.tokens, rank[children.parents], -children.policy_logprob, owner[children.parents]))
        children = children.part(order)
        prefix_of_child = owner[children.parents]
        starts = np.searchsorted(prefix_of_child, np.arange(prefixes))
        is_kept = children.policy_logprob >= self.bounds.min_logprob
        if self.bounds.width is not None:
            is_kept &= np.arange(len(prefix_of_child)) - starts[prefix_of_child] < self.bounds.width
        return children.part(np.flatnonzero(is_kept))


@dataclass(frozen=True)
class _Children:
    """Branches with one more token.

    parents, tokens: [children] int64.
    token_logprob: [children] float64, the token's log-probability under the model.
    policy_logprob: [children] float64, the whole branch's log-probability under the policy.
    """

    parents: Ints
    tokens: Ints
    token_logprob: Floats
    policy_logprob: Floats

    def part(self, rows: Ints) -> "_Children":
        return _Children(self.parents[rows], self.tokens[rows], self.token_logprob[rows], self.policy_logprob[rows])
