"""Likely suffixes without chance: beginnings are followed by their probability under the policy, the likeliest first.

A beam search (the `width` likeliest beginnings of each prefix go on) that says what it gave up: no suffix behind a
beginning that was dropped can be likelier than that beginning. With a least probability in place of a width nothing
else is dropped, and the result is every suffix of at least that probability; there are at most 1/least of them.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.policy import Policy
from harness.engine.branches import Predictor
from harness.engine.decoding import Grown, Paths, begun, host, joined_paths, on_device, placed, prefix_groups, seen_by
from harness.engine.finite import no_number
from harness.engine.shaping import leading

_FIRST_CHILDREN = 32
"""Next tokens looked at first, and beginnings expected, where only a least probability limits how many go on."""


@dataclass(frozen=True)
class Bounds:
    """Which beginnings go on: the `width` likeliest of each prefix (None: any number), none below the log-probability
    `least` (-inf: no bound)."""

    width: int | None
    least: float


def searched_paths(
    predictor: Predictor, prefixes: Tokens, policy: Policy, bounds: Bounds, *, length: int, rows_at_once: int
) -> Paths:
    """The likeliest suffixes of `length` tokens under `policy` behind each of `prefixes` [prefixes, any].

    At most `rows_at_once` branches are alive at a time, unless a single prefix has more.
    """
    expected = bounds.width or _FIRST_CHILDREN
    groups = prefix_groups(predictor, len(prefixes), prefixes.shape[1], rows_at_once // expected)
    search = _Search(predictor, policy, bounds, length, rows_at_once)
    return joined_paths([[paths] for group in groups for paths in search.paths(prefixes[group], group.start)])


@dataclass(frozen=True)
class _Search:
    predictor: Predictor
    policy: Policy
    bounds: Bounds
    length: int
    rows_at_once: int

    def paths(self, prefixes: Tokens, first_prefix: int) -> list[Paths]:
        """The suffixes of prefixes, the first of which has the number `first_prefix`; by halves where they crowd."""
        tokens = on_device(self.predictor, prefixes)  # [prefixes, prefix length]
        rows = min(self.rows_at_once, len(prefixes) * (self.bounds.width or self.rows_at_once))
        states, branches, last_prefix_logprob = begun(self.predictor, tokens, rows=rows, room=self.length - 1)
        grown = Grown.none_of(len(prefixes), self.length)
        rank = np.arange(len(prefixes))
        dropped = np.full(len(prefixes), -np.inf)
        evaluations = 0
        for step in range(self.length):
            evaluations += len(states)
            children = self._children(states, grown, seen_by(self.policy, tokens, grown, step))
            followed, given_up = self._followed(children, grown.owner, rank, len(prefixes))
            dropped = np.fmax(dropped, given_up)
            if len(followed.parents) > self.rows_at_once and len(prefixes) > 1:
                half = len(prefixes) // 2
                return self.paths(prefixes[:half], first_prefix) + self.paths(prefixes[half:], first_prefix + half)
            # Of each row, its place by likelihood: among equals it decides at the next step, and never the row itself.
            rank = np.argsort(placed(followed.parents))
            followed = followed.part(rank)
            grown = grown.extended(
                followed.parents, step, followed.tokens, followed.token_logprob, followed.policy_logprob
            )
            if step + 1 < self.length:
                if len(grown.owner) == 0:
                    break
                states = self.predictor.advance(branches, on_device(self.predictor, followed.tokens), followed.parents)
        return [
            Paths(
                prefix=first_prefix + grown.owner,
                suffixes=grown.suffixes,
                count=np.ones(len(grown.owner), np.int64),
                token_logprobs=grown.token_logprobs,
                policy_logprob=grown.policy_logprob,
                last_prefix_logprob=last_prefix_logprob,
                dropped=dropped,
                evaluations=evaluations,
            )
        ]

    def _children(self, states: Tensor, grown: Grown, seen: Tensor | None) -> "_Children":
        """What may come next behind each branch, for each enough of the likeliest that nothing better is left out."""
        parts = []
        for logits in self.predictor.logit_blocks(states):
            rows = logits.rows
            so_far = torch.as_tensor(grown.policy_logprob[rows], device=self.predictor.device).unsqueeze(1)
            count = self.bounds.width + 1 if self.bounds.width is not None else _FIRST_CHILDREN
            while True:
                support = leading(logits.scores, self.policy, count, None if seen is None else seen[rows], logits.total)
                assert support.ids is not None
                whole = so_far + support.logprobs  # [rows, count]
                is_enough = self.bounds.width is not None or bool((whole[:, -1] < self.bounds.least).all())
                if is_enough or support.ids.shape[1] < count or count >= self.predictor.vocabulary:
                    break
                count *= 4
            parents = torch.arange(rows.start, rows.stop, device=self.predictor.device).unsqueeze(1).expand_as(whole)
            is_possible = ~torch.isneginf(whole)
            columns = (parents, support.ids, logits.logprobs(support.ids), whole)
            parts.append([column[is_possible] for column in columns])
        parent, token, token_logprob, policy_logprob = (torch.cat(column) for column in zip(*parts, strict=True))
        likelihood = host(policy_logprob)
        if np.isnan(likelihood).any():
            # At once: no bound would end a beginning whose likelihood is no number.
            raise no_number("the target answered NaN", self.predictor.dtype)
        return _Children(parent.cpu().numpy(), token.cpu().numpy(), host(token_logprob), likelihood)

    def _followed(self, children: "_Children", owner: Ints, rank: Ints, prefixes: int) -> tuple["_Children", Floats]:
        """The children that go on, by prefix and likelihood, and the best log-probability dropped, [prefixes].

        owner, rank: [branches], the prefix of each branch, and its place among all by what was decided before.
        """
        order = np.lexsort((children.tokens, rank[children.parents], -children.policy_logprob, owner[children.parents]))
        children = children.part(order)
        belongs = owner[children.parents]
        starts = np.searchsorted(belongs, np.arange(prefixes))
        goes_on = children.policy_logprob >= self.bounds.least
        if self.bounds.width is not None:
            goes_on &= np.arange(len(belongs)) - starts[belongs] < self.bounds.width
        given_up = np.full(prefixes, -np.inf)
        np.fmax.at(given_up, belongs[~goes_on], children.policy_logprob[~goes_on])
        return children.part(np.flatnonzero(goes_on)), given_up


@dataclass(frozen=True)
class _Children:
    """Branches with one token more: parents, tokens: [children] int64; the token's log-probability under the model and
    the whole branch's under the policy: [children] float64."""

    parents: Ints
    tokens: Ints
    token_logprob: Floats
    policy_logprob: Floats

    def part(self, rows: Ints) -> "_Children":
        return _Children(self.parents[rows], self.tokens[rows], self.token_logprob[rows], self.policy_logprob[rows])
