"""The overview reads a run that is over, and the list of attacks, again only after a change."""

import os
from pathlib import Path

from harness.plugins.scaffold import new_attack
from harness.runs.status import Status
from harness.tui.overview import OverviewFeed
from tests.records import recorded_run


def statuses(feed: OverviewFeed) -> list[Status]:
    return [run.status for run in feed.poll().runs]


def test_a_resumed_lost_run_is_running_at_once(home: Path) -> None:
    run, feed = recorded_run(home), OverviewFeed(None)
    assert statuses(feed) == [Status.LOST]
    run.supervised_by(os.getpid())
    run.event("phase", phase="running")
    assert statuses(feed) == [Status.RUNNING]


def test_a_resumed_stopped_run_is_read_from_the_write_ahead_log(home: Path) -> None:
    run, feed = recorded_run(home, pid=os.getpid()), OverviewFeed(None)
    run.event("phase", phase="stopped", reason="it was stopped.")
    assert statuses(feed) == [Status.STOPPED]
    assert run.folder.write_ahead_log.exists()
    run.supervised_by(os.getpid())
    run.event("phase", phase="running")
    assert statuses(feed) == [Status.RUNNING]


def test_saved_and_deleted_attacks_are_listed_at_the_next_poll(tmp_path: Path) -> None:
    feed = OverviewFeed(tmp_path)

    def errors() -> dict[str, str | None]:
        return {attack.name: attack.error for attack in feed.poll().attacks if attack.path.parent == tmp_path}

    assert errors() == {}
    path = new_attack("mine", tmp_path)
    assert errors() == {"mine": None}
    path.write_text("broken", encoding="utf-8")
    assert errors()["mine"] is not None
    path.unlink()
    assert errors() == {}
