"""The interface between the audit and the models that complete paragraphs, which `local` and `remote` implement."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np

from harness.core.arrays import Ints


class State(StrEnum):
    """The outcome for a requested paragraph."""

    COMPLETED = "completed"
    UNANSWERED = "unanswered"
    """The endpoint gave no readable answer."""
    NO_ROOM = "no_room"
    """Prompt and suffix exceed the model's context, or the prompt has no token of its vocabulary."""


class Completion(NamedTuple):
    """A paragraph's completion, cut to its suffix's number of words. fault: why there is none, as a clause."""

    state: State
    text: str = ""
    fault: str = ""


class Completer(Protocol):
    """Completes paragraphs.

    order: [n] the paragraphs in random order. batch_size: how many are committed together at most. ends: places in the
    order where a batch ends.
    """

    order: Ints
    batch_size: int
    ends: Sequence[int]

    def begin(self, paragraphs: Ints, done: Ints) -> None:
        """Set the `paragraphs` [m] that are completed next; those in `done` have been completed before."""
        ...

    def complete(self, items: Ints, seed: int) -> tuple[Ints, list[Completion]]:
        """Return as many further completions as there are `items`, places in `paragraphs`, and their paragraphs.

        The completion of a paragraph is a function of the seed where the model allows it.
        """
        ...


def shuffled(items: int, seed: int) -> Ints:
    """Return 0 … `items` - 1 in random order: an audit that ends early has measured a fair sample of both sides."""
    return np.random.default_rng([seed, 1]).permutation(items).astype(np.int64)
