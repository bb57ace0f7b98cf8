"""Progress and ETA of a job from the work of its stages, and nothing about where that is stored."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from harness.core.attack import GUESS_STAGE
from harness.runs.reader import StageWork


class EtaBasis(StrEnum):
    """The basis of an ETA.

    MEASURED: the pace of every stage with work left.
    ESTIMATED: a stage without a finished batch counts with its announced weight.
    STAGE: the job did not announce its stages, so that the ETA is that of the current stage alone.
    """

    MEASURED = "measured"
    ESTIMATED = "estimated"
    STAGE = "stage"


class Eta(NamedTuple):
    """The seconds that are left, and what they rest on."""

    seconds: float
    basis: EtaBasis


def progress_of(stages: Sequence[StageWork]) -> float | None:
    """Return the share of the announced work that is done, weighted by the time of a draw; None without work."""
    announced = sum(stage.announced * stage.draw_weight for stage in stages)
    done = sum(stage.done * stage.draw_weight for stage in stages)
    return min(1.0, done / announced) if announced > 0 else None


def eta_of(stages: Sequence[StageWork]) -> Eta | None:
    """Return the time that the remaining work takes; None before a batch is done that its pace can be measured by.

    A stage without a finished batch takes the pace of the stages of equal weight, else the mean pace by weight.
    """
    if not stages:
        return None
    # Stages are in the order in which they were announced or begun. After one that was not announced, another may come.
    last = stages[-1]
    covers_run = last.is_announced or [stage.stage for stage in stages] == [GUESS_STAGE]
    seconds, basis = 0.0, EtaBasis.MEASURED if covers_run else EtaBasis.STAGE
    for stage in stages if covers_run else [last]:
        if stage.left == 0:
            continue
        if stage.done > 0:
            seconds += stage.left * stage.seconds / stage.done
            continue
        if not covers_run or (pace := _estimated_pace(stage, stages)) is None:
            return None
        seconds, basis = seconds + stage.left * pace, EtaBasis.ESTIMATED
    return Eta(seconds, basis) if any(stage.done > 0 for stage in stages) else None


def _estimated_pace(stage: StageWork, stages: Sequence[StageWork]) -> float | None:
    """Return the seconds per draw of a stage without a finished batch; None if no stage has one."""
    measured = [stage_done for stage_done in stages if stage_done.done > 0]
    alike = [stage_done for stage_done in measured if stage_done.draw_weight == stage.draw_weight] or measured
    work = sum(stage_done.done * stage_done.draw_weight for stage_done in alike)
    return stage.draw_weight * sum(stage_done.seconds for stage_done in alike) / work if work > 0 else None
