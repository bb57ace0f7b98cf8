"""The summary of a run: its cache, until a file of the record changes."""

import json
import os
from pathlib import Path

import pytest

from harness.runs.reader import StageWork
from harness.runs.status import Status
from harness.runs.summary import run_summary
from tests.records import Recorded, recorded_run


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
        "exact_at_1",
        "queue_position",
        "queue_length",
        "waits_for",
        "wait_at_most_s",
    ):
        del cache["summary"][name]
    run.folder.summary.write_text(json.dumps(cache))
    assert run_summary(run.folder) == expected and expected.recall_at_cap == 0.25
    assert run_summary(run.folder) == expected
