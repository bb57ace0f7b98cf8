"""The overview: a run that is over is read again only after a change."""

import os
from pathlib import Path

import pytest

from harness.runs.status import Status
from harness.tui.overview import OverviewFeed
from tests.functional.machine import homes
from tests.unit.tui.recorded import recorded_run


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)


def statuses(feed: OverviewFeed) -> list[Status]:
    return [run.status for run in feed.poll().runs]


def test_a_resumed_lost_run_is_seen_at_once(tmp_path: Path) -> None:
    run, feed = recorded_run(tmp_path), OverviewFeed(None)
    assert statuses(feed) == [Status.LOST]
    run.supervised_by(os.getpid())
    run.event("phase", phase="running")
    assert statuses(feed) == [Status.RUNNING]


def test_a_resumed_stopped_run_is_seen_while_its_rows_are_in_the_journal(tmp_path: Path) -> None:
    run, feed = recorded_run(tmp_path, pid=os.getpid()), OverviewFeed(None)
    run.event("phase", phase="stopped", reason="it was stopped.")
    assert statuses(feed) == [Status.STOPPED]
    assert run.folder.write_ahead_log.exists()
    run.supervised_by(os.getpid())
    run.event("phase", phase="running")
    assert statuses(feed) == [Status.RUNNING]
