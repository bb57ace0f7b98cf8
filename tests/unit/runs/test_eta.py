"""Progress and ETA include the stages that were announced and have not begun."""

from dataclasses import replace

import pytest

from harness.runs.reader import Eta, EtaBasis, StageWork, eta_of, progress_of


def stage(name: str, announced: float, done: float = 0.0, seconds: float = 0.0, *, weight: float = 1.0) -> StageWork:
    """Return an announced stage."""
    return replace(undeclared(name, announced, done, seconds), draw_weight=weight, is_announced=True)


def undeclared(name: str, announced: float, done: float = 0.0, seconds: float = 0.0) -> StageWork:
    """Return a stage that was not announced before it began."""
    return StageWork(name, announced, done, int(done), seconds=seconds, pace=seconds / done if done else None)


def test_a_run_without_stages_has_neither() -> None:
    assert progress_of([]) is None and eta_of([]) is None


def test_there_is_no_eta_before_a_batch_is_done() -> None:
    assert eta_of([stage("guess", 10), stage("train", 10)]) is None
    assert eta_of([undeclared("guess", 10)]) is None


def test_the_only_stage_is_the_run() -> None:
    assert eta_of([undeclared("guess", 10, 4, 8.0)]) == Eta(12.0, EtaBasis.MEASURED)
    assert progress_of([undeclared("guess", 10, 4)]) == 0.4


def test_a_stage_that_has_not_begun_is_estimated_by_its_weight() -> None:
    stages = [stage("train", 10, 4, 8.0), stage("guess", 5, weight=6.0)]
    assert eta_of(stages) == Eta(12.0 + 5 * 6 * 2.0, EtaBasis.ESTIMATED)
    assert progress_of(stages) == 4 / 40


def test_a_stage_takes_the_pace_of_stages_of_equal_weight() -> None:
    stages = [stage("one", 4, 4, 4.0), stage("two", 4, 2, 20.0, weight=3.0), stage("three", 4, weight=3.0)]
    assert eta_of(stages) == Eta(2 * 10.0 + 4 * 10.0, EtaBasis.ESTIMATED)


def test_a_stage_that_has_begun_counts_with_its_own_pace() -> None:
    stages = [stage("one", 4, 4, 4.0), stage("two", 8, 2, 1.0, weight=100.0)]
    assert eta_of(stages) == Eta(3.0, EtaBasis.MEASURED)


def test_a_cancelled_stage_has_no_work_left() -> None:
    assert eta_of([stage("one", 4, 2, 4.0), stage("two", 0, weight=9.0)]) == Eta(4.0, EtaBasis.MEASURED)


@pytest.mark.parametrize(
    ("stages", "eta"),
    [
        ([undeclared("train", 10, 4, 8.0)], Eta(12.0, EtaBasis.STAGE)),
        ([undeclared("guess", 10, 9, 9.0), undeclared("rank", 8, 2, 1.0)], Eta(3.0, EtaBasis.STAGE)),
        ([undeclared("guess", 10, 10, 9.0), undeclared("rank", 8)], None),
    ],
)
def test_without_announced_stages_the_eta_is_that_of_the_current_stage(
    stages: list[StageWork], eta: Eta | None
) -> None:
    assert eta_of(stages) == eta


def test_a_first_stage_may_reveal_the_later_ones() -> None:
    assert eta_of([undeclared("cut", 4, 2, 4.0)]) == Eta(4.0, EtaBasis.STAGE)
    assert eta_of([undeclared("cut", 4, 4, 4.0), stage("measure", 2)]) == Eta(2.0, EtaBasis.ESTIMATED)
