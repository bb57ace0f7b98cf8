"""Decoding step by step, for attacks that choose the tokens themselves."""

import numpy as np
import torch
from torch import Tensor

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.policy import Policy
from harness.engine.decoding import host, on_device
from harness.engine.finite import no_number
from harness.engine.shaping import leading
from harness.engine.trunk import Trunk


class Walk:
    """Branches of a few prefixes, at first one for each.

    prefixes: [prefixes, prefix length]; owner: [branches] int64, the prefix of each branch; suffixes: [branches, so
    far] int64, the tokens behind it; states: [branches, width], a tensor on the model's device, the model's last hidden
    states at the newest token (its logits where a model has no plain output embedding); prefix_states: the same for all
    tokens of the prefixes, [prefixes, prefix length, width]; length: tokens that a suffix is to have.
    """

    def __init__(self, trunk: Trunk, prefixes: Tokens, *, branches: int, length: int) -> None:
        self._trunk = trunk
        self.prefixes = prefixes
        self.length = length
        self.owner: Ints = np.arange(len(prefixes))
        self.suffixes: Ints = np.empty((len(prefixes), 0), np.int64)
        tokens = on_device(trunk, prefixes)  # [prefixes, prefix length]
        rows = len(prefixes) * branches
        self.prefix_states, self._branches = trunk.begin(tokens, rows=rows, room=length, keep=tokens.shape[1])
        self.states: Tensor = self.prefix_states[:, -1]

    def leading(self, count: int, policy: Policy | None = None) -> tuple[Ints, Floats]:
        """The `count` likeliest next tokens of each branch and their log-probabilities, both [branches, count].

        policy: whose probabilities, by default the model's own; -inf where it allows fewer tokens.
        """
        policy = policy or Policy()
        tokens, logprobs = [], []
        for logits in self._trunk.logit_blocks(self.states):
            seen = self._seen(logits.rows) if policy.repetition_penalty != 1 else None
            support = leading(logits.scores, policy, count, seen, logits.total)
            assert support.ids is not None
            tokens.append(support.ids)
            logprobs.append(support.logprobs)
        width = max(part.shape[1] for part in tokens)
        padded = [torch.nn.functional.pad(part, (0, width - part.shape[1])) for part in tokens]
        filled = [torch.nn.functional.pad(part, (0, width - part.shape[1]), value=-torch.inf) for part in logprobs]
        found = host(torch.cat(filled))
        if np.isnan(found).any():
            raise no_number("the target answered NaN", self._trunk.dtype)
        return torch.cat(padded).cpu().numpy(), found

    def advance(self, tokens: Ints, parents: Ints | None = None) -> None:
        """Append `tokens` [rows] to the branches `parents` [rows], which are the branches from now on.

        parents: by default each branch once; a branch may be named any number of times, and those unnamed end.
        """
        parents = np.arange(len(self.owner)) if parents is None else parents
        self.states = self._trunk.advance(self._branches, on_device(self._trunk, tokens), parents)
        self.owner = self.owner[parents]
        self.suffixes = np.column_stack([self.suffixes[parents], tokens])

    def select(self, rows: Ints) -> None:
        """Go on with the branches `rows` alone, in that order."""
        self._branches.select(rows)
        self.states = self.states[torch.as_tensor(rows, device=self._trunk.device)]
        self.owner, self.suffixes = self.owner[rows], self.suffixes[rows]

    def _seen(self, rows: slice) -> Tensor:
        return on_device(self._trunk, np.column_stack([self.prefixes[self.owner[rows]], self.suffixes[rows]]))
