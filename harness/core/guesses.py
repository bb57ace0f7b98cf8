"""Guesses: example id, suffix and score, many at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.errors import HarnessError


@dataclass(frozen=True, init=False)
class Guesses:
    """Suffixes guessed for examples; a higher score is submitted earlier.

    ids: [rows] int64; suffixes: [rows, suffix length] integers; score: [rows] float64.
    """

    ids: Ints
    suffixes: Tokens
    score: Floats = field(repr=False)

    def __init__(self, ids: ArrayLike, suffixes: ArrayLike, score: ArrayLike) -> None:
        object.__setattr__(self, "ids", _integers("ids", ids, dimensions=1).astype(np.int64))
        object.__setattr__(self, "suffixes", _integers("suffixes", suffixes, dimensions=2))
        object.__setattr__(self, "score", np.atleast_1d(np.asarray(score, dtype=np.float64)))
        if not len(self.ids) == len(self.suffixes) == len(self.score) or self.score.ndim != 1:
            raise HarnessError(
                f"guesses need one id, one suffix and one score a row; "
                f"found {self.ids.shape}, {self.suffixes.shape} and {self.score.shape}."
            )

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, rows: slice | Ints) -> "Guesses":
        """The guesses at `rows`."""
        return Guesses(self.ids[rows], self.suffixes[rows], self.score[rows])


def joined(parts: Sequence[Guesses], *, suffix_length: int) -> Guesses:
    """All parts one after the other; [0, suffix_length] when there are none."""
    if not parts:
        return Guesses(np.empty(0, np.int64), np.empty((0, suffix_length), np.uint16), np.empty(0))
    return Guesses(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.suffixes for part in parts]),
        np.concatenate([part.score for part in parts]),
    )


def fault_in(guesses: Guesses, *, examples: int, suffix_length: int, vocabulary: int) -> str | None:
    """What is wrong with the first guess that a round cannot take, in a clause; None when all are fine."""
    if len(guesses) == 0:
        return None
    if guesses.suffixes.shape[1] != suffix_length:
        return f"suffixes of {guesses.suffixes.shape[1]} tokens where the round has {suffix_length}"
    wrong = (guesses.ids < 0) | (guesses.ids >= examples)
    if wrong.any():
        return f"example id {guesses.ids[wrong][0]} where the round has 0..{examples - 1}"
    if guesses.suffixes.min() < 0 or guesses.suffixes.max() >= vocabulary:
        outside = guesses.suffixes[(guesses.suffixes < 0) | (guesses.suffixes >= vocabulary)]
        return f"token {outside[0]} where the vocabulary is 0..{vocabulary - 1}"
    if np.isnan(guesses.score).any():
        return f"a score that is not a number, for example id {guesses.ids[np.isnan(guesses.score)][0]}"
    return None


def _integers(what: str, values: ArrayLike, *, dimensions: int) -> NDArray[np.integer]:
    array = np.asarray(values)
    if array.ndim != dimensions or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        raise HarnessError(f"{what} must be integers with {dimensions} axes; found {array.dtype} {list(array.shape)}.")
    return array if np.issubdtype(array.dtype, np.integer) else array.astype(np.int64)
