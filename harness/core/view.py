"""How a target is shown a prefix: from which token on, at which position, behind which soft prompt."""

from dataclasses import dataclass
from enum import Enum

from harness.core.arrays import Floats


@dataclass(frozen=True)
class PrefixView:
    """One way of showing a prefix to a target.

    start: tokens left out from the prefix's beginning; shift: the position of the first token shown, 0 as in training;
    prompt: embeddings [tokens, width] of a soft prompt that stands before the tokens; weight: what the view counts
    beside others.
    """

    start: int = 0
    shift: int = 0
    prompt: Floats | None = None
    weight: float = 1.0

    @property
    def further(self) -> int:
        """How many positions later a suffix stands than behind the whole prefix on its own."""
        return self.shift - self.start + (0 if self.prompt is None else len(self.prompt))


class Combination(Enum):
    """How the next-token distributions of several views become one.

    LOGITS: the weighted mean of the log-probabilities, renormalised. VOTES: each view gives its five likeliest tokens
    5, 4, 3, 2 and 1 votes times its weight; with whole weights what has more votes is likelier than anything that has
    less, and the mean of the log-probabilities decides among equals.
    """

    LOGITS = "logits"
    VOTES = "votes"
