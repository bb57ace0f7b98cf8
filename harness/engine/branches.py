"""Sequences in progress, many of them branches of few: what decoding walks on, whatever the model."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from harness.core.arrays import Ints


class Branches(Protocol):
    """Branches of prefixes: at first one for each prefix, and one token longer at each step."""

    def advance(self, tokens: Tensor, parents: Ints) -> Tensor:
        """Append `tokens` [rows] int64 to the branches `parents` [rows]; returns the new states, [rows, width].

        Row i then is the branch that ended in parents[i]; a parent may be named any number of times. Rows that stay in
        their place cost nothing.
        """
        ...

    def select(self, rows: Ints) -> None:
        """Go on with the branches `rows`, in that order, each as often as it is named."""
        ...


class Predictor(Protocol):
    """What decoding asks of a model, or of several views of one."""

    device: torch.device
    dtype: torch.dtype
    vocabulary: int

    def begin(self, tokens: Tensor, *, rows: int, room: int, keep: int) -> tuple[Tensor, Branches]:
        """States of the last `keep` of tokens [prefixes, length] int64, and `rows` branches of `room` more.

        States are [prefixes, keep, …]: what `logit_blocks` takes, once a token.
        """
        ...

    def advance(self, branches: Branches, tokens: Tensor, parents: Ints) -> Tensor:
        """States [rows, …] of `tokens` [rows] int64 appended to the branches `parents` [rows]."""
        ...

    def logit_blocks(self, states: Tensor) -> Iterator["Logits"]:
        """Next-token logits of states [rows, …], some rows at a time; a block may be overwritten by the next one."""
        ...


class Logits(NamedTuple):
    """Next-token logits of some rows: which, scores [some, vocabulary] float32, and log sum exp of each, [some]."""

    rows: slice
    scores: Tensor
    total: Tensor

    def logprobs(self, tokens: Tensor) -> Tensor:
        """Log-probabilities of tokens [some, any] under the model, without a softmax of them all."""
        return self.scores.gather(1, tokens) - self.total.unsqueeze(1)


class CachedBranches:
    """Branches of any model of `transformers`, each with a copy of the keys and values of its own past."""

    def __init__(self, body: "CachedBody", cache: DynamicCache, prefixes: int, shift: int) -> None:
        self._body = body
        self._cache = cache
        self._rows = prefixes
        self._shift = shift

    def advance(self, tokens: Tensor, parents: Ints) -> Tensor:
        self.select(parents)
        return self._body.states(tokens.unsqueeze(1), self._cache, keep=1, shift=self._shift)[:, 0]

    def select(self, rows: Ints) -> None:
        if len(rows) != self._rows or (rows != np.arange(len(rows))).any():
            self._cache.batch_select_indices(torch.as_tensor(rows, device=self._body.device))
            self._rows = len(rows)


class CachedBody(Protocol):
    """A body that extends a key/value cache of `transformers`."""

    device: torch.device

    def states(self, tokens: Tensor, cache: DynamicCache | None = None, *, keep: int, shift: int) -> Tensor:
        """The states of the last `keep` of tokens [rows, new], behind what `cache` holds, which is extended.

        shift: the position of the first token of all.
        """
        ...
