"""The feed of a run: each row is read once, and a damaged run is a fault in the snapshot, not an exception."""

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import HarnessError
from harness.jobs.attack.reader import GuessReader
from harness.jobs.attack.results import any_of_n, scorecard_of, submission_now
from harness.runs.folder import RunFolder
from harness.runs.status import Status
from harness.tui import run_feed
from harness.tui.run_feed import MAX_LINES, RunFeed
from harness.tui.snapshot import RunSnapshot
from tests.functional.machine import homes
from tests.unit.tui.recorded import EXAMPLES, Recorded, recorded_run

RIGHT, WRONG = True, False


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.fixture
def run(home: Path) -> Iterator[Recorded]:
    recorded = recorded_run(home, pid=os.getpid())
    yield recorded
    with contextlib.suppress(sqlite3.ProgrammingError):
        recorded.store.close()


def seqs(snapshot: RunSnapshot) -> list[int]:
    return [line.seq for line in snapshot.lines]


def assert_as_scored(snapshot: RunSnapshot, folder: RunFolder) -> None:
    """The figures are those of the scorecard that the record makes now."""
    scorecard = scorecard_of(folder.attack_spec(), submission_now(folder))
    assert snapshot.figures.recall_at_cap == pytest.approx(scorecard["recall_at_cap"])
    assert snapshot.figures.rows == scorecard["rows"]
    assert snapshot.figures.exact_at_1 == pytest.approx(scorecard["exact_at_1"])
    with GuessReader.of_run(folder, folder.attack_spec()) as reader:
        assert snapshot.figures.any_of_n == pytest.approx(
            any_of_n(folder.attack_spec(), reader.guesses(), reader.final_order())
        )


def test_each_guess_appears_once_in_arrival_order(run: Recorded) -> None:
    feed = RunFeed(run.folder)
    assert feed.poll().lines == ()
    batch = run.batch("a")
    run.guess(batch, [(0, RIGHT, 0.5), (1, WRONG, 0.25)])
    first = feed.poll()
    run.guess(batch, [(2, RIGHT, float("-inf"))])
    second = feed.poll()
    third = feed.poll()
    assert seqs(first) == [1, 2] and seqs(second) == seqs(third) == [1, 2, 3]
    assert [line.is_right for line in third.lines] == [True, False, True]
    assert third.lines[1].suffix.tolist() != run.answers[1].tolist()
    assert third.lines[2].suffix.tolist() == run.answers[2].tolist()
    assert third.figures.any_of_n == pytest.approx(2 / EXAMPLES)
    assert_as_scored(third, run.folder)


def test_only_the_last_lines_are_kept_and_all_guesses_are_scored(run: Recorded) -> None:
    batch = run.batch("a")
    run.guess(batch, [(number % EXAMPLES, number < EXAMPLES, -number) for number in range(MAX_LINES + 40)])
    snapshot = RunFeed(run.folder).poll()
    assert seqs(snapshot) == list(range(41, MAX_LINES + 41))
    assert snapshot.loaded == 1.0
    assert snapshot.figures.exact_at_1 == 1.0


def test_a_large_store_is_read_in_parts(run: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_feed, "_BATCH_ROWS", 10)
    monkeypatch.setattr(run_feed, "_READING_SECONDS", 1e-9)
    run.guess(run.batch("a"), [(number % EXAMPLES, WRONG, number) for number in range(25)])
    feed = RunFeed(run.folder)
    assert [feed.poll().loaded for _ in range(4)] == pytest.approx([0.4, 0.8, 1.0, 1.0])


def test_a_repeated_batch_voids_its_earlier_guesses(run: Recorded) -> None:
    feed = RunFeed(run.folder)
    run.guess(run.batch("a"), [(0, WRONG, 1.0)])
    run.guess(run.batch("b"), [(1, RIGHT, 3.0), (2, RIGHT, 2.0)])
    assert feed.poll().figures.guessed == 3
    run.guess(run.batch("b"), [(2, WRONG, 4.0)])
    snapshot = feed.poll()
    assert seqs(snapshot) == [1, 4]
    assert (snapshot.figures.guessed, snapshot.figures.any_of_n) == (2, 0.0)
    assert_as_scored(snapshot, run.folder)
    assert seqs(RunFeed(run.folder).poll()) == [1, 4]


def test_a_lowered_score_is_read_again(run: Recorded) -> None:
    feed = RunFeed(run.folder)
    batch = run.batch("a")
    run.guess(batch, [(0, WRONG, 3.0), (0, RIGHT, 2.0), (1, WRONG, 2.5)])
    feed.poll()
    run.guess(batch, [(0, WRONG, 1.0)])
    fallen = feed.poll()
    assert fallen.figures.exact_at_1 == pytest.approx(1 / EXAMPLES)
    assert_as_scored(fallen, run.folder)
    # Scores of the exact rows are true ones: a better guess for example 1 stands before the earlier one.
    run.guess(batch, [(1, RIGHT, 2.75)])
    after = feed.poll()
    assert after.figures.exact_at_1 == pytest.approx(2 / EXAMPLES)
    assert_as_scored(after, run.folder)


def test_a_final_order_is_used_once_the_run_is_over(run: Recorded) -> None:
    feed = RunFeed(run.folder)
    run.guess(run.batch("a"), [(0, RIGHT, 3.0), (1, WRONG, 2.0)])
    with run.store.transaction():
        run.store.add_final(np.array([1]), run.answers[1:2])
    assert feed.poll().figures.rows == 2
    run.event("phase", phase="finished")
    snapshot = feed.poll()
    assert (snapshot.figures.rows, snapshot.figures.exact_at_1) == (1, pytest.approx(1 / EXAMPLES))
    assert (snapshot.figures.score_edges[0], snapshot.figures.score_edges[-1]) == (2.0, 3.0)
    assert_as_scored(feed.poll(), run.folder)


def test_points_rate_and_telemetry_are_those_of_the_record(run: Recorded) -> None:
    feed = RunFeed(run.folder)
    assert feed.poll().suffixes_per_s is None
    for number in range(3):
        batch = run.batch(str(number))
        with run.store.transaction():
            run.store.end_batch(*batch)
            run.store.add_point(spent=float(number), guesses=number, rows=number, solved=0, wrong=0, recall=number / 9)
            run.store.add_telemetry({"cpu": number})
    for snapshot in (feed.poll(), feed.poll()):
        assert snapshot.history.spent.tolist() == [0.0, 1.0, 2.0]
        assert snapshot.history.recall is not None and snapshot.history.recall[-1] == pytest.approx(2 / 9)
        assert snapshot.telemetry == {"cpu": 2}
        assert snapshot.suffixes_per_s is not None and snapshot.suffixes_per_s > 0


def test_a_long_history_keeps_its_newest_point(run: Recorded) -> None:
    with run.store.transaction():
        for number in range(5000):
            run.store.add_point(spent=float(number), guesses=number, rows=0, solved=0, wrong=0, recall=0.0)
    history = RunFeed(run.folder).poll().history
    assert len(history.spent) <= 2501 and history.spent[-1] == 4999.0


def test_a_blind_round_has_unknown_verdicts_and_no_recall(home: Path) -> None:
    blind = recorded_run(home, is_blind=True, pid=os.getpid())
    blind.guess(blind.batch("a"), [(0, RIGHT, 0.5), (1, WRONG, 0.25)])
    with blind.store.transaction():
        blind.store.add_point(spent=1.0, guesses=2, rows=2, solved=None, wrong=None, recall=None)
    snapshot = RunFeed(blind.folder).poll()
    assert {line.is_right for line in snapshot.lines} == {None}
    assert snapshot.figures.recall_at_cap is None and snapshot.history.recall is None
    assert snapshot.figures.guessed == 2 and snapshot.history.guesses.tolist() == [2]


def test_a_long_log_shows_its_end(run: Recorded) -> None:
    feed = RunFeed(run.folder)
    assert feed.poll().log == ()
    run.folder.log.write_bytes(b"a" * 20_000 + b"\nlast \xff\n")
    assert feed.poll().log == ("last �",)
    run.folder.log.write_bytes(b"b" * 20_000)
    assert set("".join(feed.poll().log)) == {"b"}


def test_a_run_whose_supervisor_was_killed_is_lost(home: Path) -> None:
    lonely = recorded_run(home, pid=os.getpid())
    feed = RunFeed(lonely.folder)
    lonely.event("phase", phase="running")
    assert feed.poll().summary.status is Status.RUNNING
    lonely.release()
    assert feed.poll().summary.status is Status.LOST


def deleted(run: Recorded) -> None:
    run.store.close()
    shutil.rmtree(run.folder.path)


def garbage(run: Recorded) -> None:
    run.store.close()
    run.folder.store.write_bytes(b"\x00[/ no store \xff" * 4000)


def truncated(run: Recorded) -> None:
    run.store.close()
    os.truncate(run.folder.store, run.folder.store.stat().st_size // 3)


def a_folder_in_its_place(run: Recorded) -> None:
    run.store.close()
    run.folder.store.unlink()
    run.folder.store.mkdir()


def without_tables(run: Recorded) -> None:
    run.store.close()
    run.folder.store.write_bytes(b"")


def a_stranger_among_its_examples(run: Recorded) -> None:
    batch = run.batch("stranger")
    with run.store.transaction():
        columns = {"example": np.array([-1]), "suffix": run.answers[:1], "score": np.array([0.0])}
        run.store.add_rows(*batch, "guess", columns)


def a_suffix_cut_short(run: Recorded) -> None:
    batch = run.batch("short")
    with run.store.transaction():
        columns = {"example": np.array([0]), "suffix": run.answers[:1, :3], "score": np.array([0.0])}
        run.store.add_rows(*batch, "guess", columns)


def an_event_that_is_no_json(run: Recorded) -> None:
    run.store._db.execute("INSERT INTO event (at, name, detail) VALUES (0, 'phase', '{[/')")


def a_phase_that_there_is_not(run: Recorded) -> None:
    with run.store.transaction():
        run.store.add_event("phase", phase="dancing")


def a_note_of_other_bytes(run: Recorded) -> None:
    run.folder.note.write_bytes(b"\xff\xfe")


def a_spec_cut_short(run: Recorded) -> None:
    run.folder.spec_file.write_text("{")


def a_scorecard_of_other_types(run: Recorded) -> None:
    run.event("phase", phase="finished")
    run.folder.scorecard.write_text('{"recall_at_cap": "[/", "recall_interval": 3}')


FATES = [
    deleted,
    a_scorecard_of_other_types,
    garbage,
    truncated,
    a_folder_in_its_place,
    without_tables,
    a_stranger_among_its_examples,
    a_suffix_cut_short,
    an_event_that_is_no_json,
    a_phase_that_there_is_not,
    a_note_of_other_bytes,
    a_spec_cut_short,
]


@pytest.mark.parametrize("fate", FATES)
def test_a_record_damaged_later_is_a_fault_beside_the_last_values(
    run: Recorded, fate: Callable[[Recorded], None]
) -> None:
    run.guess(run.batch("a"), [(number, RIGHT, number) for number in range(EXAMPLES)])
    feed = RunFeed(run.folder)
    before = feed.poll()
    assert before.fault is None
    fate(run)
    for _ in range(2):
        after = feed.poll()
        assert after.fault is not None and str(run.folder.path) in after.fault
        assert (after.summary, after.lines) == (before.summary, before.lines)


@pytest.mark.parametrize("fate", FATES)
def test_a_record_damaged_before_the_first_poll_is_an_error(run: Recorded, fate: Callable[[Recorded], None]) -> None:
    run.guess(run.batch("a"), [(number, RIGHT, number) for number in range(EXAMPLES)])
    fate(run)
    with pytest.raises(HarnessError, match=r"cannot be read|not the spec of a run|holds a guess"):
        RunFeed(run.folder).poll()


def test_readings_that_are_not_numbers_are_left_out(run: Recorded) -> None:
    with run.store.transaction():
        run.store.add_telemetry({"cpu": "[/", "memory": float("nan"), "machine_cpu": 3})
    assert RunFeed(run.folder).poll().telemetry == {"machine_cpu": 3}


def test_a_locked_store_is_a_fault_until_it_is_unlocked(run: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    run.guess(run.batch("a"), [(0, RIGHT, 1.0)])
    feed = RunFeed(run.folder)
    feed.poll()
    run.store.close()
    other = sqlite3.connect(run.folder.store, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    locked = feed.poll()
    assert locked.fault is not None and "locked" in locked.fault and seqs(locked) == [1]
    other.execute("ROLLBACK")
    other.close()
    assert feed.poll().fault is None
