"""The text of the panels, which depends only on a snapshot."""

import dataclasses
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.jobs.audit.reader import AuditFigure
from harness.runs.reader import StageWork
from harness.runs.status import Status
from harness.tui.audit_feed import AuditFeed
from harness.tui.run_feed import RunFeed
from harness.tui.snapshot import AuditRow, AuditSnapshot, RunSnapshot
from harness.tui.widgets.panel_text import (
    figure_rows,
    header_lines,
    metric_lines,
    progress_lines,
    resource_lines,
    row_line,
    warning_lines,
)
from tests.functional.machine import homes
from tests.unit.tui.recorded import recorded_run
from tests.unit.tui.recorded_audit import recorded_audit


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> RunSnapshot:
    folder: Path = tmp_path_factory.mktemp("panels")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in homes(folder).items():
            patch.setenv(name, value)
        run = recorded_run(folder)
        run.guess(run.batch("a"), [(0, True, 1.0), (1, False, 0.5)])
        return RunFeed(run.folder).poll()


def with_summary(snapshot: RunSnapshot, **fields: object) -> RunSnapshot:
    return dataclasses.replace(snapshot, summary=dataclasses.replace(snapshot.summary, **fields))


@given(width=st.integers(0, 300), elapsed=st.floats(0, 1e6), budget=st.floats(1, 1e6))
def test_the_bar_takes_the_remaining_width(snapshot: RunSnapshot, width: int, elapsed: float, budget: float) -> None:
    running = with_summary(snapshot, status=Status.RUNNING, reason="", elapsed_s=elapsed, budget_s=budget)
    _, line = header_lines(running, width=width)
    bar, _, words = line.partition(" ")
    assert 6 <= len(bar) <= 40 and set(bar) <= {"█", "░"}
    assert len(line) <= max(width, 7 + len(words))
    assert bar.count("█") == round(min(1.0, elapsed / budget) * len(bar))


@pytest.mark.parametrize(("eta", "words"), [(30.0, "ETA 0:30 (within budget)"), (51.0, "ETA 0:51 (over budget)")])
def test_the_header_compares_the_eta_with_the_budget(snapshot: RunSnapshot, eta: float, words: str) -> None:
    running = with_summary(
        snapshot, status=Status.RUNNING, reason="", elapsed_s=10.0, budget_s=60.0, eta_s=eta, progress=0.25
    )
    title, progress = header_lines(running, width=100)
    assert (
        "· running · abcd-some" in title
        and "0:10 of 1:00, 0:50 left · 25% done" in progress
        and progress.endswith(words)
    )


def test_a_fault_is_shown_before_the_last_values(snapshot: RunSnapshot) -> None:
    _, progress = header_lines(dataclasses.replace(snapshot, fault="gone [/ \x1b[31m"), width=100)
    assert progress.startswith("cannot be read now: gone [/ ") and progress.isprintable()


def test_the_metrics_have_the_names_of_the_papers(snapshot: RunSnapshot) -> None:
    lines = metric_lines(snapshot)
    assert lines[0].split() == ["Recall@100", "0.062"] and lines[1].split()[0] == "exact@1"
    assert lines[2] == "upper bound (any guess)  0.062" and lines[5].split() == ["submission", "2", "rows"]


def test_resources_show_only_what_was_measured(snapshot: RunSnapshot) -> None:
    snapshot = with_summary(snapshot, status=Status.RUNNING)
    assert resource_lines(dataclasses.replace(snapshot, telemetry={}, suffixes_per_s=None), 50) == []
    seen = {"cpu": 150.0, "memory": 2**30, "machine_cpu": 80.0, "machine_memory_free": 2**31}
    gpu = {"gpu": 97, "gpu_memory": 3 * 2**30, "gpu_power": 312.5, "gpu_temperature": 61}
    lines = resource_lines(dataclasses.replace(snapshot, telemetry=seen | gpu, suffixes_per_s=40.0), 50)
    assert lines[:2] == ["suffixes/s               40.0", "tokens/s                 2,000"]
    over = with_summary(snapshot, status=Status.STOPPED)
    assert resource_lines(dataclasses.replace(over, telemetry=seen, suffixes_per_s=40.0), 50) == []
    assert "GPU                      97 %, 3.0 GiB" in lines and lines[-1].strip() == "312 W, 61 °C"


HOSTILE = "[/bold]\x1b[31m\u202e\n"


@pytest.fixture
def audit(home: Path) -> AuditSnapshot:
    recorded = recorded_audit(pid=os.getpid())
    return AuditFeed(recorded.folder).poll()


def test_a_figure_is_a_row_with_its_interval() -> None:
    rows = figure_rows([AuditFigure("trigram", 0.5, 0.25, 0.75, 1200), AuditFigure("odd", None, None, None, 0)])
    assert [row.cells for row in rows] == [("trigram", "0.5", "[0.25, 0.75]", "1,200"), ("odd", "–", "", "")]
    (long,) = figure_rows([AuditFigure("x" * 500, 1.0, None, None, 0)])
    assert len(long.cells[0]) < 50 and long.key == "x" * 500


def test_each_stage_shows_its_progress(audit: AuditSnapshot) -> None:
    stages = (StageWork("complete", 16.0, 4.0, 2), StageWork(HOSTILE, 0.0, 0.0, 0))
    lines = progress_lines(dataclasses.replace(audit, stages=stages, telemetry={"cpu": 90.0}))
    assert lines[0].startswith("complete") and lines[0].endswith("███░░░░░░░░░  25%  2 done")
    assert all(line.isprintable() for line in lines)
    assert any(line.startswith("CPU") for line in lines)
    assert progress_lines(audit)[0] == "no stage has started"


def test_the_newest_warnings_are_first_and_the_rest_are_counted() -> None:
    lines = warning_lines([f"Warning {number}{HOSTILE}" for number in range(25)])
    assert lines[1] == "25 warnings:" and lines[2].startswith("! Warning 24[/bold]") and lines[-1] == "… and 5 earlier"
    assert all(line.isprintable() for line in lines)
    assert warning_lines([]) == []


def test_a_row_is_one_printable_line() -> None:
    line = row_line(AuditRow(1, 0.0, "reply", f"item 3 · reply {HOSTILE}"))
    assert line.isprintable() and "reply · item 3 · reply [/bold]" in line
