"""Step-by-step decoding, for attacks that choose the tokens themselves."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.policy import Policy
from harness.engine.branches import Placement
from harness.engine.memory import non_finite_error
from harness.engine.model_runner import ModelRunner
from harness.engine.shaping import top_tokens
from harness.engine.tree import to_device, to_host


class Walk:
    """Branches of a few prefixes, initially one for each.

    prefixes: [prefixes, prefix length].
    owner: [branches] int64, the prefix of each branch.
    suffixes: [branches, so far] int64, the suffix tokens of each branch.
    states: [branches, width], a tensor on the model's device: the model's last hidden states at the newest token, or
    its logits if the model has no plain output embedding.
    prefix_states: the states of all prefix tokens, [prefixes, prefix length, width].
    length: the length of a complete suffix.
    """

    def __init__(
        self, runner: ModelRunner, prefixes: Tokens, on_step: Callable[[int], None], *, branches: int, length: int
    ) -> None:
        """on_step: gets the number of tokens after each one; 0 after the prefixes."""
        self._runner, self._on_step = runner, on_step
        self.prefixes = prefixes
        self.length = length
        self.owner: Ints = np.arange(len(prefixes))
        self.suffixes: Ints = np.empty((len(prefixes), 0), np.int64)
        tokens = to_device(runner, prefixes)  # [prefixes, prefix length]
        self.prefix_states, self._branches = runner.begin(
            tokens, room=length, keep=tokens.shape[1], is_shared=branches > 1
        )
        self.states: Tensor = self.prefix_states[:, -1]
        on_step(0)

    def leading(self, count: int, policy: Policy | None = None) -> tuple[Ints, Floats]:
        """Return the `count` likeliest next tokens of each branch and their log-probabilities, both [branches, count].

        policy: the policy whose probabilities are used, by default the model's own distribution; -inf if it allows
        fewer tokens.
        """
        policy = (policy or Policy()).at(self.suffixes.shape[1])
        tokens, logprobs = [], []
        for logits in self._runner.logit_blocks(self.states):
            seen = self._seen(logits.rows) if policy.repetition_penalty != 1 else None
            support = top_tokens(logits.scores, policy, count, seen, logits.total)
            assert support.ids is not None
            tokens.append(support.ids)
            logprobs.append(support.logprobs)
        width = max(part.shape[1] for part in tokens)
        padded = [torch.nn.functional.pad(part, (0, width - part.shape[1])) for part in tokens]
        filled = [torch.nn.functional.pad(part, (0, width - part.shape[1]), value=-torch.inf) for part in logprobs]
        logprobabilities = to_host(torch.cat(filled))
        if np.isnan(logprobabilities).any():
            raise non_finite_error("the target returned NaN", self._runner.dtype)
        return torch.cat(padded).cpu().numpy(), logprobabilities

    def advance(self, tokens: Ints, parents: Ints | None = None) -> None:
        """Append `tokens` [rows] to the branches `parents` [rows], which replace the current branches.

        parents: by default each branch once. A branch may occur any number of times; branches that do not occur end.
        """
        parents = np.arange(len(self.owner)) if parents is None else parents
        self.owner = self.owner[parents]
        placement = Placement.of(parents, self.owner, self._runner.device)
        self.states = self._runner.advance(self._branches, to_device(self._runner, tokens), placement)
        self.suffixes = np.column_stack([self.suffixes[parents], tokens])
        self._on_step(self.suffixes.shape[1])

    def select(self, rows: Ints) -> None:
        """Keep only the branches `rows`, in that order."""
        self.owner, self.suffixes = self.owner[rows], self.suffixes[rows]
        placement = Placement.of(rows, self.owner, self._runner.device)
        self._branches.select(placement)
        self.states = self.states[placement.parents]

    def _seen(self, rows: slice) -> Tensor:
        return to_device(self._runner, np.column_stack([self.prefixes[self.owner[rows]], self.suffixes[rows]]))
