"""A run in words: pure functions of a snapshot."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.runs.status import Status
from harness.tui.feed import RunFeed
from harness.tui.snapshot import Snapshot
from harness.tui.widgets.panels import figure_lines, header_lines, resource_lines
from tests.functional.machine import homes
from tests.unit.tui.recorded import recorded_run


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    folder: Path = tmp_path_factory.mktemp("panels")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in homes(folder).items():
            patch.setenv(name, value)
        run = recorded_run(folder)
        run.guess(run.batch("a"), [(0, True, 1.0), (1, False, 0.5)])
        return RunFeed(run.folder).poll()


def with_summary(snapshot: Snapshot, **fields: object) -> Snapshot:
    return dataclasses.replace(snapshot, summary=dataclasses.replace(snapshot.summary, **fields))


@given(width=st.integers(0, 300), elapsed=st.floats(0, 1e6), budget=st.floats(1, 1e6))
def test_the_gauge_fills_what_the_words_leave(snapshot: Snapshot, width: int, elapsed: float, budget: float) -> None:
    running = with_summary(snapshot, status=Status.RUNNING, reason="", elapsed_s=elapsed, budget_s=budget)
    _, line = header_lines(running, width=width)
    gauge, _, words = line.partition(" ")
    assert 6 <= len(gauge) <= 40 and set(gauge) <= {"█", "░"}
    assert len(line) <= max(width, 7 + len(words))
    assert gauge.count("█") == round(min(1.0, elapsed / budget) * len(gauge))


@pytest.mark.parametrize(("eta", "words"), [(30.0, "ETA 0:30 fits"), (51.0, "ETA 0:51 beyond the budget!")])
def test_the_header_says_whether_the_eta_fits_the_budget(snapshot: Snapshot, eta: float, words: str) -> None:
    running = with_summary(
        snapshot, status=Status.RUNNING, reason="", elapsed_s=10.0, budget_s=60.0, eta_s=eta, progress=0.25
    )
    who, how_far = header_lines(running, width=100)
    assert (
        "· running · abcd-some" in who and "0:10 of 1:00, 0:50 left · 25% done" in how_far and how_far.endswith(words)
    )


def test_a_fault_stands_before_what_was_read_last(snapshot: Snapshot) -> None:
    _, how_far = header_lines(dataclasses.replace(snapshot, fault="gone [/ \x1b[31m"), width=100)
    assert how_far.startswith("cannot be read now: gone [/ ") and how_far.isprintable()


def test_the_figures_name_the_ceiling(snapshot: Snapshot) -> None:
    lines = figure_lines(snapshot)
    assert lines[0].split() == ["recall", "at", "100", "0.062"]
    assert "any of n        0.062  the ceiling" in lines and "submission      2 rows" in lines


def test_resources_show_what_was_measured_and_nothing_else(snapshot: Snapshot) -> None:
    snapshot = with_summary(snapshot, status=Status.RUNNING)
    assert resource_lines(dataclasses.replace(snapshot, telemetry={}, suffixes_per_s=None), 50) == []
    seen = {"cpu": 150.0, "memory": 2**30, "machine_cpu": 80.0, "machine_memory_free": 2**31}
    gpu = {"gpu": 97, "gpu_memory": 3 * 2**30, "gpu_power": 312.5, "gpu_temperature": 61}
    lines = resource_lines(dataclasses.replace(snapshot, telemetry=seen | gpu, suffixes_per_s=40.0), 50)
    assert lines[:2] == ["suffixes        40.0 a second", "tokens          2,000 a second"]
    over = with_summary(snapshot, status=Status.STOPPED)
    assert resource_lines(dataclasses.replace(over, telemetry=seen, suffixes_per_s=40.0), 50) == []
    assert "GPU             97 %, 3.0 GiB" in lines and "                312 W, 61 °C" in lines
