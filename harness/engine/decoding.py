"""What sampling and searching share: where prefixes begin, which row a branch goes to, and what both return."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.policy import Policy
from harness.engine.branches import Branches, Predictor

_PREFIX_POSITIONS = {"cpu": 1 << 13, "cuda": 1 << 17}
"""Positions of prefixes that go through the model at once."""


@dataclass(frozen=True)
class Paths:
    """Distinct suffixes of prefixes, in no particular order, and what it took to find them.

    prefix: [rows] int64; suffixes: [rows, length] int64; count: [rows] int64, the draws that took each; token_logprobs:
    [rows, length] float64; policy_logprob: [rows] float64; last_prefix_logprob, dropped: [prefixes] float64, the latter
    the largest policy log-probability of a beginning that was not followed; evaluations: next-token distributions
    that were asked of the model.
    """

    prefix: Ints
    suffixes: Ints
    count: Ints
    token_logprobs: Floats
    policy_logprob: Floats
    last_prefix_logprob: Floats
    dropped: Floats
    evaluations: int


def joined_paths(groups: list[list[Paths]]) -> Paths:
    """The paths of all prefixes, from groups of prefixes that each took one turn or several."""
    parts = [paths for turns in groups for paths in turns]
    return Paths(
        prefix=np.concatenate([paths.prefix for paths in parts]),
        suffixes=np.concatenate([paths.suffixes for paths in parts]),
        count=np.concatenate([paths.count for paths in parts]),
        token_logprobs=np.concatenate([paths.token_logprobs for paths in parts]),
        policy_logprob=np.concatenate([paths.policy_logprob for paths in parts]),
        last_prefix_logprob=np.concatenate([turns[0].last_prefix_logprob for turns in groups]),
        dropped=np.concatenate([turns[0].dropped for turns in groups]),
        evaluations=sum(paths.evaluations for paths in parts),
    )


@dataclass
class Grown:
    """The branches that are alive at one step, row by row; `extended` gives those of the next.

    owner: [rows] int64, the prefix of each; suffixes: [rows, length] int64 and token_logprobs: [rows, length] float64,
    filled up to the step; policy_logprob: [rows] float64.
    """

    owner: Ints
    suffixes: Ints
    token_logprobs: Floats
    policy_logprob: Floats

    @classmethod
    def none_of(cls, prefixes: int, length: int) -> "Grown":
        """One empty branch for each prefix."""
        return cls(
            np.arange(prefixes),
            np.zeros((prefixes, length), np.int64),
            np.zeros((prefixes, length)),
            np.zeros(prefixes),
        )

    def extended(
        self, parents: Ints, step: int, tokens: Ints, token_logprobs: Floats, policy_logprob: Floats
    ) -> "Grown":
        """The branches `parents` [rows] with one token more each; policy_logprob is that of the whole branch."""
        grown = Grown(self.owner[parents], self.suffixes[parents], self.token_logprobs[parents], policy_logprob)
        grown.suffixes[:, step] = tokens
        grown.token_logprobs[:, step] = token_logprobs
        return grown


def begun(predictor: Predictor, tokens: Tensor, *, rows: int, room: int) -> tuple[Tensor, Branches, Floats]:
    """The states behind prefixes [prefixes, length], their branches, and the log-probability of each's last token.

    There is place for `rows` branches of `room` tokens. States are [prefixes, width]; log-probabilities are NaN for
    prefixes of one token.
    """
    keep = min(2, tokens.shape[1])
    states, branches = predictor.begin(tokens, rows=rows, room=room, keep=keep)  # [prefixes, keep, width]
    last_prefix_logprob = np.full(len(tokens), np.nan)
    if tokens.shape[1] > 1:
        for logits in predictor.logit_blocks(states[:, 0]):
            last_prefix_logprob[logits.rows] = host(logits.logprobs(tokens[logits.rows, -1:]))[:, 0]
    return states[:, -1], branches, last_prefix_logprob


def prefix_groups(predictor: Predictor, prefixes: int, prefix_length: int, most: int) -> list[slice]:
    """All `prefixes`, in groups of at most `most` whose own positions go through the model at once."""
    positions = _PREFIX_POSITIONS.get(predictor.device.type, 1 << 13)
    return slices(prefixes, max(1, min(most, positions // prefix_length)))


def placed(parents: Ints) -> Ints:
    """A row for each branch, [branches], a permutation: the first branch of a parent takes its row where it can.

    parents: [branches] int64, the rows of the parents. A branch in its parent's row has nothing to copy.
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


def seen_by(policy: Policy, tokens: Tensor, grown: Grown, step: int) -> Tensor | None:
    """Prefix and suffix so far of each branch, [branches, prefix length + step]; None if the policy does not ask.

    tokens: the prefixes, [prefixes, prefix length].
    """
    if policy.repetition_penalty == 1:
        return None
    owner = torch.as_tensor(grown.owner, device=tokens.device)
    return torch.cat([tokens[owner], torch.as_tensor(grown.suffixes[:, :step], device=tokens.device)], dim=1)


def slices(total: int, size: int) -> list[slice]:
    """0 to total in slices of `size`, the last one shorter."""
    return [slice(start, min(start + size, total)) for start in range(0, total, size)]


def host(values: Tensor) -> Floats:
    """A tensor as float64 on the host."""
    return values.cpu().numpy().astype(np.float64)


def on_device(predictor: Predictor, tokens: Tokens) -> Tensor:
    """Token ids as int64 on the model's device."""
    return torch.as_tensor(np.asarray(tokens).astype(np.int64), device=predictor.device)
