"""How likely a policy draws a suffix with exactly so many tokens substituted: all of those are followed, or bounded.

A tree of beginnings, each with its probability and its number of substitutions; what is not followed can add at most
its probability. The last position needs no tree: what is not the suffix's last token is a substitution.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch

from harness.core.arrays import Bools, Floats, Ints, Tokens
from harness.core.policy import Policy
from harness.engine.branches import Predictor
from harness.engine.decoding import begun, host, on_device, placed, prefix_groups
from harness.engine.exact import target_logprobs
from harness.engine.finite import no_number
from harness.engine.shaping import drawn, leading, shaped, wide
from harness.engine.trunk import Trunk

_HEAD = 256
"""Substitutes looked at for each position of a beginning, the likeliest ones."""
_FEW = 4096
"""Beginnings of which so many at most exist are all followed."""
_EXPECTED = 64
"""Beginnings of a suffix that are expected at a time."""


@dataclass(frozen=True)
class Inexact:
    """Probabilities of suffixes with exactly 0, 1, … substitutions, and the likeliest such suffixes found.

    probability: [rows, errors + 1] float64, of what was followed; bound: the same shape, what the rest can add at most;
    row: [matches] int64, matches: [matches, length] int64, logprob: [matches] float64, those with at least one
    substitution, by row and then by probability.
    """

    probability: Floats
    bound: Floats
    row: Ints
    matches: Ints
    logprob: Floats


@dataclass(frozen=True)
class Limits:
    """errors: substitutions at most; branches: beginnings of a suffix followed at a time, the likeliest ones; least: a
    probability below which none is followed; best: matches returned of each suffix."""

    errors: int
    branches: int
    least: float
    best: int


def substituted(
    predictor: Predictor, prefixes: Tokens, suffixes: Tokens, policy: Policy, limits: Limits, *, rows_at_once: int
) -> Inexact:
    """Of suffixes [rows, length] after prefixes [rows, any], at least one row of each.

    Where top-k leaves few beginnings, all are followed whatever the limits.
    """
    if beginnings(policy, suffixes.shape[1], limits.errors) <= _FEW:
        limits = Limits(limits.errors, _FEW, 0.0, limits.best)
    groups = prefix_groups(predictor, len(prefixes), prefixes.shape[1], rows_at_once // _EXPECTED)
    tree = _Tree(predictor, policy, limits, rows_at_once)
    parts = [part for group in groups for part in tree.grown(prefixes[group], suffixes[group], group.start)]
    return Inexact(*(np.concatenate(column) for column in zip(*map(_columns, parts), strict=True)))


def beginnings(policy: Policy, length: int, errors: int) -> float:
    """Beginnings of one token less than `length` with at most `errors` substitutions; infinity without top-k."""
    if policy.top_k is None:
        return math.inf
    return sum(math.comb(length - 1, wrong) * float(policy.top_k - 1) ** wrong for wrong in range(errors + 1))


def drawn_substitutes(
    trunk: Trunk,
    prefixes: Tokens,
    suffixes: Tokens,
    positions: Ints,
    uniform: Floats,
    policy: Policy,
    *,
    rows_at_once: int,
) -> Ints:
    """A token other than the suffix's own, drawn from `policy` at each of positions [rows, draws], [rows, draws].

    uniform: [rows, draws] in [0, 1). The policy must leave another token with some probability there.
    """
    taken = np.empty(positions.shape, np.int64)
    length = suffixes.shape[1]
    if trunk.head is None:
        rows_at_once = min(rows_at_once, max(1, trunk.logit_bytes // (4 * trunk.vocabulary * length)))
    for part in prefix_groups(trunk, len(prefixes), prefixes.shape[1] + length, rows_at_once):
        whole = np.concatenate([prefixes[part], suffixes[part]], axis=1)
        tokens = on_device(trunk, whole)  # [rows, prefix length + length]
        states = trunk.states(tokens[:, :-1], keep=length)  # [rows, length, width]
        places = torch.as_tensor(positions[part], device=trunk.device)  # [rows, draws]
        rows, draws = places.shape
        of_draw = torch.arange(rows, device=trunk.device).repeat_interleave(draws)
        ends = places.reshape(-1) + prefixes.shape[1]  # [rows * draws]
        own = tokens[of_draw, ends]
        chances = torch.as_tensor(uniform[part].reshape(-1, 1)).to(trunk.device, wide(states[:0]).dtype)
        found = torch.empty_like(own)
        for logits in trunk.logit_blocks(states[of_draw, places.reshape(-1)]):
            if policy.repetition_penalty != 1:
                columns = torch.arange(tokens.shape[1], device=trunk.device)
                seen = torch.where(columns < ends[logits.rows].unsqueeze(1), columns, 0)
                support = shaped(logits.scores, policy, tokens[of_draw[logits.rows]].gather(1, seen))
            else:
                support = shaped(logits.scores, policy)
            ids = support.ids
            columns = torch.arange(support.logprobs.shape[1], device=trunk.device)
            is_own = (columns if ids is None else ids) == own[logits.rows].unsqueeze(1)
            others = type(support)(ids, support.logprobs.masked_fill(is_own, -math.inf))
            found[logits.rows] = drawn(others, chances[logits.rows])[0].squeeze(1)
        taken[part] = found.view(rows, draws).cpu().numpy()
    return taken


@dataclass
class _Beginnings:
    """Alive at one step: the suffix that each belongs to, its substitutions, its log-probability [beginnings], and its
    tokens [beginnings, so far]."""

    owner: Ints
    wrong: Ints
    logprob: Floats
    tokens: Ints


@dataclass(frozen=True)
class _Children:
    """One token longer: the beginning that each continues, the token, and as `_Beginnings`; all [children]."""

    parent: Ints
    token: Ints
    owner: Ints
    wrong: Ints
    logprob: Floats

    def part(self, rows: Ints) -> "_Children":
        return _Children(*(getattr(self, name)[rows] for name in ("parent", "token", "owner", "wrong", "logprob")))


@dataclass(frozen=True)
class _Tree:
    predictor: Predictor
    policy: Policy
    limits: Limits
    rows_at_once: int

    def grown(self, prefixes: Tokens, suffixes: Tokens, first_row: int) -> list[Inexact]:
        """What suffixes come to, the first of which has the number `first_row`; by halves where they crowd."""
        errors, length = self.limits.errors, suffixes.shape[1]
        tokens = on_device(self.predictor, prefixes)
        rows = min(self.rows_at_once, len(prefixes) * self.limits.branches)
        states, branches, _ = begun(self.predictor, tokens, rows=rows, room=max(1, length - 1))
        none = np.zeros(len(prefixes), np.int64)
        alive = _Beginnings(np.arange(len(prefixes)), none, none.astype(float), np.empty((len(prefixes), 0), np.int64))
        bound = np.zeros((len(prefixes), errors + 1))
        for step in range(length - 1):
            children, _, rest = self._children(states, alive, tokens, suffixes[:, step].astype(np.int64))
            # What stands beyond the substitutes looked at is one substitution more.
            _add_upwards(bound, alive.owner, alive.wrong + 1, rest)
            goes_on = self._goes_on(children, len(prefixes))
            dropped = children.part(np.flatnonzero(~goes_on))
            _add_upwards(bound, dropped.owner, dropped.wrong, np.exp(dropped.logprob))
            children = children.part(np.flatnonzero(goes_on))
            if len(children.parent) > self.rows_at_once and len(prefixes) > 1:
                half = len(prefixes) // 2
                return [
                    *self.grown(prefixes[:half], suffixes[:half], first_row),
                    *self.grown(prefixes[half:], suffixes[half:], first_row + half),
                ]
            children = children.part(np.argsort(placed(children.parent)))
            alive = _Beginnings(
                children.owner,
                children.wrong,
                children.logprob,
                np.column_stack([alive.tokens[children.parent], children.token]),
            )
            if len(alive.owner) == 0:
                nothing = np.empty(0, np.int64)
                return [Inexact(0 * bound, bound, nothing, np.empty((0, length), np.int64), nothing.astype(float))]
            states = self.predictor.advance(branches, on_device(self.predictor, children.token), children.parent)
        children, own, _ = self._children(states, alive, tokens, suffixes[:, -1].astype(np.int64))
        probability = np.zeros((len(prefixes), errors + 1))
        np.add.at(probability, (alive.owner, alive.wrong), np.exp(alive.logprob + own))
        may = alive.wrong < errors
        np.add.at(
            probability,
            (alive.owner[may], alive.wrong[may] + 1),
            np.exp(alive.logprob[may]) * -np.expm1(np.minimum(own[may], 0)),
        )
        best = self._best(children, len(prefixes))
        matches = np.column_stack([alive.tokens[best.parent], best.token])
        return [Inexact(probability, bound, first_row + best.owner, matches, best.logprob)]

    def _children(
        self, states: torch.Tensor, alive: _Beginnings, prefixes: torch.Tensor, wanted: Ints
    ) -> tuple[_Children, Floats, Floats]:
        """The next tokens of each beginning, the log-probability of the suffix's own, and what the head leaves out.

        wanted: [suffixes] the suffixes' own next tokens. The latter two are [beginnings]; what is left out is a
        probability, 0 where a beginning takes no substitution any more.
        """
        device = self.predictor.device
        targets = torch.as_tensor(wanted[alive.owner], device=device)
        parts, own, rest = [], [], []
        for logits in self.predictor.logit_blocks(states):
            rows = logits.rows
            seen = None
            if self.policy.repetition_penalty != 1:
                so_far = torch.as_tensor(alive.tokens[rows], device=device)
                seen = torch.cat([prefixes[torch.as_tensor(alive.owner[rows], device=device)], so_far], 1)
            (of_target,) = target_logprobs(logits, targets[rows], [self.policy], seen)
            support = leading(logits.scores, self.policy, _HEAD, seen, logits.total)
            assert support.ids is not None
            is_other = support.ids != targets[rows].unsqueeze(1)
            others = host(support.logprobs.masked_fill(~is_other, -math.inf).clamp(max=0))  # [block, head]
            mine = host(of_target)
            is_whole = np.isneginf(host(support.logprobs[:, -1])) | (support.ids.shape[1] < _HEAD)
            left = np.where(is_whole, 0, np.maximum(0, -np.expm1(np.minimum(mine, 0)) - np.exp(others).sum(1)))
            may = alive.wrong[rows] < self.limits.errors
            parent, column = np.nonzero(~np.isneginf(others) & may[:, None])
            parts.append((parent + rows.start, support.ids.cpu().numpy()[parent, column], others[parent, column]))
            own.append(mine)
            rest.append(np.where(may, np.exp(alive.logprob[rows]) * left, 0))
        own_logprob = np.concatenate(own)
        if np.isnan(own_logprob).any():
            raise no_number("the target answered NaN", self.predictor.dtype)
        parent, token, logprob = (np.concatenate(column) for column in zip(*parts, strict=True))
        exact = np.flatnonzero(~np.isneginf(own_logprob))
        parents = np.concatenate([exact, parent])
        return (
            _Children(
                parents,
                np.concatenate([wanted[alive.owner[exact]], token]),
                alive.owner[parents],
                alive.wrong[parents] + np.repeat([0, 1], [len(exact), len(parent)]),
                alive.logprob[parents] + np.concatenate([own_logprob[exact], logprob]),
            ),
            own_logprob,
            np.concatenate(rest),
        )

    def _goes_on(self, children: _Children, suffixes: int) -> Bools:
        """[children]: of each suffix the likeliest, as many as may be, and none that is too unlikely."""
        order, place = _placed_by_likelihood(children, suffixes)
        goes_on = np.empty(len(order), bool)
        goes_on[order] = place < self.limits.branches
        return np.asarray(goes_on & (np.exp(children.logprob) >= self.limits.least))

    def _best(self, children: _Children, suffixes: int) -> _Children:
        """The likeliest whole suffixes with a substitution, by suffix and likelihood."""
        inexact = children.part(np.flatnonzero(children.wrong > 0))
        order, place = _placed_by_likelihood(inexact, suffixes)
        return inexact.part(order[place < self.limits.best])


def _placed_by_likelihood(children: _Children, suffixes: int) -> tuple[Ints, Ints]:
    """The order by suffix, likelihood and token, and in it the place of each child within its suffix."""
    order = np.lexsort((children.token, children.parent, -children.logprob, children.owner))
    owner = children.owner[order]
    return order, np.arange(len(order)) - np.searchsorted(owner, np.arange(suffixes))[owner]


def _add_upwards(bound: Floats, owner: Ints, wrong: Ints, mass: Floats) -> None:
    """Add `mass` to every number of substitutions from `wrong` on: more may follow."""
    for errors in range(bound.shape[1]):
        some = wrong <= errors
        np.add.at(bound[:, errors], owner[some], mass[some])


def _columns(part: Inexact) -> tuple[Floats, Floats, Ints, Ints, Floats]:
    return part.probability, part.bound, part.row, part.matches, part.logprob
