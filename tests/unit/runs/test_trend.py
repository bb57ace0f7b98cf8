"""The trend of a run: its curve in 16 equal steps of time."""

import json
from pathlib import Path

import pytest

from harness.runs.reader import RunReader
from harness.runs.summary import TREND_VALUES, run_summary
from tests.unit.tui.recorded import Recorded, recorded_run
from tests.unit.tui.recorded_audit import recorded_audit


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
    for name in ("tags", "parent", "changed", "trend", "queue_position", "queue_length", "waits_for", "wait_at_most_s"):
        del cache["summary"][name]
    run.folder.summary.write_text(json.dumps(cache))
    assert run_summary(run.folder) == expected and expected.trend
    assert run_summary(run.folder) == expected
