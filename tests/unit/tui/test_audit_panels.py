"""An audit in words: a row a figure, a line a stage, and warnings that steer nothing."""

import dataclasses
import os
from pathlib import Path

import pytest

from harness.jobs.audit.reader import AuditFigure
from harness.runs.reader import StageWork
from harness.tui.audit_feed import AuditFeed
from harness.tui.snapshot import AuditRow, AuditSnapshot
from harness.tui.widgets.audit_panels import figure_rows, progress_lines, row_line, warning_lines
from tests.functional.machine import homes
from tests.unit.tui.recorded_audit import recorded_audit

HOSTILE = "[/bold]\x1b[31m\u202e\n"


@pytest.fixture
def snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AuditSnapshot:
    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    return AuditFeed(recorded_audit(pid=os.getpid()).folder).poll()


def test_a_figure_is_a_row_with_its_interval_where_it_has_one() -> None:
    rows = figure_rows([AuditFigure("trigram", 0.5, 0.25, 0.75, 1200), AuditFigure("odd", None, None, None, 0)])
    assert [row.cells for row in rows] == [("trigram", "0.5", "[0.25, 0.75]", "1,200"), ("odd", "–", "", "")]
    (long,) = figure_rows([AuditFigure("x" * 500, 1.0, None, None, 0)])
    assert len(long.cells[0]) < 50 and long.key == "x" * 500


def test_stages_are_told_by_what_is_done_of_them(snapshot: AuditSnapshot) -> None:
    stages = (StageWork("complete", 16.0, 4.0, 2), StageWork(HOSTILE, 0.0, 0.0, 0))
    lines = progress_lines(dataclasses.replace(snapshot, stages=stages, telemetry={"cpu": 90.0}))
    assert lines[0].startswith("complete") and lines[0].endswith("███░░░░░░░░░  25%  2 done")
    assert all(line.isprintable() for line in lines)
    assert any(line.startswith("CPU") for line in lines)
    assert progress_lines(snapshot)[0] == "no stage was begun yet"


def test_the_newest_warnings_stand_first_and_the_others_are_counted() -> None:
    lines = warning_lines([f"Warning {number}{HOSTILE}" for number in range(25)])
    assert lines[1] == "25 warnings:" and lines[2].startswith("! Warning 24[/bold]") and lines[-1] == "… and 5 before"
    assert all(line.isprintable() for line in lines)
    assert warning_lines([]) == []


def test_a_row_is_one_line_that_steers_nothing() -> None:
    line = row_line(AuditRow(1, 0.0, "reply", f"item 3 · reply {HOSTILE}"))
    assert line.isprintable() and "reply · item 3 · reply [/bold]" in line
