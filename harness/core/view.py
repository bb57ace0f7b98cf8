"""Views of a prefix: the first token, its position, and the soft prompt before it."""

from dataclasses import dataclass
from enum import Enum

from harness.core.arrays import Floats


@dataclass(frozen=True)
class PrefixView:
    """One way of showing a prefix to a target.

    start: number of tokens dropped from the beginning of the prefix. shift: the position of the first token shown, 0 as
    in training. prompt: embeddings [tokens, width] of a soft prompt before the tokens. weight: the view's weight
    relative to others.
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

    LOGITS: the weighted mean of the log-probabilities, renormalised. VOTES: each view gives its five likeliest tokens
    5, 4, 3, 2 and 1 votes times its weight. With integer weights a token with more votes is always likelier than one
    with fewer, and the mean of the log-probabilities decides between equals.
    """

    LOGITS = "logits"
    VOTES = "votes"
