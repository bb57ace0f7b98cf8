"""run.db, read: by anyone, at any time, without ever holding up the writer."""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from harness.core.arrays import Bools, Floats, Ints, token_dtype
from harness.core.errors import HarnessError
from harness.core.guesses import Guesses
from harness.runs.errors import as_harness_error

_ROWS_AT_ONCE = 50_000
_PATIENCE = 2.0
"""Seconds that a reader waits for a lock, which in WAL mode stands only while a store is opened or closed."""
_COMMITTED_GUESSES = """
SELECT example, suffix, score, batch, batch IN (SELECT batch FROM done) FROM guess JOIN
  (SELECT batch AS last_batch, MAX(attempt) AS last_attempt FROM attempt GROUP BY batch)
  ON batch = last_batch AND attempt = last_attempt ORDER BY seq
"""


class Point(NamedTuple):
    """A point of the running curve; the last three are None in a blind round. `spent` is in seconds of budget."""

    seq: int
    at: float
    spent: float
    guesses: int
    rows: int
    solved: int | None
    wrong: int | None
    recall: float | None


class LedgerEntry(NamedTuple):
    """A word of the ledger: what has been spent, in seconds, and when that was written."""

    at: float
    entry: str
    spent: float


class Arrivals(NamedTuple):
    """Guesses in the order of their arrival, void ones included: seq, at (seconds since the epoch), batch and attempt
    are [rows] each."""

    seq: Ints
    at: Floats
    guesses: Guesses
    batch: Ints
    attempt: Ints

    def rows_that_count(self, last_attempts: Mapping[int, int]) -> Ints:
        """The rows that are not void, ascending; `last_attempts` are those of the batches that were begun again."""
        if not last_attempts:
            return np.arange(len(self.seq))
        attempts = zip(self.batch.tolist(), self.attempt.tolist(), strict=True)
        return np.flatnonzero([last_attempts.get(batch, attempt) == attempt for batch, attempt in attempts])


class CommittedGuesses(NamedTuple):
    """Guesses that count, their batch and whether that is done, [rows] each, in arrival order."""

    guesses: Guesses
    batches: Ints
    is_done: Bools


class StageWork(NamedTuple):
    """A stage of an attack: draws that it announced, and of the batches that are done their draws and their number."""

    stage: str
    announced: float
    done: float
    batches_done: int


@dataclass(frozen=True)
class Progress:
    """Work done and announced, in draws."""

    done: float
    announced: float

    @property
    def fraction(self) -> float | None:
        """Done over announced, None before anything was announced."""
        return min(1.0, self.done / self.announced) if self.announced > 0 else None


class RunReader:
    """A read-only view of run.db. Raises HarnessError when there is none, or none that can be read."""

    def __init__(self, path: Path) -> None:
        with as_harness_error(path):
            if not path.exists():
                raise HarnessError(f"{path}: the run has no store.")
            self.path = path
            self._db = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=_PATIENCE
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def _all(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with as_harness_error(self.path):
            return self._db.execute(query, values).fetchall()

    def _detail(self, text: str) -> dict[str, Any]:
        try:
            detail = json.loads(text)
        except (ValueError, TypeError, RecursionError):
            detail = None
        if not isinstance(detail, dict):
            raise HarnessError(f"{self.path}: cannot be read (a record in it is no JSON object).")
        return detail

    def last_event(self, name: str) -> dict[str, Any] | None:
        """The detail of the last event called `name`."""
        rows = self._all("SELECT detail FROM event WHERE name = ? ORDER BY seq DESC LIMIT 1", name)
        return self._detail(rows[0][0]) if rows else None

    def events(self, after: int = 0) -> list[tuple[int, float, str, dict[str, Any]]]:
        """Every event since `after`: seq, time, name, detail."""
        rows = self._all("SELECT seq, at, name, detail FROM event WHERE seq > ? ORDER BY seq", after)
        return [(seq, at, name, self._detail(detail)) for seq, at, name, detail in rows]

    def last_ledger(self) -> LedgerEntry | None:
        """What the ledger says now."""
        entries = self._ledger_entries("SELECT at, entry, spent FROM ledger ORDER BY seq DESC LIMIT 1")
        return entries[0] if entries else None

    def ledger(self, after: int = 0) -> list[LedgerEntry]:
        """Every word of the ledger since `after`."""
        return self._ledger_entries("SELECT at, entry, spent FROM ledger WHERE seq > ?", after)

    def last_point(self) -> Point | None:
        """The newest point of the running curve."""
        points = self._points("SELECT * FROM point ORDER BY seq DESC LIMIT 1")
        return points[0] if points else None

    def points(self, after: int = 0) -> list[Point]:
        """The running curve since `after`."""
        return self._points("SELECT * FROM point WHERE seq > ? ORDER BY seq", after)

    def guess_count(self) -> int:
        """How many guesses were ever committed, void ones included."""
        return int(self._all("SELECT COALESCE(MAX(seq), 0) FROM guess")[0][0])

    def progress(self) -> Progress:
        """What is done of what the attack announced."""
        done = self._all("SELECT COALESCE(SUM(weight), 0) FROM batch WHERE batch IN (SELECT batch FROM done)")[0][0]
        announced = self._all("SELECT COALESCE(SUM(weight), 0) FROM plan")[0][0]
        with as_harness_error(self.path):
            return Progress(float(done), float(announced))

    def stages(self) -> list[StageWork]:
        """The work of each stage that was announced, in that order."""
        done: dict[str, list[float]] = {}
        for key, weight in self._all("SELECT key, weight FROM batch WHERE batch IN (SELECT batch FROM done)"):
            # A batch is called STAGE/PASS/FIRST EXAMPLE.
            done.setdefault(str(key).rsplit("/", 2)[0], []).append(weight)
        with as_harness_error(self.path):
            return [
                StageWork(str(stage), float(announced), float(sum(done.get(stage, []))), len(done.get(stage, [])))
                for stage, announced in self._all("SELECT stage, weight FROM plan ORDER BY seq")
            ]

    def done_keys(self) -> list[str]:
        """The keys of the batches that will not be run again."""
        rows = self._all("SELECT key FROM batch WHERE batch IN (SELECT batch FROM done) ORDER BY batch")
        return [row[0] for row in rows]

    def engine_calls(self) -> dict[str, list[int]]:
        """Rows at once of each engine call, in order, of each batch's last attempt: what a second run of it uses."""
        calls: dict[str, dict[int, int]] = {}
        query = "SELECT key, call, rows FROM engine JOIN batch USING (batch) ORDER BY engine.seq"
        for key, call, rows in self._all(query):
            calls.setdefault(key, {})[call] = rows
        return {key: [by_call[call] for call in sorted(by_call)] for key, by_call in calls.items()}

    def kept(self) -> dict[str, NDArray[Any]]:
        """What the attack has kept, by name."""
        query = "SELECT name, dtype, shape, data FROM kept ORDER BY seq"
        with as_harness_error(self.path):
            return {
                name: np.frombuffer(data, np.dtype(dtype)).reshape(json.loads(shape))
                for name, dtype, shape, data in self._all(query)
            }

    def guesses(self, *, suffix_length: int, vocabulary: int) -> Guesses:
        """The guesses that count, in arrival order; a (example, suffix) may stand more than once."""
        return self.committed(suffix_length=suffix_length, vocabulary=vocabulary).guesses

    def committed(self, *, suffix_length: int, vocabulary: int) -> CommittedGuesses:
        """The same with the batch of each: a batch that is not done is run again when the run goes on."""
        return self._rows(_COMMITTED_GUESSES, suffix_length, vocabulary)

    def arrivals(
        self,
        *,
        suffix_length: int,
        vocabulary: int,
        after: int = 0,
        most: int = _ROWS_AT_ONCE,
        example: int | None = None,
        is_newest_first: bool = False,
    ) -> Arrivals:
        """At most `most` guesses since `after`, of one `example` if named; the last of them with `is_newest_first`."""
        order = "DESC" if is_newest_first else "ASC"
        only, values = ("", [after]) if example is None else (" AND example = ?", [after, example])
        query = "SELECT seq, at, batch, attempt, example, suffix, score FROM guess WHERE seq > ?"
        rows = self._all(f"{query}{only} ORDER BY seq {order} LIMIT ?", *values, most)
        dtype = token_dtype(vocabulary).newbyteorder("<")
        seq, at, batch, attempt, ids, suffixes, score = zip(*rows, strict=True) if rows else ((),) * 7
        with as_harness_error(self.path):
            tokens = np.frombuffer(b"".join(suffixes), dtype).reshape(len(rows), suffix_length)
            return Arrivals(
                np.array(seq, np.int64),
                np.array(at, np.float64),
                Guesses(np.array(ids, np.int64), tokens, np.array(score, np.float64)),
                np.array(batch, np.int64),
                np.array(attempt, np.int64),
            )

    def repeated_batches(self) -> dict[int, int]:
        """The last attempt of each batch that was begun more than once: what its earlier ones gave is void."""
        query = "SELECT batch, MAX(attempt) FROM attempt WHERE attempt > 1 GROUP BY batch"
        return dict(self._all(query))

    def work_done(self, after: int = 0) -> list[tuple[int, float, float]]:
        """Every batch done since `after`: seq, when, and its weight in draws."""
        query = (
            "SELECT done.seq, done.at, weight FROM done JOIN batch USING (batch) WHERE done.seq > ? ORDER BY done.seq"
        )
        with as_harness_error(self.path):
            return [(seq, float(at), float(weight)) for seq, at, weight in self._all(query, after)]

    def last_telemetry(self) -> tuple[float, dict[str, Any]] | None:
        """When the machine was looked at last, and what was seen (`Telemetry.sample`)."""
        rows = self._all("SELECT at, sample FROM telemetry ORDER BY seq DESC LIMIT 1")
        return (rows[0][0], self._detail(rows[0][1])) if rows else None

    def final_order(self, *, suffix_length: int, vocabulary: int) -> Guesses | None:
        """The submission that the attack gave whole, None when it gave none."""
        last = self.last_event("final_order")
        if last is None:
            return None
        query = "SELECT example, suffix, 0.0, 0, 1 FROM final WHERE generation = ? ORDER BY seq"
        with as_harness_error(self.path):
            return self._rows(query, suffix_length, vocabulary, last["generation"]).guesses

    # A column of SQLite may hold a value of any type: what is no number is found where numbers are made.

    def _ledger_entries(self, query: str, *values: Any) -> list[LedgerEntry]:
        with as_harness_error(self.path):
            return [LedgerEntry(float(at), str(entry), float(spent)) for at, entry, spent in self._all(query, *values)]

    def _points(self, query: str, *values: Any) -> list[Point]:
        with as_harness_error(self.path):
            return [
                Point(
                    seq,
                    float(at),
                    float(spent),
                    int(guesses),
                    int(rows),
                    None if solved is None else int(solved),
                    None if wrong is None else int(wrong),
                    None if recall is None else float(recall),
                )
                for seq, at, spent, guesses, rows, solved, wrong, recall in self._all(query, *values)
            ]

    def _rows(self, query: str, suffix_length: int, vocabulary: int, *values: Any) -> CommittedGuesses:
        dtype = token_dtype(vocabulary).newbyteorder("<")
        ids, suffixes = [np.empty(0, np.int64)], [np.empty((0, suffix_length), dtype)]
        scores, batches, is_done = [np.empty(0)], [np.empty(0, np.int64)], [np.empty(0, np.bool_)]
        with as_harness_error(self.path):
            cursor = self._db.execute(query, values)
            while rows := cursor.fetchmany(_ROWS_AT_ONCE):
                columns = tuple(zip(*rows, strict=True))
                ids.append(np.array(columns[0], np.int64))
                suffixes.append(np.frombuffer(b"".join(columns[1]), dtype).reshape(len(rows), suffix_length))
                scores.append(np.array(columns[2], np.float64))
                batches.append(np.array(columns[3], np.int64))
                is_done.append(np.array(columns[4], np.bool_))
        guesses = Guesses(np.concatenate(ids), np.concatenate(suffixes), np.concatenate(scores))
        return CommittedGuesses(guesses, np.concatenate(batches), np.concatenate(is_done))
