"""One prediction from several views of each prefix: what decoding walks on in place of the model itself."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from harness.core.arrays import Ints
from harness.core.view import Combination, PrefixView
from harness.engine.branches import Branches, Logits
from harness.engine.selection import logsumexp
from harness.engine.trunk import Trunk

_VOTES = (5.0, 4.0, 3.0, 2.0, 1.0)
_A_VOTE = 1e3
"""Nats between a token and one with a vote less: more than log-probabilities differ among those that matter."""


class Ensemble:
    """A model that is shown each prefix in several views, and that answers what they say together."""

    def __init__(self, trunk: Trunk, views: Sequence[PrefixView], combination: Combination) -> None:
        self._trunk = trunk
        self._views = tuple(views)
        self._combination = combination
        self.views = len(self._views)
        self.device = trunk.device
        self.dtype = trunk.dtype
        self.vocabulary = trunk.vocabulary
        weights = torch.tensor([view.weight for view in views], device=trunk.device)
        self._weights = weights / weights.sum()

    def begin(self, tokens: Tensor, *, rows: int, room: int, keep: int) -> tuple[Tensor, Branches]:
        """States [prefixes, keep, views, width] of the last `keep` of tokens [prefixes, length], and branches."""
        begun = [self._trunk.begin(tokens, rows=rows, room=room, keep=keep, view=view) for view in self._views]
        return torch.stack([states for states, _ in begun], dim=2), _SideBySide([branches for _, branches in begun])

    def advance(self, branches: Branches, tokens: Tensor, parents: Ints) -> Tensor:
        """States [rows, views, width] of `tokens` [rows] appended to the branches `parents` [rows]."""
        assert isinstance(branches, _SideBySide)
        return torch.stack([self._trunk.advance(each, tokens, parents) for each in branches.views], dim=1)

    def logit_blocks(self, states: Tensor) -> Iterator[Logits]:
        """The combined next-token logits of states [rows, views, width], some rows at a time."""
        if self.views == 1 and self._combination is Combination.LOGITS:
            yield from self._trunk.logit_blocks(states[:, 0])
            return
        done = 0
        for block in self._trunk.logit_blocks(states.flatten(0, 1), multiple=self.views):
            logprobs = block.scores - block.total.unsqueeze(1)
            combined = self._combined(logprobs.view(-1, self.views, self.vocabulary))
            yield Logits(slice(done, done + len(combined)), combined, logsumexp(combined))
            done += len(combined)

    def _combined(self, logprobs: Tensor) -> Tensor:
        """Logits [some, vocabulary] from log-probabilities [some, views, vocabulary]."""
        mean = torch.einsum("svt,v->st", logprobs, self._weights)
        if self._combination is Combination.LOGITS:
            return mean
        kept = min(len(_VOTES), self.vocabulary)
        favourites = logprobs.topk(kept, dim=2).indices  # [some, views, kept]
        votes = torch.tensor(_VOTES[:kept], device=self.device) * self._weights.unsqueeze(1)  # [views, kept]
        places = favourites.flatten(1)
        return mean.scatter_add(1, places, _A_VOTE * votes.flatten().expand(len(mean), -1))


class _SideBySide:
    """The branches of each view, which grow alike."""

    def __init__(self, views: list[Branches]) -> None:
        self.views = views

    def advance(self, tokens: Tensor, parents: Ints) -> Tensor:
        return torch.stack([view.advance(tokens, parents) for view in self.views], dim=1)

    def select(self, rows: Ints) -> None:
        for view in self.views:
            view.select(rows)
