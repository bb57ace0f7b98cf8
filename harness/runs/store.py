"""The writing side of run.db, the record of one run: one writer, any number of readers.

Rows are committed before they are acknowledged. Rows are only ever added, except that an array that an attack keeps
under a name replaces the one before. Only the rows of a batch's last attempt are valid.
"""

import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from harness.core.arrays import Ints, Tokens
from harness.core.files import sync_folder
from harness.core.rows import Kind, Table
from harness.runs.cells import cells_in, create_statement
from harness.runs.reserve import DiskFull, is_full

SCHEMA_VERSION = 1
"""PRAGMA user_version of run.db. A reader refuses a higher one."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS batch (batch INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, weight REAL NOT NULL);
CREATE TABLE IF NOT EXISTS attempt (
  seq INTEGER PRIMARY KEY, batch INTEGER NOT NULL, attempt INTEGER NOT NULL, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS step (
  batch INTEGER PRIMARY KEY, at REAL NOT NULL, share REAL NOT NULL, name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS done (
  seq INTEGER PRIMARY KEY, batch INTEGER NOT NULL, attempt INTEGER NOT NULL, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS final (
  seq INTEGER PRIMARY KEY, generation INTEGER NOT NULL, example INTEGER NOT NULL, suffix BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS kept (
  seq INTEGER PRIMARY KEY, name TEXT NOT NULL, dtype TEXT NOT NULL, shape TEXT NOT NULL, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS plan (
  seq INTEGER PRIMARY KEY, stage TEXT NOT NULL UNIQUE, weight REAL NOT NULL, draw_weight REAL NOT NULL,
  is_announced INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS point (
  seq INTEGER PRIMARY KEY, at REAL NOT NULL, spent REAL NOT NULL, guesses INTEGER NOT NULL,
  rows INTEGER NOT NULL, solved INTEGER, wrong INTEGER, recall REAL);
CREATE TABLE IF NOT EXISTS ledger (
  seq INTEGER PRIMARY KEY, at REAL NOT NULL, entry TEXT NOT NULL, spent REAL NOT NULL);
CREATE TABLE IF NOT EXISTS event (
  seq INTEGER PRIMARY KEY, at REAL NOT NULL, name TEXT NOT NULL, detail TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS telemetry (seq INTEGER PRIMARY KEY, at REAL NOT NULL, sample TEXT NOT NULL);
"""
_Statement = tuple[str, tuple[tuple[Any, ...], ...]]
_CLOSE_SECONDS = 5.0


class RunStore:
    """The writing side of one run.db. Rows are durable when the `transaction` that holds them ends."""

    def __init__(self, path: Path, tables: Mapping[str, Table]) -> None:
        """Open the store at `path`, or create it. `tables` are the job's own tables by stored name."""
        if not path.exists():
            _create(path, tables)
        self._path = path
        self._tables = tables
        self._staged: list[_Statement] | None = None
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, isolation_level=None, timeout=30.0)
        if self._db.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            # A change of mode writes the first page. With a journal on disk, a kill during that write would leave a
            # store that no reader can open.
            self._db.execute("PRAGMA journal_mode=MEMORY")
            self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._attempts: dict[int, int] = dict(
            self._db.execute("SELECT batch, MAX(attempt) FROM attempt GROUP BY batch").fetchall()
        )
        self._batches: dict[str, int] = {
            key: batch for batch, key in self._db.execute("SELECT batch, key FROM batch").fetchall()
        }
        self._generations: int = self._db.execute("SELECT COALESCE(MAX(generation), 0) FROM final").fetchone()[0]

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all rows that are added inside the block together when it ends; none if it raises.

        Raises DiskFull if there is no room; nothing is written then.
        """
        with self._lock:
            statements = self._staged = []
            try:
                yield
            finally:
                self._staged = None
            self._commit(statements)

    def _commit(self, statements: "list[_Statement]") -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for statement, rows in statements:
                self._db.executemany(statement, rows)
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if is_full(error, self._path.parent):
                raise DiskFull from None
            raise

    def _add(self, statement: str, *rows: tuple[Any, ...]) -> None:
        assert self._staged is not None, "rows are added inside a transaction"
        self._staged.append((statement, rows))

    def _insert(self, table: str, **values: Any) -> None:
        """Add one row to a table."""
        self._add(_insert_statement(table, values), tuple(values.values()))

    def add_event(self, name: str, **detail: Any) -> None:
        """Add an event: a phase, a process, a warning."""
        self._insert("event", at=time.time(), name=name, detail=json.dumps(detail))

    def add_ledger(self, entry: str, spent: float) -> None:
        """Add the spent seconds to the ledger. `entry` is start, tick or end."""
        self._insert("ledger", at=time.time(), entry=entry, spent=spent)

    def commit_ledger(self, entry: str, spent: Callable[[], float]) -> None:
        """Commit a ledger entry at once, from any thread, between two transactions.

        `spent` is called when the lock is held. Raises DiskFull if there is no room.
        """
        # With SQLite's own waiting, a fast sequence of transactions could keep this connection out.
        with self._lock, contextlib.closing(sqlite3.connect(self._path, isolation_level=None, timeout=30.0)) as db:
            try:
                db.execute("PRAGMA synchronous=FULL")
                db.execute(_insert_statement("ledger", ("at", "entry", "spent")), (time.time(), entry, spent()))
            except sqlite3.OperationalError as error:
                if is_full(error, self._path.parent):
                    raise DiskFull from None
                raise

    def add_plan(self, stage: str, weight: float, *, draw_weight: float = 1.0, is_announced: bool = False) -> None:
        """Set the work of a stage, in draws, and the time of one draw relative to other stages.

        `is_announced` is true if the job announced the stage before it began. A later call replaces these values.
        """
        self._add(
            "INSERT INTO plan (stage, weight, draw_weight, is_announced) VALUES (?, ?, ?, ?) ON CONFLICT (stage) "
            "DO UPDATE SET weight = excluded.weight, draw_weight = excluded.draw_weight, "
            "is_announced = excluded.is_announced",
            (stage, weight, draw_weight, int(is_announced)),
        )

    def stages(self) -> set[str]:
        """Return the stages whose work earlier executions have set."""
        return {stage for (stage,) in self._db.execute("SELECT stage FROM plan")}

    def begin_batch(self, key: str, weight: float) -> tuple[int, int]:
        """Begin a new attempt at the batch `key`, which voids the rows of earlier ones; return batch and attempt."""
        batch = self._batches.get(key)
        if batch is None:
            batch = self._batches[key] = len(self._batches)
            self._insert("batch", batch=batch, key=key, weight=weight)
        attempt = self._attempts[batch] = self._attempts.get(batch, 0) + 1
        self._insert("attempt", batch=batch, attempt=attempt, at=time.time())
        return batch, attempt

    def end_batch(self, batch: int, attempt: int) -> None:
        """Mark the batch as done; it will not be run again."""
        self._insert("done", batch=batch, attempt=attempt, at=time.time())
        self._add("DELETE FROM step WHERE batch = ?", (batch,))

    def set_step(self, batch: int, attempt: int, share: float, name: str) -> None:
        """Set how much of an open batch is done, from 0 to 1, and the name of its last step."""
        if attempt == self._attempts[batch]:
            values = (batch, time.time(), share, name)
            self._add("INSERT OR REPLACE INTO step (batch, at, share, name) VALUES (?, ?, ?, ?)", values)

    def clear_steps(self) -> None:
        """Remove the progress of batches that an earlier execution left open."""
        self._add("DELETE FROM step WHERE batch >= ?", (0,))

    def add_rows(self, batch: int, attempt: int, name: str, columns: Mapping[str, Any]) -> None:
        """Add rows of one attempt to the job's table with the stored name `name`."""
        at, kinds = time.time(), {column.name: column.kind for column in self._tables[name].columns}
        cells = zip(*(cells_in(kind, columns[column]) for column, kind in kinds.items()), strict=True)
        statement = _insert_statement(name, ("batch", "attempt", "at", *kinds))
        self._add(statement, *((batch, attempt, at, *row) for row in cells))

    def add_final(self, ids: Ints, suffixes: Tokens) -> None:
        """Add a final submission order: ids [rows], suffixes [rows, length]. The last one counts."""
        generation = self._generations = self._generations + 1
        self._add(
            _insert_statement("final", ("generation", "example", "suffix")),
            *((generation, *row) for row in zip(ids.tolist(), cells_in(Kind.TOKENS, suffixes), strict=True)),
        )
        self.add_event("final_order", generation=generation, rows=len(ids))

    def add_kept(self, name: str, array: NDArray[Any]) -> None:
        """Store an intermediate result; it replaces the one of the same name."""
        self._add("DELETE FROM kept WHERE name = ?", (name,))
        shape = json.dumps(array.shape)
        self._insert("kept", name=name, dtype=array.dtype.str, shape=shape, data=array.tobytes())

    def add_point(
        self, *, spent: float, guesses: int, rows: int, solved: int | None, wrong: int | None, recall: float | None
    ) -> None:
        """Add a point of the running curve. The last three are None in a blind round."""
        values = {"guesses": guesses, "rows": rows, "solved": solved, "wrong": wrong, "recall": recall}
        self._insert("point", at=time.time(), spent=spent, **values)

    def add_telemetry(self, sample: dict[str, Any]) -> None:
        """Add a sample of the machine's load."""
        self._insert("telemetry", at=time.time(), sample=json.dumps(sample))

    def close(self) -> None:
        """Move the write-ahead log into the one file. Waits for readers; one that stays does that at its own end."""
        until = time.monotonic() + _CLOSE_SECONDS
        while True:
            try:
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._db.execute("PRAGMA journal_mode=MEMORY")
            except sqlite3.OperationalError:
                if time.monotonic() > until:
                    break
                time.sleep(0.05)
            else:
                break
        self._db.close()


def _insert_statement(table: str, columns: Iterable[str]) -> str:
    """Return the SQL statement that adds one row with these columns."""
    names = [f'"{column}"' for column in columns]
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608


def _create(path: Path, tables: Mapping[str, Table]) -> None:
    """Create an empty store under a temporary name and rename it, so that every run.db can be read."""
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.unlink(missing_ok=True)
    db = sqlite3.connect(unfinished, isolation_level=None)
    schema = _SCHEMA + "\n".join(create_statement(name, table) for name, table in tables.items())
    db.executescript(f"PRAGMA synchronous=FULL; BEGIN; {schema} PRAGMA user_version={SCHEMA_VERSION}; COMMIT;")
    # Before the rename: a kill during the change of mode leaves a file that no reader can open.
    db.execute("PRAGMA journal_mode=WAL")
    db.close()
    unfinished.rename(path)
    sync_folder(path.parent)
