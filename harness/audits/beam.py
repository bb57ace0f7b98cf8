"""A beam search for the suffixes that a policy may draw within a number of edits or substitutions of given ones.

The search keeps a tree of partial suffixes, each with its probability and its distance to its given suffix. It follows
the likeliest ones that can still be within the allowed distance.

This module loads torch, so an audit imports it only where a model is measured.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from harness.audits.edit_distance import Distances
from harness.audits.exact import target_logprobs
from harness.core.arrays import Bools, Floats, Ints, Tokens
from harness.core.policy import Policy
from harness.engine.branches import Placement, Predictor
from harness.engine.memory import non_finite_error
from harness.engine.shaping import top_tokens
from harness.engine.target import Target
from harness.engine.tree import OnStep, assign_rows, begin_branches, prefix_groups, step_name, to_device, to_host

_HEAD = 256
"""The number of likeliest tokens to examine after each partial suffix."""


class Beam(NamedTuple):
    """The rule that decides which partial suffixes are followed.

    size: of each given suffix at a time, the likeliest first.
    min_probability: the probability below which none is followed.
    keeps_given: the given suffix itself is followed in any case.
    has_bound: the probability of what is not followed is bounded.
    """

    size: int
    min_probability: float = 0.0
    keeps_given: bool = False
    has_bound: bool = False


class PartialSuffixes(NamedTuple):
    """The partial suffixes that are followed at one step.

    owner: [n] int64, the row of the given suffix that each belongs to.
    logprob: [n] float64.
    tokens: [n, tokens so far] int64.
    distances: of each to its given suffix.
    """

    owner: Ints
    logprob: Floats
    tokens: Ints
    distances: Distances


class Continuations(NamedTuple):
    """Partial suffixes with one more token that may be within the allowed distance.

    parent: [n] int64, the partial suffix that each continues.
    token: [n] int64.
    owner, logprob, distances: as in `PartialSuffixes`.
    """

    parent: Ints
    token: Ints
    owner: Ints
    logprob: Floats
    distances: Distances

    def part(self, rows: Ints) -> "Continuations":
        """Return some of the continuations."""
        return Continuations(
            self.parent[rows], self.token[rows], self.owner[rows], self.logprob[rows], self.distances.part(rows)
        )

    def joined(self, before: PartialSuffixes) -> PartialSuffixes:
        """Return the partial suffixes that they make of those `before`."""
        tokens = np.column_stack([before.tokens[self.parent], self.token])
        return PartialSuffixes(self.owner, self.logprob, tokens, self.distances)

    def ranked(self, rows: int) -> tuple[Ints, Ints]:
        """Return the order by row, likelihood and token, and the place of each in this order within its row."""
        order = np.lexsort((self.token, self.parent, -self.logprob, self.owner))
        owner = self.owner[order]
        return order, np.arange(len(order)) - np.searchsorted(owner, np.arange(rows))[owner]


class Ending(NamedTuple):
    """The end of a search for some given suffixes, the first of which has the number `first_row`.

    last: the partial suffixes that lack their last token.
    own_logprob: [last] the log-probability that each continues with the last token of its given suffix.
    complete: their continuations by examined tokens.
    bound: [rows, limit + 1], an upper bound of the probability of the suffixes at each distance that were not followed.
    """

    first_row: int
    last: PartialSuffixes
    own_logprob: Floats
    complete: Continuations
    bound: Floats


@dataclass(frozen=True)
class BeamSearch:
    """A search under a policy.

    start: the distances of sequences without tokens.
    rows_at_once: that fit into memory.
    all_rows: the number of all given suffixes.
    """

    predictor: Predictor
    policy: Policy
    start: Distances
    beam: Beam
    rows_at_once: int
    all_rows: int
    on_step: OnStep

    def run(self, prefixes: Tokens, suffixes: Ints, first_row: int) -> list[Ending]:
        """Return the suffixes near `suffixes` [rows, length] after `prefixes` [rows, any].

        If they have too many partial suffixes for memory, the rows are split into halves.
        """
        rows, length = suffixes.shape
        tokens = to_device(self.predictor, prefixes)
        self.on_step(first_row / self.all_rows, step_name(self.all_rows, 0, length))
        states, branches, _ = begin_branches(self.predictor, tokens, room=max(1, length - 1), is_shared=True)
        alive = PartialSuffixes(
            np.arange(rows), np.zeros(rows), np.empty((rows, 0), np.int64), self.start.part(np.zeros(rows, np.int64))
        )
        bound = np.zeros((rows, self.start.limit + 1))
        for step in range(length):
            # Few partial suffixes are followed before the second token.
            share = max(0, step - 1) / max(1, length - 1)
            self.on_step((first_row + rows * share) / self.all_rows, step_name(self.all_rows, step, length))
            of_prefix = tokens[to_device(self.predictor, alive.owner)]
            own_tokens = suffixes[alive.owner, step]
            following = next_tokens(self.predictor, states, of_prefix, alive.tokens, own_tokens, self.policy.at(step))
            children = self._children(alive, following, own_tokens, suffixes)
            if step == length - 1:
                break
            is_followed = self._is_followed(children, rows)
            if self.beam.has_bound:
                rest = np.exp(alive.logprob) * following.rest
                _add_from(bound, alive.owner, alive.distances.minimum_after_unknown, rest)
                dropped = children.part(np.flatnonzero(~is_followed))
                _add_from(bound, dropped.owner, dropped.distances.minimum, np.exp(dropped.logprob))
            children = children.part(np.flatnonzero(is_followed))
            if len(children.owner) > self.rows_at_once and rows > 1:
                half = rows // 2
                return [
                    *self.run(prefixes[:half], suffixes[:half], first_row),
                    *self.run(prefixes[half:], suffixes[half:], first_row + half),
                ]
            children = children.part(np.argsort(assign_rows(children.parent)))
            alive = children.joined(alive)
            if not len(alive.owner):
                return [Ending(first_row, alive, alive.logprob, children, bound)]
            placement = Placement.of(children.parent, alive.owner, self.predictor.device)
            states = self.predictor.advance(branches, to_device(self.predictor, children.token), placement)
        return [Ending(first_row, alive, following.own_logprob, children, bound)]

    def _children(
        self, alive: PartialSuffixes, following: "NextTokens", own_tokens: Ints, suffixes: Ints
    ) -> Continuations:
        """Return the continuations that may be within the allowed distance. own_tokens: [alive]."""
        possible = np.flatnonzero(~np.isneginf(following.own_logprob))
        parents = np.concatenate([possible, following.parent])
        owner = alive.owner[parents]
        token = np.concatenate([own_tokens[possible], following.token])
        logprob = alive.logprob[parents] + np.concatenate([following.own_logprob[possible], following.logprob])
        distances = alive.distances.extended(parents, token, suffixes[owner])
        children = Continuations(parents, token, owner, logprob, distances)
        return children.part(np.flatnonzero(distances.minimum <= distances.limit))

    def _is_followed(self, children: Continuations, rows: int) -> Bools:
        """Return which children are followed, [children]: the likeliest of each row that are not too unlikely."""
        order, place = children.ranked(rows)
        is_followed = np.empty(len(order), bool)
        is_followed[order] = place < self.beam.size
        is_followed &= np.exp(children.logprob) >= self.beam.min_probability
        if self.beam.keeps_given:
            # A sequence at distance 0 is the beginning of the given one.
            is_followed |= children.distances.minimum == 0
        return is_followed


def search_suffixes(
    target: Target,
    prefixes: Tokens,
    suffixes: Tokens,
    policy: Policy,
    start: Distances,
    beam: Beam,
    read: Callable[[Ending], tuple[NDArray[Any], ...]],
    *,
    expected: int,
    minimum: int = 1,
    purpose: str,
) -> list[NDArray[Any]]:
    """Search for the suffixes near `suffixes` [rows, length] after `prefixes` [rows, any]; return what `read` returns.

    The columns of all ends are concatenated.
    expected: the usual number of partial suffixes of a row.
    minimum, purpose: as in `Target.run_within_memory`.
    Raises HarnessError as `Target.sample` does.
    """
    target.check_pairs(prefixes, suffixes)

    def search(rows_at_once: int) -> list[NDArray[Any]]:
        beam_search = BeamSearch(
            target.runner, policy, start, beam, rows_at_once, all_rows=len(prefixes), on_step=target.report_step
        )
        parts = [
            read(ending)
            for group in prefix_groups(target.runner, prefixes, rows_at_once // expected)
            for ending in beam_search.run(prefixes[group], suffixes[group].astype(np.int64), group.start)
        ]
        return [np.concatenate(column) for column in zip(*parts, strict=True)]

    return target.run_within_memory(search, minimum=minimum, purpose=purpose)


def _add_from(bound: Floats, owner: Ints, first: Ints, mass: Floats) -> None:
    """Add `mass` to the bound of every distance from `first` on, because further tokens may differ."""
    for distance in range(bound.shape[1]):
        may_reach = first <= distance
        np.add.at(bound[:, distance], owner[may_reach], mass[may_reach])


class NextTokens(NamedTuple):
    """The tokens that may follow some partial suffixes."""

    own_logprob: Floats
    """The log-probability of the given suffix's own token, [partial suffixes]."""
    parent: Ints
    """The partial suffix of each other one of the likeliest tokens, [others]."""
    token: Ints
    logprob: Floats
    rest: Floats
    """The probability of all tokens that were not examined, [partial suffixes]."""


def next_tokens(
    predictor: Predictor, states: Tensor, prefixes: Tensor, so_far: Ints, own_tokens: Ints, policy: Policy
) -> NextTokens:
    """Return the likeliest tokens under `policy` after partial suffixes and the given suffixes' own tokens.

    states: [partial suffixes, width].
    prefixes: [partial suffixes, prefix length], the prefix of each.
    so_far: [partial suffixes, tokens].
    own_tokens: [partial suffixes], those of the given suffixes.
    policy: that of this step.
    Raises HarnessError if the model returns NaN.
    """
    device = predictor.device
    targets = torch.as_tensor(own_tokens, device=device)
    parents, tokens, logprobs, own_logprobs, rest = [], [], [], [], []
    for logits in predictor.logit_blocks(states):
        rows = logits.rows
        seen = None
        if policy.repetition_penalty != 1:
            seen = torch.cat([prefixes[rows], torch.as_tensor(so_far[rows], device=device)], 1)
        (of_target,) = target_logprobs(logits, targets[rows], [policy], seen)
        support = top_tokens(logits.scores, policy, _HEAD, seen, logits.total)
        assert support.ids is not None
        is_other = support.ids != targets[rows].unsqueeze(1)
        unwanted = to_host(support.logprobs.masked_fill(~is_other, -math.inf).clamp(max=0))  # [block, head]
        of_own = to_host(of_target)
        is_whole = np.isneginf(to_host(support.logprobs[:, -1])) | (support.ids.shape[1] < _HEAD)
        rest.append(np.where(is_whole, 0, np.maximum(0, -np.expm1(np.minimum(of_own, 0)) - np.exp(unwanted).sum(1))))
        parent, column = np.nonzero(~np.isneginf(unwanted))
        parents.append(parent + rows.start)
        tokens.append(support.ids.cpu().numpy()[parent, column])
        logprobs.append(unwanted[parent, column])
        own_logprobs.append(of_own)
    own_logprob = np.concatenate(own_logprobs)
    if np.isnan(own_logprob).any():
        raise non_finite_error("the target returned NaN", predictor.dtype)
    return NextTokens(
        own_logprob, np.concatenate(parents), np.concatenate(tokens), np.concatenate(logprobs), np.concatenate(rest)
    )
