"""run.db: what is committed is there, what is not is not, and the last attempt of a batch counts."""

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import HarnessError
from harness.runs.disk import DiskFull
from harness.runs.reader import RunReader
from harness.runs.store import RunStore

SHAPE = {"suffix_length": 3, "vocabulary": 1000}


def _add(store: RunStore, key: str, ids: list[int], score: float, *, done: bool) -> None:
    with store.transaction():
        batch, attempt = store.begin_batch(key, 1.0)
        suffixes = np.tile(np.array(ids, np.uint16)[:, None], (1, 3))
        store.add_guesses(batch, attempt, np.array(ids), suffixes, np.full(len(ids), score))
        if done:
            store.end_batch(batch, attempt)


def test_the_last_attempt_of_a_batch_counts(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run.db")
    _add(store, "a", [1, 2], 0.5, done=True)
    _add(store, "b", [3, 4], 0.5, done=False)
    store.close()
    store = RunStore(tmp_path / "run.db")
    _add(store, "b", [4], 0.25, done=False)
    with RunReader(tmp_path / "run.db") as reader:
        committed = reader.committed(**SHAPE)
        assert committed.guesses.ids.tolist() == [1, 2, 4]
        assert committed.batches.tolist() == [0, 0, 1]
        assert committed.is_done.tolist() == [True, True, False]
        assert committed.guesses.suffixes.tolist() == [[1] * 3, [2] * 3, [4] * 3]
        assert reader.done_keys() == ["a"] and reader.guess_count() == 5
        assert reader.progress().done == 1.0


def test_what_is_kept_under_one_name_takes_the_place_of_one(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run.db")
    for step in range(40):
        with store.transaction():
            store.add_kept("tuning", np.full(1 << 17, step, np.float64))
    store.close()
    # 40 MiB have been kept, one at a time.
    assert (tmp_path / "run.db").stat().st_size < 4 << 20
    with RunReader(tmp_path / "run.db") as reader:
        assert (reader.kept()["tuning"] == 39).all()


def test_nothing_of_a_transaction_that_fails_is_there(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run.db")
    with pytest.raises(RuntimeError), store.transaction():
        store.add_ledger("start", 1.0)
        raise RuntimeError
    with store.transaction():
        store.add_ledger("start", 2.0)
    with RunReader(tmp_path / "run.db") as reader:
        assert [entry.spent for entry in reader.ledger()] == [2.0]


def test_a_word_of_the_ledger_from_another_thread_waits_for_a_transaction_and_is_as_late_as_it_stands(
    tmp_path: Path,
) -> None:
    store, spent = RunStore(tmp_path / "run.db"), [1.0]
    beside = threading.Thread(target=store.commit_ledger, args=("tick", lambda: spent[0]))
    with store.transaction():
        beside.start()
        store.add_ledger("start", 0.0)
        beside.join(0.2)
        assert beside.is_alive()
        spent[0] = 2.0
    beside.join()
    with RunReader(tmp_path / "run.db") as reader:
        assert [(entry.entry, entry.spent) for entry in reader.ledger()] == [("start", 0.0), ("tick", 2.0)]


def test_rows_that_a_full_disk_refused_are_written_once_there_is_room(tmp_path: Path) -> None:
    store, waits = RunStore(tmp_path / "run.db"), []
    store._db.execute("PRAGMA max_page_count=40")

    def make_room_at_the_third_try() -> None:
        waits.append(store._turn.locked())
        if len(waits) == 3:
            store._db.execute("PRAGMA max_page_count=10000")

    store.wait_for_room = make_room_at_the_third_try
    with store.transaction():
        batch, attempt = store.begin_batch("a", 1.0)
        store.add_guesses(batch, attempt, np.array([1]), np.ones((1, 3), np.uint16), np.array([0.5]))
        store.add_kept("large", np.zeros(1 << 16))
    # Nobody else was kept out while it waited.
    assert waits == [False] * 3
    with RunReader(tmp_path / "run.db") as reader:
        assert reader.guesses(**SHAPE).ids.tolist() == [1] and reader.kept()["large"].size == 1 << 16
        assert reader.repeated_batches() == {}


def test_a_full_disk_that_nobody_waits_for_leaves_the_store_usable(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run.db")
    store._db.execute("PRAGMA max_page_count=40")
    with pytest.raises(DiskFull), store.transaction():
        store.add_kept("large", np.zeros(1 << 20))
    with store.transaction():
        store.add_ledger("end", 3.0)
    with RunReader(tmp_path / "run.db") as reader:
        assert [entry.spent for entry in reader.ledger()] == [3.0]


def test_a_store_that_can_be_seen_can_be_read(tmp_path: Path) -> None:
    """A process killed while it makes the store leaves either none or a whole one."""
    code = "import sys; from pathlib import Path; from harness.runs.store import RunStore; RunStore(Path(sys.argv[1]))"
    for number in range(12):
        path = tmp_path / f"{number}.db"
        process = subprocess.Popen([sys.executable, "-c", code, str(path)])
        while not path.exists() and process.poll() is None:
            pass
        process.kill()
        process.wait()
        with RunReader(path) as reader:
            assert reader.last_event("phase") is None
        RunStore(path).close()


def test_a_store_whose_writer_died_while_it_opened_or_closed_it_can_be_read_without_writing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from harness.runs.store import RunStore\n"
        "while True: RunStore(Path(sys.argv[1])).close()"
    )
    chance = random.Random(2)
    for number in range(8):
        path = tmp_path / f"{number}.db"
        store = RunStore(path)
        with store.transaction():
            store.add_ledger("end", 1.0)
        store.close()
        process = subprocess.Popen([sys.executable, "-c", code, str(path)])
        stamp = path.stat().st_mtime_ns
        while path.stat().st_mtime_ns == stamp:
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 0.1))
        process.kill()
        process.wait()
        with RunReader(path) as reader:
            assert [entry.spent for entry in reader.ledger()] == [1.0]


def test_a_store_that_has_ended_is_one_file(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run.db")
    _add(store, "a", [1], 0.5, done=True)
    assert (tmp_path / "run.db-wal").exists()
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == ["run.db"]


def test_a_reader_sees_rows_as_they_are_committed(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run.db")
    with RunReader(tmp_path / "run.db") as reader:
        for number in range(3):
            with store.transaction():
                store.add_event("tick", number=number)
            assert reader.last_event("tick") == {"number": number}
        assert len(reader.events(after=1)) == 2


def test_infinite_scores_and_large_tokens_come_back(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run.db")
    with store.transaction():
        batch, attempt = store.begin_batch("", 0.0)
        suffixes = np.array([[70_000, 0, 1]], np.uint32)
        store.add_guesses(batch, attempt, np.array([0]), suffixes, np.array([-np.inf]))
    with RunReader(tmp_path / "run.db") as reader:
        guesses = reader.guesses()
    assert guesses.suffixes.tolist() == [[70_000, 0, 1]] and guesses.score.tolist() == [-np.inf]


def test_the_last_kept_array_of_a_name_counts(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run.db")
    for value in (np.arange(6).reshape(2, 3), np.zeros((0, 4), np.float32), np.float64(7.5)):
        with store.transaction():
            store.add_kept("x", np.asarray(value))
        with RunReader(tmp_path / "run.db") as reader:
            kept = reader.kept()["x"]
        assert kept.dtype == np.asarray(value).dtype and np.array_equal(kept, value)


def test_the_last_final_order_counts(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "run.db")
    for ids in ([2, 1], [1]):
        with store.transaction():
            store.add_final(np.array(ids), np.zeros((len(ids), 3), np.uint16))
    with RunReader(tmp_path / "run.db") as reader:
        final = reader.final_order(**SHAPE)
    assert final is not None and final.ids.tolist() == [1]


def test_what_is_no_store_is_named_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="the run has no store"):
        RunReader(tmp_path / "run.db")
    (tmp_path / "run.db").write_bytes(b"not a database" * 100)
    with RunReader(tmp_path / "run.db") as reader, pytest.raises(HarnessError, match="cannot be read"):
        reader.events()
