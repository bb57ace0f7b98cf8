"""The guesses in run.db."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from harness.core.arrays import Bools, Floats, Ints, token_dtype
from harness.core.guesses import GUESSES, Guesses, concatenate_guesses
from harness.core.inputs import as_harness_error
from harness.core.rows import Kind
from harness.runs.cells import column_from, select_list
from harness.runs.folder import RunFolder
from harness.runs.reader import LAST_ATTEMPTS, RunReader
from harness.runs.specs import AttackSpec

_ROWS_PER_READ = 50_000


class Arrivals(NamedTuple):
    """Guesses in arrival order, void ones included: seq, at (seconds since the epoch), batch, attempt, all [rows]."""

    seq: Ints
    at: Floats
    guesses: Guesses
    batch: Ints
    attempt: Ints

    def valid_rows(self, last_attempts: Mapping[int, int]) -> Ints:
        """Return the rows that are not void, ascending; `last_attempts` is `RunReader.repeated_batches()`."""
        if not last_attempts:
            return np.arange(len(self.seq))
        attempts = zip(self.batch.tolist(), self.attempt.tolist(), strict=True)
        return np.flatnonzero([last_attempts.get(batch, attempt) == attempt for batch, attempt in attempts])


class CommittedGuesses(NamedTuple):
    """Valid guesses in arrival order, and whether the batch of each is done, [rows]."""

    guesses: Guesses
    is_done: Bools


class GuessReader(RunReader):
    """A read-only view of the run.db of an attack run."""

    def __init__(self, path: Path, *, suffix_length: int, vocabulary: int) -> None:
        super().__init__(path)
        self._suffix_length = suffix_length
        self._dtype = token_dtype(vocabulary).newbyteorder("<")

    @classmethod
    def of_run(cls, folder: RunFolder, spec: AttackSpec) -> Self:
        """Return the reader of a run's store."""
        return cls(folder.store, suffix_length=spec.round.suffix_length, vocabulary=spec.round.vocabulary)

    def guesses(self) -> Guesses:
        """Return the valid guesses in arrival order; a (example, suffix) may occur more than once."""
        return self.committed_guesses().guesses

    def committed_guesses(self) -> CommittedGuesses:
        """Return the valid guesses; those of a batch that is not done become void when the run is resumed."""
        statement = (
            f"SELECT {select_list(GUESSES)}, batch IN (SELECT done.batch FROM done) "  # noqa: S608
            f"FROM guess {LAST_ATTEMPTS} ORDER BY seq"
        )
        parts, done = [], [np.empty(0, np.bool_)]
        with as_harness_error(self.path):
            cursor = self._db.execute(statement)
            while rows := cursor.fetchmany(_ROWS_PER_READ):
                *cells, is_done = zip(*rows, strict=True)
                parts.append(self._guesses_from(cells))
                done.append(np.array(is_done, np.bool_))
        return CommittedGuesses(self._join(parts), np.concatenate(done))

    def arrivals(
        self,
        *,
        after: int = 0,
        limit: int = _ROWS_PER_READ,
        example: int | None = None,
        newest_first: bool = False,
    ) -> Arrivals:
        """Return at most `limit` guesses (-1: all) after sequence number `after`, of one `example` if given."""
        order = "DESC" if newest_first else "ASC"
        condition, values = ("", [after]) if example is None else (" AND example = ?", [after, example])
        statement = f"SELECT seq, at, batch, attempt, {select_list(GUESSES)} FROM guess WHERE seq > ?{condition}"  # noqa: S608
        rows = self.query(f"{statement} ORDER BY seq {order} LIMIT ?", *values, limit)
        with as_harness_error(self.path):
            seq, at, batch, attempt, *cells = zip(*rows, strict=True) if rows else ((),) * (4 + len(GUESSES.columns))
            return Arrivals(
                np.array(seq, np.int64),
                np.array(at, np.float64),
                self._guesses_from(cells),
                np.array(batch, np.int64),
                np.array(attempt, np.int64),
            )

    def final_order(self) -> Guesses | None:
        """Return the final submission order that the attack gave, without scores; None if it gave none."""
        last = self.last_event("final_order")
        if last is None:
            return None
        with as_harness_error(self.path):
            rows = self.query("SELECT example, suffix FROM final WHERE generation = ? ORDER BY seq", last["generation"])
            ids, cells = zip(*rows, strict=True) if rows else ((), ())
            suffixes = column_from(Kind.TOKENS, cells, tokens=self._dtype, length=self._suffix_length)
            return Guesses(ids, suffixes, np.zeros(len(ids)))

    def _guesses_from(self, cells: list[Any]) -> Guesses:
        """Return the guesses with these cells, in the order of `GUESSES`."""
        return Guesses.from_columns(
            {
                column.name: column_from(column.kind, values, tokens=self._dtype, length=self._suffix_length)
                for column, values in zip(GUESSES.columns, cells, strict=True)
            }
        )

    def _join(self, parts: list[Guesses]) -> Guesses:
        joined = concatenate_guesses(parts, suffix_length=self._suffix_length)
        return joined if parts else replace(joined, suffixes=joined.suffixes.astype(self._dtype))
