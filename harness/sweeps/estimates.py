"""The expected time of the runs of a sweep, from earlier runs of the same kind."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from harness.core.errors import HarnessError
from harness.runs.folder import all_run_folders
from harness.runs.specs import AttackSpec
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


def estimated_seconds(spec: AttackSpec, past: Sequence[PastRun]) -> float | None:
    """Return the expected seconds of a run, at most its budget; None if nothing is known.

    It is the median time of earlier runs that differ from `spec` at most in seed and number of examples, scaled to the
    number of examples.
    """
    seconds = [run.elapsed_s * spec.examples / run.spec.examples for run in past if _is_alike(spec, run.spec)]
    return min(spec.budget, statistics.median(seconds)) if seconds else None


def _is_alike(spec: AttackSpec, other: AttackSpec) -> bool:
    return (
        (spec.attack.sha256, spec.params, spec.round.name) == (other.attack.sha256, other.params, other.round.name)
        and [target.weights_sha256 for target in spec.targets] == [target.weights_sha256 for target in other.targets]
        and spec.devices == other.devices
    )
