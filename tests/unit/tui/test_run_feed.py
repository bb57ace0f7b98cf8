"""The feed of a run reads each row once, and reports a damaged run in its snapshot instead of raising an exception."""

import contextlib
import math
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import HarnessError
from harness.runs.attack_record import any_guess_correct, scorecard_of, submission_now
from harness.runs.folder import RunFolder
from harness.runs.guess_reader import GuessReader
from harness.runs.status import Status
from harness.tui import run_feed
from harness.tui.run_feed import MAX_LINES, RunFeed
from harness.tui.snapshot import RunSnapshot, Verdict
from tests.records import EXAMPLES, Recorded, recorded_run

RIGHT, WRONG = True, False


@pytest.fixture
def run(home: Path) -> Iterator[Recorded]:
    recorded = recorded_run(home, pid=os.getpid())
    yield recorded
    with contextlib.suppress(sqlite3.ProgrammingError):
        recorded.store.close()


def seqs(snapshot: RunSnapshot) -> list[int]:
    return [line.seq for line in snapshot.lines[Verdict.ALL]]


def assert_as_scored(snapshot: RunSnapshot, folder: RunFolder) -> None:
    """Check that the figures equal the scorecard computed from the record."""
    scorecard = scorecard_of(folder.attack_spec(), submission_now(folder))
    assert snapshot.figures.recall_at_cap == pytest.approx(scorecard["recall_at_cap"])
    assert snapshot.figures.rows == scorecard["rows"]
    assert snapshot.figures.exact_at_1 == pytest.approx(scorecard["exact_at_1"])
    with GuessReader.of_run(folder, folder.attack_spec()) as reader:
        assert snapshot.figures.any_guess_correct == pytest.approx(
            any_guess_correct(folder.attack_spec(), reader.guesses(), reader.final_order())
        )


def test_each_guess_appears_once_in_arrival_order(run: Recorded) -> None:
    feed = RunFeed(run.folder)
    assert feed.poll().lines[Verdict.ALL] == ()
    batch = run.batch("a")
    run.guess(batch, [(0, RIGHT, 0.5), (1, WRONG, 0.25)])
    first = feed.poll()
    run.guess(batch, [(2, RIGHT, float("-inf"))])
    second = feed.poll()
    third = feed.poll()
    assert seqs(first) == [1, 2] and seqs(second) == seqs(third) == [1, 2, 3]
    assert [line.is_right for line in third.lines[Verdict.ALL]] == [True, False, True]
    assert third.lines[Verdict.ALL][1].suffix.tolist() != run.answers[1].tolist()
    assert third.lines[Verdict.ALL][2].suffix.tolist() == run.answers[2].tolist()
    assert third.figures.any_guess_correct == pytest.approx(2 / EXAMPLES)
    assert_as_scored(third, run.folder)


def test_each_verdict_has_its_own_lines(run: Recorded) -> None:
    suffixes = run.answers[[0, 1, 2]].copy()
    # Example 1 is a near miss, and so is example 2, whose four tokens all differ.
    suffixes[1, 0] ^= 1
    suffixes[2] ^= 1
    batch = run.batch("a")
    with run.store.transaction():
        columns = {"example": np.arange(3), "suffix": suffixes, "score": np.zeros(3), "trial": np.zeros(3, int)}
        run.store.add_rows(*batch, "guess", columns)
    lines = RunFeed(run.folder).poll().lines
    examples = {verdict: [line.example for line in lines[verdict]] for verdict in Verdict}
    assert examples == {
        Verdict.ALL: [0, 1, 2],
        Verdict.RIGHT: [0],
        Verdict.WRONG: [1, 2],
        Verdict.NEAR_MISS: [1, 2],
    }
    assert [line.differing for line in lines[Verdict.ALL]] == [0, 1, 4]


def test_a_right_guess_stays_listed_after_many_wrong_ones(run: Recorded) -> None:
    run.guess(run.batch("a"), [(0, RIGHT, 1.0)])
    run.guess(run.batch("b"), [(number % EXAMPLES, WRONG, -number) for number in range(MAX_LINES + 40)])
    lines = RunFeed(run.folder).poll().lines
    assert [line.seq for line in lines[Verdict.RIGHT]] == [1]
    assert len(lines[Verdict.WRONG]) == MAX_LINES


def test_the_band_is_around_the_curve_and_is_read_after_the_first_picture(run: Recorded) -> None:
    feed = RunFeed(run.folder)
    run.guess(run.batch("a"), [(example, example % 2 == 0, -example) for example in range(EXAMPLES)])
    assert feed.poll().band is None
    snapshot = feed.poll()
    band, figures = snapshot.band, snapshot.figures
    assert band is not None and figures.errors is not None and figures.recall is not None
    recall = np.interp(band.errors, figures.errors, figures.recall)
    assert (band.low <= recall + 1e-9).all() and (recall <= band.high + 1e-9).all()
    assert (band.low < band.high).any()


def test_a_band_lies_around_the_curve_even_if_it_is_older_than_the_curve(run: Recorded) -> None:
    feed = RunFeed(run.folder)
    run.guess(run.batch("a"), [(example, example < 2, -float(example)) for example in range(EXAMPLES)])
    feed.poll()
    assert feed.poll().band is not None
    # No other band is computed during the test.
    feed._next_band = math.inf
    for solved in (6, 12, EXAMPLES):
        rows = [(example, RIGHT, 1.0 - example / 100) for example in range(solved)]
        run.guess(run.batch(f"{solved}"), rows)
        snapshot = feed.poll()
        band, figures = snapshot.band, snapshot.figures
        assert band is not None and figures.errors is not None and figures.recall is not None
        assert band.errors.tolist() == figures.errors.tolist() and figures.recall[-1] >= solved / EXAMPLES
        assert (band.low <= figures.recall).all() and (figures.recall <= band.high).all()
        assert (band.low >= 0).all() and (band.high <= 1).all() and (band.low < band.high).any()


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
    assert (snapshot.figures.guessed, snapshot.figures.any_guess_correct) == (2, 0.0)
    assert_as_scored(snapshot, run.folder)
    assert seqs(RunFeed(run.folder).poll()) == [1, 4]


def test_a_lowered_score_is_read_again(run: Recorded) -> None:
    feed = RunFeed(run.folder)
    batch = run.batch("a")
    run.guess(batch, [(0, WRONG, 3.0), (0, RIGHT, 2.0), (1, WRONG, 2.5)])
    feed.poll()
    run.guess(batch, [(0, WRONG, 1.0)])
    lowered = feed.poll()
    assert lowered.figures.exact_at_1 == pytest.approx(1 / EXAMPLES)
    assert_as_scored(lowered, run.folder)
    # The rows are read with their scores, so that a later guess with a higher score replaces the first one.
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
    assert_as_scored(feed.poll(), run.folder)


def test_points_rate_and_telemetry_come_from_the_record(run: Recorded) -> None:
    feed = RunFeed(run.folder)
    assert feed.poll().rates == ()
    for number in range(3):
        batch = run.batch(str(number))
        with run.store.transaction():
            run.store.end_batch(*batch)
            run.store.add_point(spent=float(number), guesses=number, rows=number, solved=0, wrong=0, recall=number / 9)
            run.store.add_telemetry({"cpu": number})
    for snapshot in (feed.poll(), feed.poll()):
        assert snapshot.recall.at.tolist() == [0.0, 1.0, 2.0] and snapshot.recall.value[-1] == pytest.approx(2 / 9)
        assert snapshot.telemetry == {"cpu": 2}
        assert len(snapshot.rates) == 2 and min(snapshot.rates) > 0


def test_a_long_history_keeps_its_newest_point(run: Recorded) -> None:
    with run.store.transaction():
        for number in range(5000):
            run.store.add_point(spent=float(number), guesses=number, rows=0, solved=0, wrong=0, recall=0.0)
    history = RunFeed(run.folder).poll().recall.at
    assert len(history) <= 2501 and history[-1] == 4999.0


def test_a_blind_round_has_unknown_verdicts_and_no_recall(home: Path) -> None:
    blind = recorded_run(home, is_blind=True, pid=os.getpid())
    blind.guess(blind.batch("a"), [(0, RIGHT, 0.5), (1, WRONG, 0.25)])
    with blind.store.transaction():
        blind.store.add_point(spent=1.0, guesses=2, rows=2, solved=None, wrong=None, recall=None)
    snapshot = RunFeed(blind.folder).poll()
    assert {line.is_right for line in snapshot.lines[Verdict.ALL]} == {None}
    assert snapshot.figures.recall_at_cap is None and snapshot.recall.title == "Guesses"
    assert snapshot.figures.guessed == 2 and snapshot.recall.value.tolist() == [2]


def test_a_long_log_shows_its_end(run: Recorded) -> None:
    feed = RunFeed(run.folder)
    assert feed.poll().log == ()
    run.folder.log.write_bytes(b"a" * 20_000 + b"\nlast \xff\n")
    assert feed.poll().log == ("last �",)
    run.folder.log.write_bytes(b"b" * 20_000)
    assert set("".join(feed.poll().log)) == {"b"}


def test_a_run_whose_supervisor_was_killed_is_lost(home: Path) -> None:
    killed = recorded_run(home, pid=os.getpid())
    feed = RunFeed(killed.folder)
    killed.event("phase", phase="running")
    assert feed.poll().summary.status is Status.RUNNING
    killed.release()
    assert feed.poll().summary.status is Status.LOST


def add_row(run: Recorded, batch: str, *, example: int = 0, suffix: np.ndarray | None = None) -> None:
    columns = {"example": np.array([example]), "score": np.array([0.0]), "trial": np.array([0])}
    with run.store.transaction():
        suffix = run.answers[:1] if suffix is None else suffix
        run.store.add_rows(*run.store.begin_batch(batch, 1.0), "guess", columns | {"suffix": suffix})


def add_phase(run: Recorded, detail: str) -> None:
    run.store._db.execute("INSERT INTO event (at, name, detail) VALUES (0, 'phase', ?)", (detail,))


def replace_store(run: Recorded, content: bytes | None) -> None:
    """Replace the store by a file, or by a directory."""
    run.store.close()
    run.folder.store.unlink()
    run.folder.store.mkdir() if content is None else run.folder.store.write_bytes(content)


def truncate_store(run: Recorded) -> None:
    run.store.close()
    os.truncate(run.folder.store, run.folder.store.stat().st_size // 3)


def delete_run(run: Recorded) -> None:
    run.store.close()
    shutil.rmtree(run.folder.path)


def write_scorecard_of_wrong_types(run: Recorded) -> None:
    run.event("phase", phase="finished")
    run.folder.scorecard.write_text('{"recall_at_cap": "[/", "recall_interval": 3}')


DAMAGES: dict[str, Callable[[Recorded], object]] = {
    "deleted run": delete_run,
    "scorecard of wrong types": write_scorecard_of_wrong_types,
    "no store": lambda run: replace_store(run, b"\x00[/ no store \xff" * 4000),
    "half a store": truncate_store,
    "directory in place of the store": lambda run: replace_store(run, None),
    "empty store": lambda run: replace_store(run, b""),
    "unknown example": lambda run: add_row(run, "stranger", example=-1),
    "short suffix": lambda run: add_row(run, "short", suffix=run.answers[:1, :3]),
    "event without JSON": lambda run: add_phase(run, "{[/"),
    "unknown phase": lambda run: add_phase(run, '{"phase": "dancing"}'),
    "binary note": lambda run: run.folder.note.write_bytes(b"\xff\xfe"),
    "half a spec": lambda run: run.folder.spec_file.write_text("{"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_an_error_at_first_and_later_a_fault_next_to_the_last_values(
    run: Recorded, damage: str
) -> None:
    run.guess(run.batch("a"), [(number, RIGHT, number) for number in range(EXAMPLES)])
    feed = RunFeed(run.folder)
    before = feed.poll()
    assert before.fault is None
    DAMAGES[damage](run)
    for _ in range(2):
        after = feed.poll()
        assert after.fault is not None and str(run.folder.path) in after.fault
        assert (after.summary, after.lines) == (before.summary, before.lines)
    with pytest.raises(HarnessError, match=r"cannot be read|no such file|not the spec of a run|holds a guess"):
        RunFeed(run.folder).poll()


def test_telemetry_without_a_number_is_omitted(run: Recorded) -> None:
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
