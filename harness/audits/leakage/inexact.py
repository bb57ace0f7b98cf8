"""The probability that a policy draws a suffix with a given number of substituted tokens, exactly or with a bound.

The search keeps a tree of partial suffixes, each with its probability and its number of substitutions. A partial suffix
that is not followed can add at most its probability. The last position needs no tree, because every token other than
the suffix's last one is a substitution.

This module loads torch, so the audit imports it only where a model is measured.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from harness.audits.branching import next_tokens
from harness.core.arrays import Bools, Floats, Ints, Tokens
from harness.core.policy import Policy, PrefixView
from harness.engine.branches import Placement, Predictor
from harness.engine.model_runner import ModelRunner
from harness.engine.shaping import apply_policy, sample_tokens
from harness.engine.target import Target
from harness.engine.tree import assign_rows, begin_branches, prefix_groups, to_device

_FOLLOW_ALL = 4096
"""If at most this many partial suffixes exist, all are followed."""
_EXPECTED = 64
"""The expected number of partial suffixes of a suffix at one step."""


class InexactMatches(NamedTuple):
    """Probabilities of suffixes with exactly 0, 1, … substitutions, and the likeliest such suffixes.

    probability: [rows, errors + 1] float64, of the suffixes that were followed. bound: the same shape, an upper bound
    of the probability of the others. row: [matches] int64, matches: [matches, length] int64 and logprob: [matches]
    float64 hold the matches with at least one substitution, ordered by row and then by probability.
    """

    probability: Floats
    bound: Floats
    row: Ints
    matches: Ints
    logprob: Floats


@dataclass(frozen=True)
class _Limits:
    """Limits of the search.

    errors: the maximum number of substitutions. branches: how many partial suffixes of a suffix are followed at a time,
    the likeliest first. least: the probability below which none is followed. best: the number of matches returned for
    each suffix.
    """

    errors: int
    branches: int
    least: float
    best: int


def inexact_probabilities(
    target: Target,
    prefixes: Tokens,
    suffixes: Tokens,
    policy: Policy,
    *,
    errors: int = 2,
    branches: int = 256,
    least: float = 1e-5,
    best: int = 8,
) -> InexactMatches:
    """Return how likely `policy` draws `suffixes` [rows, length] with exactly 0 … `errors` substituted tokens.

    The result is exact if top-k leaves few possibilities. Otherwise the `branches` likeliest partial suffixes of each
    suffix are followed, unless their probability is below `least`, and `bound` limits what the others can add. best:
    the maximum number of inexact matches returned for each suffix. Raises HarnessError as `Target.sample` does.
    """
    target.check_pairs(prefixes, suffixes)
    length = suffixes.shape[1]
    if len(prefixes) == 0:
        none = np.empty((0, errors + 1))
        return InexactMatches(none, none, np.empty(0, np.int64), np.empty((0, length), np.int64), np.empty(0))
    limits = _Limits(errors, branches, least, best)
    if count_partial_suffixes(policy, length, errors) <= _FOLLOW_ALL:
        limits = _Limits(errors, _FOLLOW_ALL, 0.0, best)

    def find(rows_at_once: int) -> InexactMatches:
        groups = prefix_groups(target.runner, prefixes, rows_at_once // _EXPECTED)
        tree = _Search(target.runner, policy, limits, rows_at_once)
        parts = [part for group in groups for part in tree.search(prefixes[group], suffixes[group], group.start)]
        return InexactMatches(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    return target.run_within_memory(find, purpose="the substitutions of one suffix")


def count_partial_suffixes(policy: Policy, length: int, errors: int) -> float:
    """Return the number of partial suffixes of `length` - 1 tokens with at most `errors` substitutions.

    The number is infinite if the policy has no top-k.
    """
    if policy.top_k is None:
        return math.inf
    return sum(math.comb(length - 1, wrong) * float(policy.top_k - 1) ** wrong for wrong in range(errors + 1))


def draw_substitutes(
    target: Target, prefixes: Tokens, suffixes: Tokens, positions: Ints, uniform: Floats, policy: Policy
) -> Ints:
    """Draw tokens from `policy` at `positions` [rows, draws] that differ from the suffixes' own tokens, [rows, draws].

    uniform: [rows, draws] in [0, 1), the only source of randomness. The policy must give some other token a positive
    probability there. Raises HarnessError as `Target.sample` does.
    """
    target.check_pairs(prefixes, suffixes)
    return target.run_within_memory(
        lambda rows_at_once: _draw_substitutes(
            target.runner, prefixes, suffixes, positions, uniform, policy, rows_at_once=rows_at_once
        )
    )


def _draw_substitutes(
    runner: ModelRunner,
    prefixes: Tokens,
    suffixes: Tokens,
    positions: Ints,
    uniform: Floats,
    policy: Policy,
    *,
    rows_at_once: int,
) -> Ints:
    taken = np.empty(positions.shape, np.int64)
    length = suffixes.shape[1]
    if runner.head is None:
        rows_at_once = min(rows_at_once, max(1, runner.logit_bytes // (4 * runner.vocabulary * length)))
    for part in prefix_groups(runner, prefixes, rows_at_once, further=length):
        whole = np.concatenate([prefixes[part], suffixes[part]], axis=1)
        tokens = to_device(runner, whole)  # [rows, prefix length + length]
        shown, _ = runner.shown(tokens[:, :-1], PrefixView())
        states = runner.states(shown, keep=length)  # [rows, length, width]
        places = torch.as_tensor(positions[part], device=runner.device)  # [rows, draws]
        rows, draws = places.shape
        of_draw = torch.arange(rows, device=runner.device).repeat_interleave(draws)
        ends = places.reshape(-1) + prefixes.shape[1]  # [rows * draws]
        own = tokens[of_draw, ends]
        chances = torch.as_tensor(uniform[part].reshape(-1), dtype=torch.float64, device=runner.device)
        found = torch.empty_like(own)
        for logits in runner.logit_blocks(states[of_draw, places.reshape(-1)]):
            if policy.repetition_penalty != 1:
                columns = torch.arange(tokens.shape[1], device=runner.device)
                seen = torch.where(columns < ends[logits.rows].unsqueeze(1), columns, 0)
                support = apply_policy(logits.scores, policy, tokens[of_draw[logits.rows]].gather(1, seen))
            else:
                support = apply_policy(logits.scores, policy)
            ids = support.ids
            columns = torch.arange(support.logprobs.shape[1], device=runner.device)
            is_own = (columns if ids is None else ids) == own[logits.rows].unsqueeze(1)
            others = type(support)(ids, support.logprobs.masked_fill(is_own, -math.inf))
            row = torch.arange(len(support.logprobs), device=runner.device)
            found[logits.rows], _ = sample_tokens(others, row, chances[logits.rows])
        taken[part] = found.view(rows, draws).cpu().numpy()
    return taken


@dataclass
class _PartialSuffixes:
    """The partial suffixes that are alive at one step.

    owner, wrong, logprob: [partial suffixes], the suffix that each belongs to, its substitutions and its
    log-probability. tokens: [partial suffixes, tokens so far].
    """

    owner: Ints
    wrong: Ints
    logprob: Floats
    tokens: Ints


@dataclass(frozen=True)
class _Children:
    """Partial suffixes with one more token.

    parent, token: [children], the partial suffix that each extends and the token. The other fields are those of
    `_PartialSuffixes`.
    """

    parent: Ints
    token: Ints
    owner: Ints
    wrong: Ints
    logprob: Floats

    def part(self, rows: Ints) -> "_Children":
        return _Children(*(getattr(self, name)[rows] for name in ("parent", "token", "owner", "wrong", "logprob")))


@dataclass(frozen=True)
class _Search:
    predictor: Predictor
    policy: Policy
    limits: _Limits
    rows_at_once: int

    def search(self, prefixes: Tokens, suffixes: Tokens, first_row: int) -> list[InexactMatches]:
        """Return the matches of suffixes, the first of which has the number `first_row`.

        If they have too many partial suffixes for memory, the suffixes are split into halves.
        """
        errors, length = self.limits.errors, suffixes.shape[1]
        tokens = to_device(self.predictor, prefixes)
        states, branches, _ = begin_branches(self.predictor, tokens, room=max(1, length - 1), is_shared=True)
        none = np.zeros(len(prefixes), np.int64)
        empty = np.empty((len(prefixes), 0), np.int64)
        alive = _PartialSuffixes(np.arange(len(prefixes)), none, none.astype(float), empty)
        bound = np.zeros((len(prefixes), errors + 1))
        for step in range(length - 1):
            children, _, rest = self._children(states, alive, tokens, suffixes[:, step].astype(np.int64))
            # A substitute outside the examined head adds one substitution.
            _add_from(bound, alive.owner, alive.wrong + 1, rest)
            is_kept = self._select(children, len(prefixes))
            dropped = children.part(np.flatnonzero(~is_kept))
            _add_from(bound, dropped.owner, dropped.wrong, np.exp(dropped.logprob))
            children = children.part(np.flatnonzero(is_kept))
            if len(children.parent) > self.rows_at_once and len(prefixes) > 1:
                half = len(prefixes) // 2
                return [
                    *self.search(prefixes[:half], suffixes[:half], first_row),
                    *self.search(prefixes[half:], suffixes[half:], first_row + half),
                ]
            children = children.part(np.argsort(assign_rows(children.parent)))
            alive = _PartialSuffixes(
                children.owner,
                children.wrong,
                children.logprob,
                np.column_stack([alive.tokens[children.parent], children.token]),
            )
            if len(alive.owner) == 0:
                nothing = np.empty(0, np.int64)
                return [
                    InexactMatches(0 * bound, bound, nothing, np.empty((0, length), np.int64), nothing.astype(float))
                ]
            placement = Placement.of(children.parent, children.owner, self.predictor.device)
            states = self.predictor.advance(branches, to_device(self.predictor, children.token), placement)
        children, own, _ = self._children(states, alive, tokens, suffixes[:, -1].astype(np.int64))
        probability = np.zeros((len(prefixes), errors + 1))
        np.add.at(probability, (alive.owner, alive.wrong), np.exp(alive.logprob + own))
        may_change = alive.wrong < errors
        np.add.at(
            probability,
            (alive.owner[may_change], alive.wrong[may_change] + 1),
            np.exp(alive.logprob[may_change]) * -np.expm1(np.minimum(own[may_change], 0)),
        )
        best = self._best(children, len(prefixes))
        matches = np.column_stack([alive.tokens[best.parent], best.token])
        return [InexactMatches(probability, bound, first_row + best.owner, matches, best.logprob)]

    def _children(
        self, states: torch.Tensor, alive: _PartialSuffixes, prefixes: torch.Tensor, wanted: Ints
    ) -> tuple[_Children, Floats, Floats]:
        """Return the next tokens of each partial suffix, its own token's log-probability, and the mass outside.

        wanted: [suffixes], the suffixes' own next tokens. The last two results are [partial suffixes]. The mass is the
        probability of the tokens outside the examined head, 0 if the partial suffix may have no further substitution.
        """
        of_prefix = prefixes[torch.as_tensor(alive.owner, device=prefixes.device)]
        found = next_tokens(self.predictor, states, of_prefix, alive.tokens, wanted[alive.owner], self.policy)
        may_change = alive.wrong < self.limits.errors
        changed = np.flatnonzero(may_change[found.parent])
        exact = np.flatnonzero(~np.isneginf(found.own))
        parents = np.concatenate([exact, found.parent[changed]])
        return (
            _Children(
                parents,
                np.concatenate([wanted[alive.owner[exact]], found.token[changed]]),
                alive.owner[parents],
                alive.wrong[parents] + np.repeat([0, 1], [len(exact), len(changed)]),
                alive.logprob[parents] + np.concatenate([found.own[exact], found.logprob[changed]]),
            ),
            found.own,
            np.where(may_change, np.exp(alive.logprob) * found.rest, 0),
        )

    def _select(self, children: _Children, suffixes: int) -> Bools:
        """Return which children are followed, [children]: the likeliest of each suffix that are not too unlikely."""
        order, place = _rank_by_likelihood(children, suffixes)
        is_kept = np.empty(len(order), bool)
        is_kept[order] = place < self.limits.branches
        return np.asarray(is_kept & (np.exp(children.logprob) >= self.limits.least))

    def _best(self, children: _Children, suffixes: int) -> _Children:
        """Return the likeliest complete suffixes with a substitution, ordered by suffix and likelihood."""
        inexact = children.part(np.flatnonzero(children.wrong > 0))
        order, place = _rank_by_likelihood(inexact, suffixes)
        return inexact.part(order[place < self.limits.best])


def _rank_by_likelihood(children: _Children, suffixes: int) -> tuple[Ints, Ints]:
    """Return the order by suffix, likelihood and token, and the place of each child in this order within its suffix."""
    order = np.lexsort((children.token, children.parent, -children.logprob, children.owner))
    owner = children.owner[order]
    return order, np.arange(len(order)) - np.searchsorted(owner, np.arange(suffixes))[owner]


def _add_from(bound: Floats, owner: Ints, wrong: Ints, mass: Floats) -> None:
    """Add `mass` to the bound of every number of substitutions from `wrong` on, because more may follow."""
    for errors in range(bound.shape[1]):
        some = wrong <= errors
        np.add.at(bound[:, errors], owner[some], mass[some])
