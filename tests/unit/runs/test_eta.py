"""Progress and ETA include the stages that were announced and have not begun."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.runs.reader import SHARED_WORK, BatchWork, Eta, EtaBasis, StageWork, eta_of, progress_of, stages_of
from tests.bench.eta import is_right

RECORDINGS = sorted((Path(__file__).parent / "recorded").glob("*.json"))
"""Real runs of SmolLM2 135M and Gemma 3 270M on two busy cores, recorded by `python -m tests.bench.eta record`."""
MOMENTS = 200


def stage(name: str, announced: float, done: float = 0.0, seconds: float = 0.0, *, weight: float = 1.0) -> StageWork:
    """Return an announced stage."""
    return replace(undeclared(name, announced, done, seconds), draw_weight=weight, is_announced=True)


def undeclared(name: str, announced: float, done: float = 0.0, seconds: float = 0.0) -> StageWork:
    """Return a stage that was not announced before it began."""
    pace = seconds / done if done else None
    return StageWork(name, announced, done, int(done), seconds=seconds, pace=pace, telling_batches=min(2, int(done)))


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


def test_the_first_batch_of_a_stage_counts_less_than_two_of_a_stage_of_equal_weight() -> None:
    stages = [stage("one", 4, 4, 4.0), stage("two", 4, 1, 3.0)]
    assert eta_of(stages) == Eta(3 * 1.0, EtaBasis.MEASURED)
    assert eta_of([replace(stages[0], draw_weight=2.0), stages[1]]) == Eta(3 * 3.0, EtaBasis.MEASURED)


def test_an_eta_counts_down_while_nothing_is_reported_and_does_not_reach_zero() -> None:
    eta = Eta(20.0, EtaBasis.MEASURED)
    assert (eta.after(0.0), eta.after(5.0), eta.after(100.0)) == (20.0, 15.0, 2.0)


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


def silence_at(recording: dict[str, Any], at: float) -> float:
    """Return the seconds after the last report before `at`."""
    reports = [begun for _, _, begun, _ in recording["batches"]] + [done for *_, done in recording["batches"]]
    reports += [when for when, *_ in (*recording["steps"], *recording["loads"])]
    return at - max((when for when in reports if when <= at), default=at)


def stages_at(recording: dict[str, Any], at: float) -> list[StageWork]:
    """Return the stages of a recording of `tests.bench.eta` as they were after `at` seconds."""
    plan = {
        stage: (stage, draws, weight, bool(known))
        for when, stage, draws, weight, known in recording["plan"]
        if when <= at
    }
    steps = {key: (when, share) for when, key, share in recording["steps"] if when <= at}
    batches = []
    for key, draws, begun, ended in recording["batches"]:
        begun += sum(seconds for when, loaded, seconds in recording["loads"] if loaded == key and when >= begun)
        if ended <= at:
            batches.append(BatchWork(key, draws, 1.0, begun, ended, True))
        elif key in steps:
            when, share = steps[key]
            batches.append(BatchWork(key, draws, share, begun, when, False))
    return stages_of(plan.values(), batches, recording["passes"])


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: file.stem)
def test_nine_of_ten_etas_of_a_recorded_run_are_within_a_factor_of_the_truth(file: Path) -> None:
    recording = json.loads(file.read_text())
    right, late = 0, 0
    for number in range(MOMENTS):
        at = recording["end"] * number / MOMENTS
        stages = stages_at(recording, at)
        eta, progress = eta_of(stages), progress_of(stages) or 0.0
        assert eta is not None if progress >= 0.1 else eta is None or progress >= 0.05 or batches_of(stages) >= 3
        if eta is not None and progress >= 0.1:
            late += 1
            right += is_right(eta.after(silence_at(recording, at)), recording["end"] - at)
    assert late > MOMENTS / 3 and right >= 0.9 * late


def batches_of(stages: list[StageWork]) -> int:
    return sum(stage.batches_done for stage in stages)


def test_the_first_batch_counts_until_the_second_tells_more() -> None:
    """It has another size, and 20 of its 80 seconds loaded a model."""
    plan = [("guess", 100.0, 1.0, False)]
    first = BatchWork("guess/0/0+8", 8.0, 1.0, 20.0, 80.0, True)
    second = BatchWork("guess/0/8+4", 4.0, 0.05, 80.0, 90.0, False)
    assert stages_of(plan, [first, second], {})[0].pace == 7.5
    assert stages_of(plan, [first, second._replace(share=0.5)], {})[0].pace == 5.0


def test_the_draws_of_a_second_pass_are_expected_to_share_their_beginnings() -> None:
    plan, first = [("guess", 40.0, 1.0, False)], BatchWork("guess/0/0+10", 10.0, 1.0, 0.0, 10.0, True)
    (alone,), (shared,) = stages_of(plan, [first], {}), stages_of(plan, [first], {"guess": 10})
    assert alone.pace == 1.0 and shared.pace == pytest.approx((4**SHARED_WORK - 1) / 3)
    second = BatchWork("guess/1/0+10", 30.0, 0.5, 10.0, 20.0, False)
    assert stages_of(plan, [first, second], {"guess": 10})[0].pace == pytest.approx(10 / 15)
