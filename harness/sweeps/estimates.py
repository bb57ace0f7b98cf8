"""The expected time of the runs of a sweep: from earlier runs of the same kind, or from the calibrated rate."""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from harness.core.calibration import engine_seconds, official_rate
from harness.core.errors import HarnessError
from harness.jobs.attack.spec import AttackSpec
from harness.runs.folder import all_run_folders
from harness.runs.status import Status
from harness.runs.summary import run_summary


class PastRun(NamedTuple):
    """A finished run, and the seconds that it took."""

    spec: AttackSpec
    elapsed_s: float


def finished_runs() -> list[PastRun]:
    """Return the finished attack runs of the store. Records that cannot be read are left out."""
    found = []
    for folder in all_run_folders():
        try:
            spec = folder.attack_spec()
            summary = run_summary(folder)
        except HarnessError:
            continue
        if summary.status is Status.FINISHED:
            found.append(PastRun(spec, summary.elapsed_s))
    return found


class Estimate(NamedTuple):
    """The seconds that a run is expected to take, in the unit of its budget, and what they are computed from."""

    seconds: float
    source: Literal["runs", "calibration"]


def estimate(spec: AttackSpec, past: Sequence[PastRun], weights: Callable[[Path], int]) -> Estimate | None:
    """Return the expected time of a run, at most its budget; None if nothing is known.

    It is the median time of earlier runs of the same kind. Without one it is that of decoding one suffix for each
    example and trial at the calibrated rate of the engine. `weights` returns the number of weights in a directory.
    """
    if (seconds := _seconds_of_past(spec, past)) is not None:
        return Estimate(min(spec.budget, seconds), "runs")
    models = [target for target in spec.targets if not target.is_tokenizer_only]
    if not models or spec.budget_machine is not None:
        return None
    trials = spec.params.get("trials", 1)
    suffixes = spec.examples * (trials if isinstance(trials, int) else 1)
    seconds = engine_seconds(
        spec.calibrations, suffixes=suffixes, tokens=spec.round.suffix_length, weights=weights(models[0].path)
    )
    return None if seconds is None else Estimate(min(spec.budget, seconds), "calibration")


def _seconds_of_past(spec: AttackSpec, past: Sequence[PastRun]) -> float | None:
    """Return the median time of earlier runs that differ from `spec` at most in seed and number of examples.

    A time is in the unit of the budget. It is scaled to the number of examples, and to the speed of this machine if
    both are calibrated. None without such a run.
    """
    seconds = [
        run.elapsed_s * _relative_time(spec, run.spec) * spec.examples / run.spec.examples
        for run in past
        if _is_alike(spec, run.spec)
    ]
    return statistics.median(seconds) if seconds else None


def _relative_time(spec: AttackSpec, other: AttackSpec) -> float:
    """Return the time of a run here relative to its time on the machine of `other`."""
    own, others = official_rate(spec.calibrations), official_rate(other.calibrations)
    if spec.budget_machine is not None or own is None or others is None:
        return 1.0
    return others / own


def _is_alike(spec: AttackSpec, other: AttackSpec) -> bool:
    return (
        (spec.attack.sha256, spec.params, spec.round.name) == (other.attack.sha256, other.params, other.round.name)
        and [target.weights_sha256 for target in spec.targets] == [target.weights_sha256 for target in other.targets]
        and (spec.devices, spec.budget_machine) == (other.devices, other.budget_machine)
    )
