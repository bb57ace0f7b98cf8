"""The plots of a run, from its snapshot."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.analysis.replay import ReferenceCurve
from harness.tui.plot import Plot
from harness.tui.run_feed import RunFeed
from harness.tui.snapshot import RunSnapshot
from harness.tui.widgets.plot_view import RunPlot, plot_of
from tests.records import EXAMPLES, recorded_run


def snapshot_of(home: Path, *, is_blind: bool = False, guesses: int = EXAMPLES) -> RunSnapshot:
    run = recorded_run(home, is_blind=is_blind, pid=os.getpid())
    if guesses:
        run.guess(run.batch("a"), [(example, example % 2 == 0, -example) for example in range(guesses)])
        for second in range(3):
            recall = None if is_blind else second / 8
            with run.store.transaction():
                run.store.add_point(
                    spent=float(second), guesses=second, rows=second, solved=None, wrong=None, recall=recall
                )
    feed = RunFeed(run.folder)
    feed.poll()
    return feed.poll()


def shown(kind: RunPlot, snapshot: RunSnapshot, reference: ReferenceCurve | None = None) -> Plot:
    plot = plot_of(kind, snapshot, reference)
    assert isinstance(plot, Plot)
    return plot


def test_recall_vs_errors_has_the_band_the_cap_and_the_reference_behind(home: Path) -> None:
    snapshot = snapshot_of(home)
    reference = ReferenceCurve("earlier-1", np.array([0, 300]), np.array([0.0, 0.9]), 0.5)
    plot = shown(RunPlot.ERRORS, snapshot, reference)
    dim, own = plot.lines
    assert dim.number is None and "earlier" in dim.label and own.number == 0
    assert own.low is not None and own.high is not None and (own.low <= own.high).all()
    assert plot.mark == (100.0, "cap 100: 0.500")
    assert plot.x.high >= 300 and plot.y.high >= 0.9


def test_the_cap_is_on_the_axis_of_a_run_without_a_hundred_errors(home: Path) -> None:
    plot = shown(RunPlot.ERRORS, snapshot_of(home))
    assert plot.lines[0].x[-1] < 100 and plot.mark is not None
    assert 0 < float(plot.x.fractions(np.array(plot.mark[0]))) < 1


def test_recall_vs_time_is_the_running_curve(home: Path) -> None:
    plot = shown(RunPlot.TIME, snapshot_of(home))
    assert plot.y.title == "Recall@100" and plot.lines[0].y.tolist() == [0.0, 0.125, 0.25]


def test_a_blind_round_has_guesses_over_time_instead_of_recall(home: Path) -> None:
    snapshot = snapshot_of(home, is_blind=True)
    assert plot_of(RunPlot.ERRORS, snapshot, None) == "The round is blind: recall is not known."
    plot = shown(RunPlot.TIME, snapshot)
    assert plot.y.title == "Guesses" and plot.lines[0].y.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("kind", RunPlot)
def test_a_run_without_guesses_has_a_reason_instead_of_a_plot(home: Path, kind: RunPlot) -> None:
    assert plot_of(kind, snapshot_of(home, guesses=0), None) in {"No guesses yet", "Not measured yet."}


def test_a_run_without_guesses_says_what_it_waits_for_and_one_that_is_over_what_is_read(home: Path) -> None:
    snapshot = snapshot_of(home, guesses=0)
    waits = replace(snapshot, summary=replace(snapshot.summary, step="loading the model, 0:06"))
    assert plot_of(RunPlot.ERRORS, waits, None) == "No guesses yet: loading the model, 0:06"
    assert plot_of(RunPlot.ERRORS, replace(snapshot, loaded=0.5), None) == "reading …"
