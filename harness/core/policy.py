"""A decoding policy, and views of a prefix. This module contains only the definitions; `harness.engine` applies them.

A policy says which tokens a model may emit at a step, and with what renormalised probability. A view says which part of
a prefix the model sees, at which positions, and behind which soft prompt.
"""

from dataclasses import dataclass
from enum import Enum

from pydantic import BaseModel, Field

from harness.core.arrays import Floats


class Policy(BaseModel, frozen=True, extra="forbid"):
    """The modification of a next-token distribution before a token is drawn.

    Applied in this order: repetition penalty (over prefix and suffix, Keskar et al. 2019, as in Hugging Face),
    temperature, top-k, top-p (the smallest set of most likely tokens whose mass is at least p, Holtzman et al. 2020),
    typical-p (Meister et al. 2023). These do nothing: top_k = None, and 1 for each of the others. With `decay_tokens`,
    the temperature changes linearly to 1 over that many suffix tokens (Carlini et al. 2021).
    """

    # `default=`: type checkers without pydantic's plugin, which authors of attacks use, see no default otherwise.
    temperature: float = Field(default=1.0, gt=0, description="Divides the logits; values below 1 sharpen.")
    top_k: int | None = Field(default=None, ge=1, description="Tokens kept at each step, the most likely ones.")
    top_p: float = Field(default=1.0, gt=0, le=1, description="Probability mass of the most likely tokens kept.")
    typical_p: float = Field(default=1.0, gt=0, le=1, description="Probability mass of the most typical tokens kept.")
    repetition_penalty: float = Field(default=1.0, gt=0, description="Divides the positive logits of earlier tokens.")
    decay_tokens: int = Field(
        default=0, ge=0, description="Suffix tokens over which the temperature decays to 1; 0 if it is constant."
    )

    def at(self, step: int) -> "Policy":
        """Return the policy for suffix token number `step`, counted from 0. Its temperature is constant.

        A decaying temperature is `temperature` at the first token, 1 from the last one of `decay_tokens` on, and linear
        between. Carlini et al. 2021, "Extracting training data from large language models", decay it from 10 to 1 over
        the first 20 tokens, and do not say that it is linear.
        """
        if self.decay_tokens == 0:
            return self
        progress = min(1.0, step / max(1, self.decay_tokens - 1))
        temperature = self.temperature + (1 - self.temperature) * progress
        return self.model_copy(update={"temperature": temperature, "decay_tokens": 0})


@dataclass(frozen=True)
class PrefixView:
    """One way of showing a prefix to a target.

    start: number of tokens dropped from the beginning of the prefix.
    shift: the position number of the first token shown, 0 by default.
    prompt: embeddings [tokens, width] of a soft prompt before the tokens.
    weight: the view's weight relative to others.
    """

    start: int = 0
    shift: int = 0
    prompt: Floats | None = None
    weight: float = 1.0

    @property
    def further(self) -> int:
        """The number of positions by which a suffix is later than after the whole prefix alone."""
        return self.shift - self.start + (0 if self.prompt is None else len(self.prompt))


class Combination(Enum):
    """The rule that combines the next-token distributions of several views.

    LOGITS: the weighted mean of the log-probabilities, renormalised.
    VOTES: each view gives its five likeliest tokens 5, 4, 3, 2 and 1 votes times its weight. With integer weights a
    token with more votes is always likelier than one with fewer, and the mean of the log-probabilities decides between
    equals.
    """

    LOGITS = "logits"
    VOTES = "votes"
