"""Read the record of a run with plain SQL, independently of the harness's own readers."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple


class LedgerRow(NamedTuple):
    """One row of the ledger. `spent` is in seconds."""

    seq: int
    entry: str
    spent: float


@contextmanager
def _open(store: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"{store.absolute().as_uri()}?mode=ro", uri=True, timeout=10.0)) as db:
        yield db


def integrity_error(store: Path) -> str | None:
    """Return the first error that SQLite finds in the file, None if there is none."""
    try:
        with _open(store) as db:
            ((found,),) = db.execute("PRAGMA integrity_check(1)").fetchall()
    except (sqlite3.Error, ValueError) as error:
        return str(error)
    return None if found == "ok" else str(found)


def stored_guesses(store: Path) -> Counter[str]:
    """Return how often each guess is stored. The keys are lines as in the file of acknowledgements."""
    query = "SELECT key, example, suffix, score FROM guess JOIN batch USING (batch)"
    with _open(store) as db:
        return Counter(f"{key} {example} {suffix.hex()} {score!r}" for key, example, suffix, score in db.execute(query))


def ledger(store: Path) -> list[LedgerRow]:
    """Return all rows of the ledger in the order of writing."""
    with _open(store) as db:
        return [LedgerRow(*row) for row in db.execute("SELECT seq, entry, spent FROM ledger ORDER BY seq")]


def events(store: Path, name: str) -> list[dict[str, Any]]:
    """Return the details of all events with this name, oldest first."""
    with _open(store) as db:
        rows = db.execute("SELECT detail FROM event WHERE name = ? ORDER BY seq", (name,)).fetchall()
    return [json.loads(detail) for (detail,) in rows]
