"""Sequences in progress, of which many branch off few prefixes: the interface between decoding and a model."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from harness.core.arrays import Ints


class Branches(Protocol):
    """Branches of prefixes: initially one for each prefix, and one token longer after each step."""

    def advance(self, tokens: Tensor, parents: Ints) -> Tensor:
        """Append `tokens` [rows] int64 to the branches `parents` [rows] and return the new states, [rows, width].

        Row i becomes the branch that was in row parents[i]. A parent may occur any number of times. Rows that keep
        their place cost nothing.
        """
        ...

    def select(self, rows: Ints) -> None:
        """Keep the branches `rows` in that order, each as often as it occurs."""
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

    def begin(self, tokens: Tensor, *, room: int, keep: int) -> tuple[Tensor, Branches]:
        """Return the states of the last `keep` of tokens [prefixes, length] int64, and branches.

        States are [prefixes, keep, …], the input of `logit_blocks`. The branches have room for `room` more
        tokens.
        """
        ...

    def advance(self, branches: Branches, tokens: Tensor, parents: Ints) -> Tensor:
        """Return the states [rows, …] of `tokens` [rows] int64 appended to the branches `parents` [rows]."""
        ...

    def logit_blocks(self, states: Tensor) -> Iterator["Logits"]:
        """Yield next-token logits of states [rows, …], some rows at a time. The next block may overwrite a block."""
        ...


class Logits(NamedTuple):
    """Next-token logits of some rows.

    rows: which rows. scores: [some, vocabulary] float32. total: [some], log sum exp of each row.
    """

    rows: slice
    scores: Tensor
    total: Tensor

    def logprobs(self, tokens: Tensor) -> Tensor:
        """Return log-probabilities of tokens [some, any] under the model, without a softmax over the vocabulary."""
        return self.scores.gather(1, tokens) - self.total.unsqueeze(1)
