"""Sequences in progress, of which many branch off few prefixes: the interface between decoding and a model."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from harness.core.arrays import Bools, Ints, Tokens
from harness.engine.shaping import logsumexp


@dataclass(frozen=True)
class Placement:
    """The branches of one step, row by row: where each comes from. All tensors are int64 on the model's device.

    parents: [rows], the row that each branch had at the step before.
    owner: [rows], the prefix of each.
    moved: [moves], the rows whose branch was in another row before.
    max_branches: the largest number of branches of one prefix.
    """

    parents: Tensor
    owner: Tensor
    moved: Tensor
    max_branches: int

    @classmethod
    def of(cls, parents: Ints, owner: Ints, device: torch.device) -> "Placement":
        """Return the placement of branches whose parents and prefixes [rows] are known on the host."""
        moved = np.flatnonzero(parents != np.arange(len(parents)))
        max_branches = int(np.bincount(owner).max()) if len(owner) else 0
        on_device = [torch.as_tensor(part, device=device) for part in (parents, owner, moved)]
        return cls(on_device[0], on_device[1], on_device[2], max_branches)

    def __len__(self) -> int:
        return len(self.parents)


class Branches(Protocol):
    """Branches of prefixes: initially one for each prefix, and one token longer after each step."""

    def advance(self, tokens: Tensor, placement: Placement) -> Tensor:
        """Append `tokens` [rows] int64 to the branches in their new rows and return the new states, [rows, width].

        Row i becomes the branch that was in row parents[i]. A parent may occur any number of times. Rows that keep
        their place cost nothing.
        """
        ...

    def select(self, placement: Placement) -> None:
        """Give the branches their new rows, each as often as it occurs."""
        ...


class Predictor(Protocol):
    """The operations that decoding needs from a model, or from several views of one."""

    device: torch.device
    dtype: torch.dtype
    vocabulary: int

    @property
    def shares_prefixes(self) -> bool:
        """True if the keys and values of a prefix are stored once for all its branches."""
        ...

    def has_bos(self, prefixes: Tokens) -> Bools:
        """Return which prefixes [prefixes, length] begin with the bos token in each view, [prefixes, views]."""
        ...

    def begin(self, tokens: Tensor, *, room: int, keep: int, is_shared: bool = True) -> tuple[Tensor, Branches]:
        """Return the states of the last `keep` of tokens [prefixes, length] int64, and branches.

        States are [prefixes, keep, …], the input of `logit_blocks`. The branches have room for `room` more tokens.
        is_shared: a prefix will have several branches.
        """
        ...

    def advance(self, branches: Branches, tokens: Tensor, placement: Placement) -> Tensor:
        """Return the states [rows, …] of `tokens` [rows] int64 appended to the branches in their new rows."""
        ...

    def logit_blocks(self, states: Tensor) -> Iterator["Logits"]:
        """Yield next-token logits of states [rows, …], some rows at a time. The next block may overwrite a block."""
        ...


@dataclass(frozen=True)
class Logits:
    """Next-token logits of some rows.

    rows: which rows.
    scores: [some, vocabulary] float32.
    """

    rows: slice
    scores: Tensor

    @cached_property
    def total(self) -> Tensor:
        """Log sum exp of each row, [some]."""
        return logsumexp(self.scores)

    def logprobs(self, tokens: Tensor) -> Tensor:
        """Return log-probabilities of tokens [some, any] under the model, without a softmax over the vocabulary."""
        return self.scores.gather(1, tokens) - self.total.unsqueeze(1)
