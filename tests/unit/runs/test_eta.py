"""Progress and ETA include the stages that were announced and have not begun."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.runs.reader import BatchWork, Eta, EtaBasis, StageWork, eta_of, progress_of, stages_of
from tests.bench.eta import is_right

RECORDINGS = sorted((Path(__file__).parent / "recorded").glob("*.json"))
"""Real runs of SmolLM2 135M and Gemma 3 270M on two busy cores, recorded by `python -m tests.bench.eta record`."""
MOMENTS = 200


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
def test_the_etas_of_recorded_runs_are_within_a_factor_of_the_truth(file: Path) -> None:
    recording = json.loads(file.read_text())
    moments = [recording["end"] * number / MOMENTS for number in range(MOMENTS)]
    shown = {at: eta_of(stages_at(recording, at)) for at in moments}
    progress = {at: progress_of(stages_at(recording, at)) or 0.0 for at in moments}
    late = [at for at in moments if progress[at] >= 0.1]
    right = [at for at in late if shown[at] and is_right(shown[at].seconds, recording["end"] - at)]
    assert all(shown[at] for at in late) and len(right) >= 0.9 * len(late)
    done = {at: sum(stage.batches_done for stage in stages_at(recording, at)) for at in moments}
    assert not [at for at in moments if shown[at] and progress[at] < 0.05 and done[at] < 3]
