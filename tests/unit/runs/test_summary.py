"""The summary of a run: its cache, until a file of the record changes, and the trend in 16 equal steps of time."""

import json
import os
from pathlib import Path

import pytest

from harness.runs.reader import RunReader, StageWork
from harness.runs.status import Status
from harness.runs.summary import TREND_VALUES, run_summary
from tests.records import Recorded, recorded_audit, recorded_run


@pytest.fixture
def run(home: Path) -> Recorded:
    return recorded_run(home, pid=os.getpid())


def finish(run: Recorded) -> None:
    with run.store.transaction():
        run.store.add_plan("guess", 16.0, draw_weight=2.0, is_announced=True)
    run.event("phase", phase="finished")
    run.store.close()


def test_a_finished_run_is_read_from_its_cache(run: Recorded) -> None:
    finish(run)
    summary = run_summary(run.folder)
    cache = json.loads(run.folder.summary.read_text())
    cache["summary"]["guesses"] = 12345
    run.folder.summary.write_text(json.dumps(cache))
    cached = run_summary(run.folder)
    assert cached.guesses == 12345 and summary.guesses == 0
    assert cached.stages == summary.stages == (StageWork("guess", 16.0, 0.0, 0, draw_weight=2.0, is_announced=True),)


def test_a_change_of_the_record_invalidates_the_cache(run: Recorded) -> None:
    finish(run)
    first = run_summary(run.folder)
    run.folder.note.write_text("a note")
    assert run_summary(run.folder).note == "a note"
    run.folder.note.unlink()
    assert run_summary(run.folder) == first


def test_a_run_that_is_alive_or_lost_is_not_cached(run: Recorded) -> None:
    run.event("phase", phase="running")
    assert run_summary(run.folder).status is Status.RUNNING
    run.release()
    assert run_summary(run.folder).status is Status.LOST
    assert not run.folder.summary.exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"state": 1, "summary": {}}'])
def test_a_damaged_cache_is_ignored(run: Recorded, content: str) -> None:
    finish(run)
    expected = run_summary(run.folder)
    run.folder.summary.write_text(content)
    assert run_summary(run.folder) == expected


def test_a_moved_run_has_its_new_path_in_the_summary(run: Recorded) -> None:
    finish(run)
    run_summary(run.folder)
    moved = run.folder.path.with_name("wxyz-moved")
    run.folder.path.rename(moved)
    assert run_summary(type(run.folder)(moved)).directory == str(moved)


def add_points(run: Recorded, points: list[tuple[float, float | None]]) -> None:
    with run.store.transaction():
        for number, (spent, recall) in enumerate(points, 1):
            run.store.add_point(spent=spent, guesses=number, rows=1, solved=None, wrong=None, recall=recall)


def test_a_run_without_points_has_no_trend(home: Path) -> None:
    assert run_summary(recorded_run(home).folder).trend == ()


def test_the_trend_has_the_recall_at_equal_steps_of_the_time_spent(home: Path) -> None:
    run = recorded_run(home)
    add_points(run, [(4.0, 0.25), (12.0, 0.5)])
    with run.store.transaction():
        run.store.add_ledger("tick", 16.0)
    trend = run_summary(run.folder).trend
    # One step is a second. A value stays until the next point.
    assert trend == (0.0,) * 3 + (0.25,) * 8 + (0.5,) * 5


def test_the_trend_of_a_blind_round_is_the_number_of_guesses(home: Path) -> None:
    run = recorded_run(home, is_blind=True)
    add_points(run, [(1.0, None), (2.0, None), (3.0, None), (4.0, None)])
    assert run_summary(run.folder).trend[3::4] == (0.25, 0.5, 0.75, 1.0)


@pytest.mark.parametrize("count", [1, 2, 255, 256, 257, 5000])
def test_the_trend_of_a_long_run_is_read_from_few_points(home: Path, count: int) -> None:
    run = recorded_run(home)
    add_points(run, [(float(second), second / count) for second in range(1, count + 1)])
    with RunReader(run.folder.store) as reader:
        read = reader.sampled_points(256)
    assert len(read) == min(count, 256) and read[-1].spent == count
    trend = run_summary(run.folder).trend
    assert len(trend) == TREND_VALUES and trend[-1] == 1.0
    assert (
        all(abs(value - step / TREND_VALUES) <= 1 / count + 1 / 128 for step, value in enumerate(trend, 1)) or count < 3
    )


def test_an_audit_has_no_trend(home: Path) -> None:
    assert run_summary(recorded_audit().folder).trend == ()


def test_a_cached_summary_of_an_earlier_version_is_read_again(home: Path) -> None:
    run = recorded_run(home)
    add_points(run, [(4.0, 0.25)])
    run.event("phase", phase="finished")
    run.store.close()
    expected = run_summary(run.folder)
    cache = json.loads(run.folder.summary.read_text())
    for name in (
        "tags",
        "parent",
        "changed",
        "trend",
        "exact_at_1",
        "queue_position",
        "queue_length",
        "waits_for",
        "wait_at_most_s",
    ):
        del cache["summary"][name]
    run.folder.summary.write_text(json.dumps(cache))
    assert run_summary(run.folder) == expected and expected.trend
    assert run_summary(run.folder) == expected
