"""The two bars above a run or an audit: budget and work."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.live_score import Figures
from harness.runs.status import Status
from harness.tui.series import Series
from harness.tui.snapshot import RunSnapshot, Snapshot
from harness.tui.widgets.run_figures import bars, difference_to_baseline
from tests.unit.tui.summaries import summary_of

RUNNING = Snapshot(
    summary=summary_of("abcd-1", status=Status.RUNNING, elapsed_s=10.0, budget_s=60.0, progress=0.25, eta_s=30.0)
)


def lines(snapshot: Snapshot) -> list[str]:
    return str(bars(snapshot)).splitlines()


@given(
    elapsed=st.floats(0, 1e6),
    budget=st.floats(1, 1e6),
    progress=st.none() | st.floats(0, 2),
    eta=st.none() | st.floats(0, 1e7),
)
def test_there_are_two_labelled_lines_with_bars_of_one_length(
    elapsed: float, budget: float, progress: float | None, eta: float | None
) -> None:
    summary = replace(RUNNING.summary, elapsed_s=elapsed, budget_s=budget, progress=progress, eta_s=eta)
    spent, work = lines(Snapshot(summary=summary))
    assert spent.startswith("budget ") and work.startswith("work   ")
    assert sum(spent.count(mark) for mark in "━─") == 16
    assert sum(work.count(mark) for mark in "━─") == (0 if progress is None else 16)


@pytest.mark.parametrize(("eta", "words"), [(30.0, "25%  ETA 0:30"), (51.0, "25%  ETA 0:51 (after the budget)")])
def test_an_eta_beyond_the_budget_is_named(eta: float, words: str) -> None:
    spent, work = lines(replace(RUNNING, summary=replace(RUNNING.summary, eta_s=eta)))
    assert spent.endswith(" 17%  0:10 of 1:00") and work.endswith(words)


def test_work_that_is_not_announced_has_no_bar() -> None:
    _, work = lines(replace(RUNNING, summary=replace(RUNNING.summary, progress=None)))
    assert work == "work   not known yet"


def difference(
    recall: float | None, baseline: float | None, *, guessed: int = 16, **fields: object
) -> tuple[str, str, str]:
    figures = Figures(None, None, recall, None, None, guessed, guessed)
    none = Series("", np.zeros(0), np.zeros(0))
    summary = replace(RUNNING.summary, **{"attack": "greedy", "status": Status.FINISHED, **fields})
    snapshot = RunSnapshot(
        summary=summary,
        figures=figures,
        band=None,
        recall=none,
        rates=(),
        lines={},
        counts={},
    )
    return difference_to_baseline(snapshot, baseline, "no finished baseline")


def test_a_difference_needs_a_baseline_and_a_guess() -> None:
    assert difference(0.5, 0.25) == ("+0.250", "to baseline 0.250", "good")
    assert difference(0.25, 0.5) == ("-0.250", "to baseline 0.500", "bad")
    for status in (Status.RUNNING, Status.STOPPED, Status.CRASHED):
        assert difference(0.25, 0.5, status=status) == ("-0.250", "so far, to baseline 0.500", "none")
    assert difference(0.0, 0.5, guessed=0) == ("–", "baseline 0.500", "none")
    assert difference(0.5, None) == ("–", "no finished baseline", "none")
    assert difference(0.5, 0.25, is_partial=True) == ("–", "partial: not compared", "none")


def test_the_best_run_of_the_baseline_is_the_baseline() -> None:
    assert difference(0.5, None, attack="baseline") == ("–", "this is the baseline", "none")
    assert difference(0.5, 0.25, attack="baseline") == ("–", "this is the baseline", "none")
    assert difference(0.25, 0.5, attack="baseline") == ("-0.250", "to baseline 0.500", "bad")
