"""The common parts of sampling and search: starting branches, assigning branches to rows, and the result type."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.policy import Policy
from harness.engine.branches import Branches, Predictor

_PREFIX_POSITIONS = {"cpu": 1 << 13, "cuda": 1 << 17}
"""Positions of prefixes that go through the model at once."""
_BY_ROW = ("prefix", "suffixes", "count", "token_logprobs", "policy_logprob")


@dataclass(frozen=True)
class Paths:
    """Distinct suffixes of prefixes, in no particular order, and the cost of finding them.

    prefix: [rows] int64. suffixes: [rows, length] int64. count: [rows] int64, the number of draws that took each.
    token_logprobs: [rows, length] float64. policy_logprob: [rows] float64. last_prefix_logprob: [prefixes] float64.
    dropped: [prefixes] float64, the largest policy log-probability of a dropped partial suffix. evaluations: the number
    of next-token distributions that the model computed.
    """

    prefix: Ints
    suffixes: Ints
    count: Ints
    token_logprobs: Floats
    policy_logprob: Floats
    last_prefix_logprob: Floats
    dropped: Floats
    evaluations: int

    @classmethod
    def empty(cls, length: int) -> "Paths":
        """Return no suffixes of no prefixes."""
        none, no_numbers = np.empty(0, np.int64), np.empty(0)
        return cls(
            prefix=none,
            suffixes=np.empty((0, length), np.int64),
            count=none,
            token_logprobs=np.empty((0, length)),
            policy_logprob=no_numbers,
            last_prefix_logprob=no_numbers,
            dropped=no_numbers,
            evaluations=0,
        )


def concatenate_paths(groups: list[list[Paths]]) -> Paths:
    """Return the paths of all prefixes, from groups of prefixes that were each processed in one or several rounds."""
    parts = [paths for turns in groups for paths in turns]
    return Paths(
        **{name: np.concatenate([getattr(paths, name) for paths in parts]) for name in _BY_ROW},
        last_prefix_logprob=np.concatenate([turns[0].last_prefix_logprob for turns in groups]),
        dropped=np.concatenate([turns[0].dropped for turns in groups]),
        evaluations=sum(paths.evaluations for paths in parts),
    )


@dataclass
class LiveBranches:
    """The branches that are alive at one step, row by row.

    owner: [rows] int64, the prefix of each. suffixes: [rows, length] int64 and token_logprobs: [rows, length] float64,
    filled up to the step. policy_logprob: [rows] float64.
    """

    owner: Ints
    suffixes: Ints
    token_logprobs: Floats
    policy_logprob: Floats

    @classmethod
    def roots(cls, prefixes: int, length: int) -> "LiveBranches":
        """Return one empty branch for each prefix."""
        return cls(
            np.arange(prefixes),
            np.zeros((prefixes, length), np.int64),
            np.zeros((prefixes, length)),
            np.zeros(prefixes),
        )

    def extend(
        self, parents: Ints, step: int, tokens: Ints, token_logprobs: Floats, policy_logprob: Floats
    ) -> "LiveBranches":
        """Return the branches `parents` [rows] with one more token each.

        policy_logprob: [rows], that of the whole branch.
        """
        grown = replace(self.part(parents), policy_logprob=policy_logprob)
        grown.suffixes[:, step] = tokens
        grown.token_logprobs[:, step] = token_logprobs
        return grown

    def part(self, rows: Ints) -> "LiveBranches":
        """Return the branches `rows`, in that order."""
        return LiveBranches(self.owner[rows], self.suffixes[rows], self.token_logprobs[rows], self.policy_logprob[rows])

    def paths(
        self, first_prefix: int, count: Ints, last_prefix_logprob: Floats, dropped: Floats, evaluations: int
    ) -> Paths:
        """Return the complete branches as paths of prefixes that are numbered from `first_prefix` on."""
        return Paths(
            prefix=first_prefix + self.owner,
            suffixes=self.suffixes,
            count=count,
            token_logprobs=self.token_logprobs,
            policy_logprob=self.policy_logprob,
            last_prefix_logprob=last_prefix_logprob,
            dropped=dropped,
            evaluations=evaluations,
        )


def begin_branches(predictor: Predictor, tokens: Tensor, *, room: int) -> tuple[Tensor, Branches, Floats]:
    """Return the states after prefixes [prefixes, length], their branches, and their last tokens' log-probabilities.

    The branches have room for `room` tokens each. States are [prefixes, width]. Log-probabilities are
    [prefixes], NaN for prefixes of one token.
    """
    keep = min(2, tokens.shape[1])
    states, branches = predictor.begin(tokens, room=room, keep=keep)  # [prefixes, keep, width]
    last_prefix_logprob = np.full(len(tokens), np.nan)
    if tokens.shape[1] > 1:
        for logits in predictor.logit_blocks(states[:, 0]):
            last_prefix_logprob[logits.rows] = to_host(logits.logprobs(tokens[logits.rows, -1:]))[:, 0]
    return states[:, -1], branches, last_prefix_logprob


def most_prefixes(predictor: Predictor, prefix_length: int) -> int:
    """Return how many prefixes go through the model at once."""
    return max(1, _PREFIX_POSITIONS.get(predictor.device.type, 1 << 13) // prefix_length)


def prefix_groups(predictor: Predictor, prefixes: int, prefix_length: int, most: int) -> list[slice]:
    """Split `prefixes` into groups of at most `most` whose own positions go through the model at once."""
    return split_range(prefixes, max(1, min(most, most_prefixes(predictor, prefix_length))))


def assign_rows(parents: Ints) -> Ints:
    """Return a row for each branch, [branches], a permutation.

    The first branch of a parent keeps its row if possible. parents: [branches] int64, the rows of the parents. A branch
    in the row of its parent needs no copy of keys and values.
    """
    count = len(parents)
    _, first = np.unique(parents, return_index=True)
    stays = first[parents[first] < count]
    rows = np.full(count, -1)
    rows[stays] = parents[stays]
    is_free = np.ones(count, bool)
    is_free[rows[stays]] = False
    rows[rows < 0] = np.flatnonzero(is_free)
    return rows


def context_tokens(policy: Policy, tokens: Tensor, grown: LiveBranches, step: int) -> Tensor | None:
    """Return prefix and suffix so far of each branch, [branches, prefix length + step].

    None if the policy ignores them. tokens: the prefixes, [prefixes, prefix length].
    """
    if policy.repetition_penalty == 1:
        return None
    owner = torch.as_tensor(grown.owner, device=tokens.device)
    return torch.cat([tokens[owner], torch.as_tensor(grown.suffixes[:, :step], device=tokens.device)], dim=1)


def split_range(total: int, size: int) -> list[slice]:
    """Return slices of `size` from 0 to `total`. The last one may be shorter."""
    return [slice(start, min(start + size, total)) for start in range(0, total, size)]


def to_host(values: Tensor) -> Floats:
    """Return a tensor as float64 on the host."""
    return values.cpu().numpy().astype(np.float64)


def to_device(predictor: Predictor, tokens: Tokens) -> Tensor:
    """Return token ids as int64 on the model's device."""
    return torch.as_tensor(np.asarray(tokens).astype(np.int64), device=predictor.device)
