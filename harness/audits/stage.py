"""The sequences of a stage of an audit."""

from collections.abc import Callable
from dataclasses import dataclass

from harness.core.arrays import Ints, Tokens


@dataclass(frozen=True)
class Stage:
    """The sequences of a stage of an audit."""

    name: str
    sequences: int
    """Their number."""
    pairs: Callable[[Ints], tuple[Tokens, Tokens]]
    """Returns the prefixes and the suffixes of some, [n, tokens] each."""
    size: int
    """The number of sequences in a batch of a model on this machine."""
    done: Ints
    """Those with rows."""
