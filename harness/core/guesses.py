"""Guesses: example id, suffix and score, many at a time.

Each field of `Guesses` defines one column. Frames, run.db and its queries, the inputs of a resumed worker, exports and
tables follow the fields, so a new column is a new field here (docs/development/architecture.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.core.arrays import Floats, Ints, Tokens
from harness.core.errors import HarnessError
from harness.core.rows import Column, Kind, Rows, Table


def _column(name: str, kind: Kind) -> dict[str, Column]:
    """Return the metadata of a field of `Guesses`: the column in which it is stored."""
    return {"column": Column(name=name, kind=kind)}


@dataclass(frozen=True, init=False)
class Guesses:
    """Suffixes guessed for examples; a higher score is submitted earlier.

    ids: [rows] int64.
    suffixes: [rows, suffix length] integers.
    score: [rows] float64.
    trial: [rows] int64, the first trial that drew the suffix, counted from 1 over the run; 0 without numbered trials.
    """

    ids: Ints = field(metadata=_column("example", Kind.INTEGER))
    suffixes: Tokens = field(metadata=_column("suffix", Kind.TOKENS))
    score: Floats = field(repr=False, metadata=_column("score", Kind.REAL))
    trial: Ints = field(repr=False, metadata=_column("trial", Kind.INTEGER))

    def __init__(self, ids: ArrayLike, suffixes: ArrayLike, score: ArrayLike, trial: ArrayLike | None = None) -> None:
        object.__setattr__(self, "ids", _integers("ids", ids, dimensions=1).astype(np.int64))
        object.__setattr__(self, "suffixes", _integers("suffixes", suffixes, dimensions=2))
        object.__setattr__(self, "score", np.atleast_1d(np.asarray(score, dtype=np.float64)))
        if not len(self.ids) == len(self.suffixes) == len(self.score) or self.score.ndim != 1:
            raise HarnessError(
                f"guesses need one id, one suffix and one score per row; "
                f"found shapes {self.ids.shape}, {self.suffixes.shape} and {self.score.shape}."
            )
        trials = np.zeros(len(self.ids), np.int64) if trial is None else _integers("trial", trial, dimensions=1)
        object.__setattr__(self, "trial", trials.astype(np.int64))
        if len(self.trial) != len(self.ids):
            raise HarnessError(f"guesses need one trial per row; found {len(self.trial)} for {len(self.ids)} rows.")

    @classmethod
    def from_columns(cls, columns: Rows) -> "Guesses":
        """Return the guesses in these columns of `GUESSES`."""
        return cls(**{name: columns[column.name] for name, column in _COLUMNS.items()})

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the guesses as columns of `GUESSES`."""
        return {column.name: getattr(self, name) for name, column in _COLUMNS.items()}

    def numbers(self) -> dict[str, NDArray[Any]]:
        """Return the columns that hold one number per guess: `example`, `score` and every other one but `suffix`."""
        return {name: column for name, column in self.columns().items() if column.ndim == 1}

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, rows: slice | Ints) -> "Guesses":
        """Return the guesses at `rows`."""
        return Guesses(**{name: getattr(self, name)[rows] for name in _COLUMNS})


_COLUMNS: dict[str, Column] = {column.name: column.metadata["column"] for column in fields(Guesses)}
GUESSES = Table(name="guess", columns=tuple(_COLUMNS.values()))


def concatenate_guesses(parts: Sequence[Guesses], *, suffix_length: int) -> Guesses:
    """Return the guesses of all parts; suffixes of shape [0, suffix_length] if there are none."""
    parts = parts or [Guesses([], np.empty((0, suffix_length), np.uint16), [])]
    return Guesses(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS})


def find_fault(guesses: Guesses, *, examples: int, suffix_length: int, vocabulary: int) -> str | None:
    """Return a clause that says what is wrong with the first invalid guess, or None if all guesses fit the round."""
    if len(guesses) == 0:
        return None
    if guesses.suffixes.shape[1] != suffix_length:
        return f"suffixes of {guesses.suffixes.shape[1]} tokens, but the round has suffixes of {suffix_length}"
    wrong = (guesses.ids < 0) | (guesses.ids >= examples)
    if wrong.any():
        return f"example id {guesses.ids[wrong][0]}, but the round has the ids 0..{examples - 1}"
    if guesses.suffixes.min() < 0 or guesses.suffixes.max() >= vocabulary:
        outside = guesses.suffixes[(guesses.suffixes < 0) | (guesses.suffixes >= vocabulary)]
        return f"token {outside[0]}, but the vocabulary is 0..{vocabulary - 1}"
    if guesses.trial.min() < 0:
        return f"trial {guesses.trial.min()}, but trials are counted from 1, and 0 stands for none"
    if np.isnan(guesses.score).any():
        return f"a score that is NaN, for example id {guesses.ids[np.isnan(guesses.score)][0]}"
    return None


def _integers(role: str, values: ArrayLike, *, dimensions: int) -> NDArray[np.integer]:
    array = np.asarray(values)
    if array.ndim != dimensions or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        raise HarnessError(
            f"{role} of guesses must be a {dimensions}-D array of integers; found {array.dtype} {list(array.shape)}."
        )
    return array if np.issubdtype(array.dtype, np.integer) else array.astype(np.int64)
