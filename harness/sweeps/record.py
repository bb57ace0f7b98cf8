"""The record of a sweep: its runs, the one that the others are compared with, and estimates of their time."""

import contextlib
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from harness.core.errors import HarnessError, UsageError
from harness.core.run_request import RunRequest
from harness.core.text import shorten
from harness.runs.folder import RecordFiles, RunFolder, attack_runs, new_run_id
from harness.runs.specs import AttackSpec
from harness.runs.status import Status
from harness.runs.summary import run_status, run_summary
from harness.sweeps.file import SweptRun

_MAX_LISTED = 12


class Sweep(BaseModel, frozen=True, extra="forbid"):
    """A sweep as it was started."""

    id: str
    created_at: float
    """Seconds since the epoch."""
    baseline: str | None
    request: RunRequest
    """The options of each run, without what the runs say themselves."""
    sha256: dict[str, str] = {}
    """The hash of each attack's source, by name."""
    ray: str | None = None
    """The address of the cluster, None for one run after the other."""
    runs: tuple[SweptRun, ...]
    """The runs in the order in which they start."""

    @property
    def journal(self) -> Path:
        """The file that says which run was started on which node of a cluster."""
        return SWEEPS.file_of(self.id).with_suffix(".nodes")


SWEEPS = RecordFiles("sweep", Sweep, see="harness list sweeps")


@dataclass(frozen=True)
class SweepProgress:
    """The runs of a sweep by their state."""

    finished: tuple[SweptRun, ...]
    running: tuple[SweptRun, ...]
    unfinished: tuple[SweptRun, ...]
    """Lost, stopped, crashed or damaged; a resume continues them."""
    missing: tuple[SweptRun, ...]


def begin_sweep(draft: Sweep) -> Sweep:
    """Give a draft and each of its runs an id, and write the record. Raises HarnessError if it cannot be written."""
    id_ = new_run_id(draft.id)
    # The runs have the letters of the sweep and a number, because random letters would clash in a large sweep.
    tag, digits = id_.partition("-")[0], len(str(len(draft.runs)))
    runs = tuple(
        run.model_copy(
            update={"run": f"{tag}-{number:0{digits}}-{run.attack}-{Path(run.round).stem.replace(':', '-')}"}
        )
        for number, run in enumerate(draft.runs, start=1)
    )
    sweep = draft.model_copy(update={"id": id_, "created_at": time.time(), "runs": runs})
    SWEEPS.write(sweep.id, sweep)
    return sweep


def nodes_of_runs(journal: Path) -> dict[str, str]:
    """Return the id of the node that has begun each run, by the id of the run. Raises HarnessError if unreadable."""
    try:
        lines = journal.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise HarnessError(f"{journal}: cannot be read ({error}).") from None
    return {run: node for run, _, node in (line.partition(" ") for line in lines)}


def progress_of(sweep: Sweep) -> SweepProgress:
    """Return the runs of a sweep by their state, each in the order of the sweep."""
    states: dict[str, list[SweptRun]] = {"finished": [], "running": [], "unfinished": [], "missing": []}
    for run in sweep.runs:
        states[_state_of(RunFolder.of(run.run))].append(run)
    return SweepProgress(**{name: tuple(runs) for name, runs in states.items()})


def _state_of(folder: RunFolder) -> str:
    if not folder.spec_file.is_file():
        return "missing"
    try:
        status = run_status(folder)
    except HarnessError:
        return "unfinished"
    if status.is_complete:
        return "finished"
    return "unfinished" if status.is_over else "running"


def setting_named(name: str, runs: Sequence[SweptRun]) -> str:
    """Return the setting of a sweep called `name`: a whole setting, or an attack with enough of its parameters.

    Raises UsageError, which lists the settings, if there is none, or more than one.
    """
    settings = {run.setting: run for run in runs}
    words = name.split()
    if name in settings:
        return name
    matching = [
        setting
        for setting, run in settings.items()
        if words and words[0] == run.attack and set(words[1:]) <= {f"{key}={text}" for key, text in run.params.items()}
    ]
    if len(matching) == 1:
        return matching[0]
    fault = "matches several settings" if matching else "is not a setting of the sweep"
    listed = matching or list(settings)
    rest = ", …" if len(listed) > _MAX_LISTED else ""
    raise UsageError(f"baseline {shorten(name)!r} {fault}: choose from {', '.join(listed[:_MAX_LISTED])}{rest}.")


class PastRun(NamedTuple):
    """A finished run, and the seconds that it took."""

    spec: AttackSpec
    elapsed_s: float


def finished_runs() -> list[PastRun]:
    """Return the finished attack runs of the store. Records that cannot be read are left out."""
    past = []
    for folder, spec in attack_runs():
        with contextlib.suppress(HarnessError):
            summary = run_summary(folder)
            if summary.status is Status.FINISHED:
                past.append(PastRun(spec, summary.elapsed_s))
    return past


def estimated_seconds(spec: AttackSpec, past: Sequence[PastRun]) -> float | None:
    """Return the expected seconds of a run, at most its budget; None if nothing is known.

    It is the median time of earlier runs that differ from `spec` at most in seed and number of examples, scaled to the
    number of examples.
    """
    seconds = [run.elapsed_s * spec.examples / run.spec.examples for run in past if _is_alike(spec, run.spec)]
    return min(spec.budget, statistics.median(seconds)) if seconds else None


def _is_alike(spec: AttackSpec, past: AttackSpec) -> bool:
    return (
        (spec.attack.sha256, spec.params, spec.round.name) == (past.attack.sha256, past.params, past.round.name)
        and [target.weights_sha256 for target in spec.targets] == [target.weights_sha256 for target in past.targets]
        and spec.devices == past.devices
    )
