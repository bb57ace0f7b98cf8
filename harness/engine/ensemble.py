"""One prediction from several views of each prefix, with the interface of a single model."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from harness.core.arrays import Bools, Tokens
from harness.core.policy import Combination, PrefixView
from harness.engine.branches import Branches, Logits, Placement
from harness.engine.model_runner import ModelRunner

_VOTES = (5.0, 4.0, 3.0, 2.0, 1.0)
_NATS_PER_VOTE = 100.0
"""The step between two numbers of votes, larger than any difference of mean log-probabilities that matters."""


class Ensemble:
    """A model that sees each prefix in several views and returns the combined prediction."""

    def __init__(self, runner: ModelRunner, views: Sequence[PrefixView], combination: Combination) -> None:
        self._runner = runner
        self._views = tuple(views)
        self._combination = combination
        self.views = len(self._views)
        self.device = runner.device
        self.dtype = runner.dtype
        self.vocabulary = runner.vocabulary
        self.shares_prefixes = runner.shares_prefixes
        weights = torch.tensor([view.weight for view in views], device=runner.device)
        self._weights = weights / weights.sum()
        # By the unscaled weights: a vote less must cost as much with 50 views as with one.
        self._nats = _NATS_PER_VOTE * weights

    def has_bos(self, prefixes: Tokens) -> Bools:
        """Return which prefixes [prefixes, length] begin with the bos token in each view, [prefixes, views]."""
        return np.concatenate([self._runner.has_bos(prefixes[:, view.start :]) for view in self._views], axis=1)

    def begin(self, tokens: Tensor, *, room: int, keep: int, is_shared: bool = True) -> tuple[Tensor, Branches]:
        """Return states [prefixes, keep, views, width] of the last `keep` tokens, and branches.

        tokens: [prefixes, length]. The branches have room for `room` more tokens.
        """
        begun = [
            self._runner.begin(tokens, room=room, keep=keep, view=view, is_shared=is_shared) for view in self._views
        ]
        branches = _ViewBranches(self._runner, [branches for _, branches in begun])
        return torch.stack([states for states, _ in begun], dim=2), branches

    def advance(self, branches: Branches, tokens: Tensor, placement: Placement) -> Tensor:
        """Return states [rows, views, width] of `tokens` [rows] appended to the branches in their new rows."""
        return branches.advance(tokens, placement)

    def logit_blocks(self, states: Tensor) -> Iterator[Logits]:
        """Yield the combined next-token logits of states [rows, views, width], some rows at a time."""
        if self.views == 1 and self._combination is Combination.LOGITS:
            yield from self._runner.logit_blocks(states[:, 0])
            return
        done = 0
        for block in self._runner.logit_blocks(states.flatten(0, 1), multiple=self.views):
            logprobs = block.scores - block.total.unsqueeze(1)
            combined = self._combine(logprobs.view(-1, self.views, self.vocabulary))
            yield Logits(slice(done, done + len(combined)), combined)
            done += len(combined)

    def _combine(self, logprobs: Tensor) -> Tensor:
        """Return logits [some, vocabulary] from log-probabilities [some, views, vocabulary]."""
        mean = torch.einsum("svt,v->st", logprobs, self._weights)
        if self._combination is Combination.LOGITS:
            return mean
        kept = min(len(_VOTES), self.vocabulary)
        likeliest = logprobs.topk(kept, dim=2).indices  # [some, views, kept]
        votes = torch.tensor(_VOTES[:kept], device=self.device) * self._nats.unsqueeze(1)  # [views, kept]
        # One view after the other: on a GPU the order of additions to one place would differ between calls.
        for view, places in enumerate(likeliest.unbind(dim=1)):
            mean = mean.scatter_add(1, places, votes[view].expand(len(mean), -1))
        return mean


class _ViewBranches:
    """The branches of all views, which always have the same tokens."""

    def __init__(self, runner: ModelRunner, views: list[Branches]) -> None:
        self._runner = runner
        self._views = views

    def advance(self, tokens: Tensor, placement: Placement) -> Tensor:
        return torch.stack([self._runner.advance(view, tokens, placement) for view in self._views], dim=1)

    def select(self, placement: Placement) -> None:
        for view in self._views:
            view.select(placement)
