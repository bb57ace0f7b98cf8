"""run.db: committed rows are durable, and only the last attempt of a batch is valid."""

import random
import sqlite3
import threading
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from harness.core.audit import FIGURES
from harness.core.errors import HarnessError
from harness.core.guesses import GUESSES, Guesses
from harness.runs.audit_reader import AuditReader
from harness.runs.guess_reader import GuessReader
from harness.runs.reader import RunReader
from harness.runs.reserve import DiskFull
from harness.runs.store import SCHEMA_VERSION, RunStore

TABLES = {"guess": GUESSES}
FORK = get_context("fork")  # a new interpreter would take most of the time of a test


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


def open_store(path: Path) -> RunStore:
    return RunStore(path, TABLES)


def guess_reader(path: Path, vocabulary: int = 1000) -> GuessReader:
    return GuessReader(path, suffix_length=3, vocabulary=vocabulary)


def add_guesses(store: RunStore, key: str, ids: list[int], score: float, *, done: bool) -> None:
    with store.transaction():
        batch, attempt = store.begin_batch(key, 1.0)
        suffixes = np.tile(np.array(ids, np.uint16)[:, None], (1, 3))
        scores = np.full(len(ids), score)
        store.add_rows(batch, attempt, "guess", Guesses(ids, suffixes, scores).columns())
        if done:
            store.end_batch(batch, attempt)


def test_only_the_last_attempt_of_a_batch_is_valid(path: Path) -> None:
    store = open_store(path)
    add_guesses(store, "a", [1, 2], 0.5, done=True)
    add_guesses(store, "b", [3, 4], 0.5, done=False)
    store.close()
    store = open_store(path)
    add_guesses(store, "b", [4], 0.25, done=False)
    with guess_reader(path) as reader:
        committed = reader.committed_guesses()
        assert committed.guesses.ids.tolist() == [1, 2, 4]
        assert committed.is_done.tolist() == [True, True, False]
        assert committed.guesses.suffixes.tolist() == [[1] * 3, [2] * 3, [4] * 3]
        assert reader.done_keys() == ["a"] and reader.row_count("guess") == 5
        assert reader.draws_done() == 1.0
        arrivals = reader.arrivals()
        assert arrivals.guesses.ids[arrivals.valid_rows(reader.repeated_batches())].tolist() == [1, 2, 4]


def test_a_kept_array_replaces_the_previous_one(path: Path) -> None:
    store = open_store(path)
    for step in range(40):
        with store.transaction():
            store.add_kept("tuning", np.full(1 << 17, step, np.float64))
    store.close()
    # 40 arrays of 1 MiB each were kept.
    assert path.stat().st_size < 4 << 20
    with RunReader(path) as reader:
        assert (reader.kept_arrays()["tuning"] == 39).all()


def test_a_failed_transaction_writes_nothing(path: Path) -> None:
    store = open_store(path)
    with pytest.raises(RuntimeError), store.transaction():
        store.add_ledger("start", 1.0)
        raise RuntimeError
    with store.transaction():
        store.add_ledger("start", 2.0)
    with RunReader(path) as reader:
        assert [entry.spent for entry in reader.ledger()] == [2.0]


def test_a_ledger_entry_of_another_thread_waits_for_the_transaction(path: Path) -> None:
    store, spent = open_store(path), [1.0]
    other_thread = threading.Thread(target=store.commit_ledger, args=("tick", lambda: spent[0]))
    with store.transaction():
        other_thread.start()
        store.add_ledger("start", 0.0)
        other_thread.join(0.2)
        assert other_thread.is_alive()
        spent[0] = 2.0
    other_thread.join()
    with RunReader(path) as reader:
        assert [(entry.entry, entry.spent) for entry in reader.ledger()] == [("start", 0.0), ("tick", 2.0)]


def test_a_full_disk_raises_and_leaves_the_store_usable(path: Path) -> None:
    store = open_store(path)
    store._db.execute("PRAGMA max_page_count=40")
    with pytest.raises(DiskFull), store.transaction():
        store.add_kept("large", np.zeros(1 << 20))
    with store.transaction():
        store.add_ledger("end", 3.0)
    with RunReader(path) as reader:
        assert [entry.spent for entry in reader.ledger()] == [3.0]
        assert reader.kept_arrays() == {}


def test_every_visible_store_can_be_read(tmp_path: Path) -> None:
    """A process that is killed while it creates a store leaves either no store or a complete one."""
    for number in range(6):
        path = tmp_path / f"{number}.db"
        process = FORK.Process(target=open_store, args=(path,))
        process.start()
        while not path.exists() and process.is_alive():
            pass
        process.kill()
        process.join()
        with RunReader(path) as reader:
            assert reader.last_event("phase") is None
        open_store(path).close()


def open_and_close_forever(path: Path) -> None:
    while True:
        open_store(path).close()


def test_a_store_can_be_read_if_its_writer_was_killed_while_opening_or_closing_it(tmp_path: Path) -> None:
    rng = random.Random(2)
    for number in range(4):
        path = tmp_path / f"{number}.db"
        store = open_store(path)
        with store.transaction():
            store.add_ledger("end", 1.0)
        store.close()
        process = FORK.Process(target=open_and_close_forever, args=(path,))
        modified_at = path.stat().st_mtime_ns
        process.start()
        while path.stat().st_mtime_ns == modified_at:
            time.sleep(0.001)
        time.sleep(rng.uniform(0.0, 0.1))
        process.kill()
        process.join()
        with RunReader(path) as reader:
            assert [entry.spent for entry in reader.ledger()] == [1.0]


def test_a_closed_store_is_one_file(path: Path) -> None:
    store = open_store(path)
    add_guesses(store, "a", [1], 0.5, done=True)
    assert path.with_name("run.db-wal").exists()
    store.close()
    assert [file.name for file in path.parent.iterdir()] == ["run.db"]


def test_a_reader_sees_rows_after_they_are_committed(path: Path) -> None:
    store = open_store(path)
    with RunReader(path) as reader:
        for number in range(3):
            with store.transaction():
                store.add_event("tick", number=number)
            assert reader.last_event("tick") == {"number": number}
            assert reader.last_events() == {"tick": {"number": number}}
        assert len(reader.events(after=1)) == 2


def test_infinite_scores_and_large_tokens_are_stored_exactly(path: Path) -> None:
    store = open_store(path)
    with store.transaction():
        batch, attempt = store.begin_batch("", 0.0)
        suffixes = np.array([[70_000, 0, 1]], np.uint32)
        store.add_rows(batch, attempt, "guess", Guesses([0], suffixes, [-np.inf]).columns())
    with guess_reader(path, vocabulary=100_000) as reader:
        guesses = reader.guesses()
    assert guesses.suffixes.tolist() == [[70_000, 0, 1]] and guesses.score.tolist() == [-np.inf]


def test_the_last_final_order_is_used(path: Path) -> None:
    store = open_store(path)
    for ids in ([2, 1], [1]):
        with store.transaction():
            store.add_final(np.array(ids), np.zeros((len(ids), 3), np.uint16))
    with guess_reader(path) as reader:
        final = reader.final_order()
    assert final is not None and final.ids.tolist() == [1]


def test_a_missing_or_invalid_store_is_refused(path: Path) -> None:
    with pytest.raises(HarnessError, match="the run has no store"):
        RunReader(path)
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(HarnessError, match="cannot be read"):
        RunReader(path)


def test_a_store_of_a_newer_version_is_refused(path: Path) -> None:
    open_store(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    with pytest.raises(HarnessError, match=rf"schema version {SCHEMA_VERSION + 1}.*Update the harness"):
        RunReader(path)


def test_the_reported_share_of_an_open_batch_counts_while_the_job_runs(path: Path) -> None:
    store = open_store(path)
    with store.transaction():
        store.add_plan("guess", 40.0)
        store.end_batch(*store.begin_batch("guess/0/0", 10.0))
        open_batch = store.begin_batch("guess/0/10", 10.0)
        store.set_step(*open_batch, 0.5, "token 25 of 50")
    with RunReader(path) as reader:
        (running,) = reader.stages(is_running=True)
        assert (running.done, running.batches_done, reader.open_step()) == (15.0, 1, "token 25 of 50")
        (stopped,) = reader.stages()
        assert stopped.done == 10.0 and stopped.seconds <= running.seconds
    with store.transaction():
        # A report of an attempt that is void changes nothing.
        again = store.begin_batch("guess/0/10", 10.0)
        store.clear_steps()
        store.set_step(*open_batch, 0.9, "late")
    with RunReader(path) as reader:
        assert reader.open_step() == "" and reader.stages(is_running=True)[0].done == 10.0
    with store.transaction():
        store.set_step(*again, 0.9, "token 45 of 50")
        store.end_batch(*again)
    with RunReader(path) as reader:
        assert reader.open_step() == "" and reader.stages(is_running=True)[0].done == 20.0
    store.close()


@pytest.mark.parametrize(
    ("table", "column", "read"),
    [
        ("guess", "score", lambda path: GuessReader(path, suffix_length=2, vocabulary=9).committed_guesses()),
        ("done", "batch", lambda path: GuessReader(path, suffix_length=2, vocabulary=9).committed_guesses()),
        ("done", "batch", lambda path: RunReader(path).done_keys()),
        ("point", "rows", lambda path: RunReader(path).points()),
        ("audit_figure", "name", lambda path: AuditReader(path).audit_rows(FIGURES)),
        ("audit_figure", "of", lambda path: AuditReader(path).newest_figures()),
    ],
)
def test_a_missing_column_is_named(path: Path, table: str, column: str, read: Callable[[Path], object]) -> None:
    RunStore(path, TABLES | {"audit_figure": FIGURES}).close()
    with sqlite3.connect(path) as db:
        db.execute(f'ALTER TABLE {table} DROP COLUMN "{column}"')
    with pytest.raises(HarnessError, match=rf"run\.db: cannot be read \(no such column: .*{column}"):
        read(path)


def test_the_time_in_which_a_model_is_loaded_is_not_that_of_a_batch(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run.db", {})
    with store.transaction():
        store.add_event("execution")
        store.add_plan("guess", 2.0)
        batch, attempt = store.begin_batch("guess/0/0+1", 1.0)
        store.add_event("worker_loading")
    with RunReader(tmp_path / "run.db") as reader:
        assert reader.loading_since() is not None
        with store.transaction():
            store.add_event("worker_loaded", key="guess/0/0+1", seconds=1_000.0)
            store.end_batch(batch, attempt)
        assert reader.loading_since() is None
        (stage,) = reader.stages()
        assert (stage.done, stage.seconds, stage.pace) == (1.0, 0.0, 0.0)
        with store.transaction():
            store.add_event("worker_target", number=0)
        assert (reader.loading_left(1), reader.loading_left(3)) == (0.0, 2_000.0)
        with store.transaction():
            store.add_event("worker_loading")
            store.add_event("execution")
        assert reader.loading_since() is None  # The execution that loaded it has ended.
    store.close()
