"""The text of the panels, which depends only on a snapshot."""

import dataclasses
import os
from pathlib import Path

import pytest

from harness.runs.audit_reader import AuditFigure
from harness.runs.reader import StageWork
from harness.runs.status import Status
from harness.tui.audit_feed import AuditFeed
from harness.tui.columns import fit
from harness.tui.run_feed import RunFeed
from harness.tui.screens.watch import who
from harness.tui.snapshot import AuditSnapshot, RunSnapshot
from harness.tui.widgets.panel_text import (
    figure_table,
    metric_facts,
    progress_lines,
    resource_facts,
    warning_lines,
)
from tests.functional.machine import homes
from tests.records import recorded_audit, recorded_run


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


def test_the_metrics_have_the_names_of_the_papers(snapshot: RunSnapshot) -> None:
    facts = dict(metric_facts(snapshot))
    assert facts["exact@1"] == "0.062" and "Recall@100" not in facts  # it is in the large digits
    assert facts["any guess correct"] == "0.062" and facts["submission"] == "2 rows"


def test_a_blind_round_has_no_scores(snapshot: RunSnapshot) -> None:
    figures = dataclasses.replace(snapshot.figures, recall_at_cap=None, exact_at_1=None, any_guess_correct=None)
    facts = dict(metric_facts(dataclasses.replace(snapshot, figures=figures)))
    assert facts["answers"] == "unknown: the round is blind" and "Recall@100" not in facts


def test_resources_show_only_what_was_measured(snapshot: RunSnapshot) -> None:
    snapshot = with_summary(snapshot, status=Status.RUNNING)
    assert resource_facts(dataclasses.replace(snapshot, telemetry={}, rates=())) == []
    seen = {"cpu": 150.0, "memory": 2**30, "machine_cpu": 80.0, "machine_memory_free": 2**31}
    gpu = {"gpu": 97, "gpu_memory": 3 * 2**30, "gpu_power": 312.5, "gpu_temperature": 61}
    facts = dict(resource_facts(dataclasses.replace(snapshot, telemetry=seen | gpu, rates=(20.0, 40.0))))
    assert facts["suffixes/s"] == "40.0  ▅█"
    assert facts["GPU"] == "97 %, 3.0 GiB" and facts["GPU power"] == "312 W, 61 °C"
    over = with_summary(snapshot, status=Status.STOPPED)
    assert resource_facts(dataclasses.replace(over, telemetry=seen, rates=(20.0, 40.0))) == []


def test_the_line_about_a_run_leaves_out_what_does_not_fit(snapshot: RunSnapshot) -> None:
    changed = with_summary(snapshot, changed={"trials": "60", "temperature": "0.7"}, is_partial=True)
    lines = [who(changed, cells).plain for cells in range(60, 200)]
    assert all(len(line) <= cells for line, cells in zip(lines, range(60, 200), strict=True))
    assert "partial  abcd-some" in lines[0] and lines[-1].endswith("trials=60 temperature=0.7")
    assert all(line == lines[-1][: len(line)] for line in lines)


HOSTILE = "[/bold]\x1b[31m\u202e\n"


@pytest.fixture
def audit(home: Path) -> AuditSnapshot:
    recorded = recorded_audit(pid=os.getpid())
    return AuditFeed(recorded.folder).poll()


def cells_of(figures: list[AuditFigure], width: int = 60) -> list[list[str]]:
    """Return the cells of each figure, cut to a width."""
    columns, rows = figure_table(figures)
    assert len(columns) == 4
    cells = [[fit(cell, width) for cell in row.cells] for row in rows]
    return [["".join(text for text, _ in cell).strip() for cell in row] for row in cells]


def test_a_figure_is_a_row_with_its_interval() -> None:
    figures = [AuditFigure("trigram", 0.5, 0.25, 0.75, 1200), AuditFigure("odd", None, None, None, 0)]
    assert cells_of(figures) == [["trigram", "0.500", "[0.250, 0.750]", "1,200"], ["odd", "–", "", ""]]
    assert len(cells_of([AuditFigure("x" * 500, 1.0, None, None, 0)])[0][0]) <= 60


def test_figures_of_a_narrow_table_have_different_names() -> None:
    thresholds = ("trigrams", "first 5 words", "first 10 words", "overlap")
    names = [f"passed, {threshold}, {side}" for threshold in thresholds for side in ("corpus", "control")]
    figures = [AuditFigure(name, 0.5, None, None, 1) for name in names]
    shown = [cells[0] for cells in cells_of(figures, 30)]
    assert all(len(name) <= 30 for name in shown) and len(set(shown)) == len(names)


def test_each_stage_shows_its_progress(audit: AuditSnapshot) -> None:
    stages = (StageWork("complete", 16.0, 4.0, 2), StageWork(HOSTILE, 8.0, 8.0, 1), StageWork("again", 0.0, 0.0, 0))
    summary = dataclasses.replace(audit.summary, stages=stages)
    lines = progress_lines(dataclasses.replace(audit, summary=summary, telemetry={"cpu": 90.0}))
    assert lines[0].startswith("complete") and lines[0].endswith("━━━─────────  25%  batches done: 2")
    assert all(line.isprintable() for line in lines)
    assert lines[1].endswith("100%  batches done: 1")
    assert not any(line.startswith("again") for line in lines)
    assert any(line.startswith("CPU") for line in lines)
    assert progress_lines(audit)[0] == "no stage has started"


def test_the_newest_warnings_are_first_and_the_rest_are_counted() -> None:
    lines = warning_lines([f"Warning {number}{HOSTILE}" for number in range(25)])
    assert lines[1] == "25 warnings:" and lines[2].startswith("! Warning 24[/bold]") and lines[-1] == "… and 5 earlier"
    assert all(line.isprintable() for line in lines)
    assert warning_lines([]) == []
