"""The common parts of sampling and search: a tree of suffixes, its random numbers, its rows and its result.

Random numbers are stateless: each one is a pure function of (seed, prefix, draw, position). So a draw does not depend
on its batch, on earlier draws or on the device.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from harness.core.arrays import Floats, Ints, Tokens, mix_bits
from harness.core.policy import Policy
from harness.engine.branches import Branches, Placement, Predictor

_PREFIX_POSITIONS = {"cpu": 1 << 13, "cuda": 1 << 17}
"""Positions of prefixes that go through the model at once."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MASK = (1 << 64) - 1
_BY_ROW = ("prefix", "suffixes", "count", "first", "token_logprobs", "policy_logprob")
OnStep = Callable[[float, str], None]
"""Takes the share of a call that is done, from 0 to 1, and the name of the last step, such as "token 20 of 50"."""


@dataclass(frozen=True)
class Paths:
    """Distinct suffixes of prefixes, in no particular order, and the cost of finding them.

    prefix: [rows] int64.
    suffixes: [rows, length] int64.
    count: [rows] int64, the number of draws that took each.
    first: [rows] int64, the first of these draws, counted from 0.
    token_logprobs: [rows, length] float64.
    policy_logprob: [rows] float64.
    last_prefix_logprob: [prefixes] float64.
    evaluations: the number of next-token distributions that the model computed.
    """

    prefix: Ints
    suffixes: Ints
    count: Ints
    first: Ints
    token_logprobs: Floats
    policy_logprob: Floats
    last_prefix_logprob: Floats
    evaluations: int

    @classmethod
    def empty(cls, length: int) -> "Paths":
        """Return no suffixes of no prefixes."""
        none, no_numbers = np.empty(0, np.int64), np.empty(0)
        return cls(
            prefix=none,
            suffixes=np.empty((0, length), np.int64),
            count=none,
            first=none,
            token_logprobs=np.empty((0, length)),
            policy_logprob=no_numbers,
            last_prefix_logprob=no_numbers,
            evaluations=0,
        )


def concatenate_paths(groups: list[list[Paths]]) -> Paths:
    """Return the paths of all prefixes, from groups of prefixes that were each processed in one or several rounds."""
    parts = [paths for turns in groups for paths in turns]
    return Paths(
        **{name: np.concatenate([getattr(paths, name) for paths in parts]) for name in _BY_ROW},
        last_prefix_logprob=np.concatenate([turns[0].last_prefix_logprob for turns in groups]),
        evaluations=sum(paths.evaluations for paths in parts),
    )


class Tree:
    """The suffixes in progress of some prefixes, as branches of a tree that grows by one token at each step.

    owner: [rows] int64, the prefix of each branch.
    policy_logprob: [rows] float64. Both are tensors on the model's device, as are the steps, from which complete
    suffixes are read at the end.
    """

    def __init__(self, prefixes: int, length: int, device: torch.device) -> None:
        """Begin with one empty branch for each prefix. length: that of a complete suffix."""
        self._length = length
        self.owner = torch.arange(prefixes, device=device)
        self.policy_logprob = torch.zeros(prefixes, dtype=torch.float64, device=device)
        self._steps: list[tuple[Tensor, Tensor, Tensor]] = []

    def grow(self, placement: Placement, tokens: Tensor, token_logprob: Tensor, policy_logprob: Tensor) -> None:
        """Append one token to each branch in its new row; all are [rows]. policy_logprob: of the whole branch."""
        self._steps.append((placement.parents, tokens, token_logprob))
        self.owner, self.policy_logprob = placement.owner, policy_logprob

    def suffixes(self) -> tuple[Tensor, Tensor]:
        """Return the tokens of each branch, [rows, steps] int64, and their log-probabilities in the same shape."""
        row = torch.arange(len(self.owner), device=self.owner.device)
        columns = []
        for parents, tokens, token_logprob in reversed(self._steps):
            columns.append((tokens[row], token_logprob[row]))
            row = parents[row]
        if not columns:
            empty = self.owner.new_empty(len(self.owner), 0)
            return empty, empty.double()
        tokens, logprobs = (torch.stack(column[::-1], dim=1) for column in zip(*columns, strict=True))
        return tokens, logprobs

    def tokens_so_far(self, policy: Policy, tokens: Tensor) -> Tensor | None:
        """Return prefix and suffix so far of each branch, [rows, prefix length + steps].

        None if the policy ignores them. tokens: the prefixes, [prefixes, prefix length].
        """
        return None if policy.repetition_penalty == 1 else torch.cat([tokens[self.owner], self.suffixes()[0]], dim=1)

    def paths(
        self, first_prefix: int, count: Ints, last_prefix_logprob: Floats, evaluations: int, first: Ints | None = None
    ) -> "Paths":
        """Return the complete branches as paths of prefixes that are numbered from `first_prefix` on.

        Without `first`, nothing was drawn.
        """
        # A search may end early with no branch at all.
        missing = (0, self._length - len(self._steps))
        suffixes, token_logprobs = (F.pad(part, missing) for part in self.suffixes())
        return Paths(
            prefix=first_prefix + self.owner.cpu().numpy(),
            suffixes=suffixes.cpu().numpy(),
            count=count,
            first=np.zeros_like(count) if first is None else first,
            token_logprobs=to_host(token_logprobs),
            policy_logprob=to_host(self.policy_logprob),
            last_prefix_logprob=last_prefix_logprob,
            evaluations=evaluations,
        )


def begin_branches(
    predictor: Predictor, tokens: Tensor, *, room: int, is_shared: bool
) -> tuple[Tensor, Branches, Floats]:
    """Return the states after prefixes [prefixes, length], their branches, and their last tokens' log-probabilities.

    The branches have room for `room` tokens each. is_shared: a prefix will have several. States are [prefixes, width].
    Log-probabilities are [prefixes], NaN for prefixes of one token.
    """
    keep = min(2, tokens.shape[1])
    states, branches = predictor.begin(tokens, room=room, keep=keep, is_shared=is_shared)  # [prefixes, keep, width]
    last_prefix_logprob = np.full(len(tokens), np.nan)
    if tokens.shape[1] > 1:
        for logits in predictor.logit_blocks(states[:, 0]):
            last_prefix_logprob[logits.rows] = to_host(logits.logprobs(tokens[logits.rows, -1:]))[:, 0]
    return states[:, -1], branches, last_prefix_logprob


def prefixes_at_once(device: torch.device, prefix_length: int) -> int:
    """Return how many prefixes go through the model at once."""
    return max(1, _PREFIX_POSITIONS.get(device.type, 1 << 13) // prefix_length)


def ignore_step(share: float, step: str) -> None:
    """Record nothing."""


def step_name(prefixes: int, step: int, length: int) -> str:
    """Return the name of a step of the suffixes after some prefixes; 0 is that of the prefixes themselves."""
    return f"{prefixes:,} prefix{'es' if prefixes > 1 else ''}, token {step:,} of {length:,}"


def prefix_groups(predictor: Predictor, prefixes: Tokens, max_prefixes: int, *, further: int = 0) -> list[slice]:
    """Split prefixes [prefixes, length] into groups of at most `max_prefixes` that go through the model at once.

    All prefixes of a group begin with the bos token, or none does. further: positions after each prefix that go through
    the model with it.
    """
    size = max(1, min(max_prefixes, prefixes_at_once(predictor.device, prefixes.shape[1] + further)))
    borders = [0, *beginning_borders(predictor, prefixes), len(prefixes)]
    return [
        slice(first + part.start, first + part.stop)
        for first, last in pairwise(borders)
        for part in split_range(last - first, size)
    ]


def beginning_borders(predictor: Predictor, prefixes: Tokens) -> list[int]:
    """Return the prefixes that do not begin as the one before: one of both, and only one, has the bos token."""
    has_bos = predictor.has_bos(prefixes)
    return (np.flatnonzero((has_bos[1:] != has_bos[:-1]).any(axis=1)) + 1).tolist()


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


def split_range(total: int, size: int) -> list[slice]:
    """Return slices of `size` from 0 to `total`. The last one may be shorter."""
    return [slice(start, min(start + size, total)) for start in range(0, total, size)]


def to_host(values: Tensor) -> Floats:
    """Return a tensor as float64 on the host."""
    return values.cpu().numpy().astype(np.float64)


def to_device(predictor: Predictor, tokens: Tokens) -> Tensor:
    """Return token ids as int64 on the model's device."""
    return torch.as_tensor(np.asarray(tokens).astype(np.int64), device=predictor.device)


def uniforms(seed: int, keys: NDArray[np.uint64], draws: ArrayLike, position: ArrayLike) -> Floats:
    """Return uniform numbers in [0, 1), float64 with 53 random bits, one for each element of the broadcast arguments.

    keys: from `prefix_keys`.
    draws, position: non-negative integers. With keys and draws [rows] and one position the result is [rows].
    """
    state = _mix(np.full(1, int(seed) & _MASK, np.uint64))
    for part in (keys, draws, position):
        state = _mix(state ^ np.asarray(part).astype(np.uint64))
    shape = np.broadcast_shapes(*(np.shape(part) for part in (keys, draws, position)))
    return ((state >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(shape)


def prefix_keys(prefixes: Tokens) -> NDArray[np.uint64]:
    """Return a hash of each prefix's tokens, [rows] uint64, which does not depend on their integer type."""
    keys = np.zeros(len(prefixes), np.uint64)
    for column in np.asarray(prefixes).astype(np.uint64).T:
        keys = _mix(keys ^ column)
    return keys


def _mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return mix_bits(state + _GOLDEN)
