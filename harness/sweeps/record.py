"""The record of a sweep: what was asked for, with the id of every run. It is written once.

The progress of a sweep follows from its runs: a run exists when its directory does, and is over when its status says
so.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from harness.core.errors import HarnessError
from harness.runs.folder import RunFolder, new_run_id
from harness.runs.record_files import RecordFiles
from harness.runs.status import Status
from harness.runs.summary import run_status
from harness.sweeps.file import SweptRun


class Sweep(BaseModel):
    """A sweep as it was started.

    attacks: the directory of `--attacks`, if it was given. sha256: the hash of each attack's source, by name. ray: the
    address of the cluster, None for one run after the other. options: the values of options that all runs share
    (revision, device, dtype, threads). runs: in the order in which they start. `created_at` is in seconds since the
    epoch.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    created_at: float
    baseline: str | None
    budget: str | None
    limit: int | None
    attacks: Path | None
    sha256: dict[str, str] = {}
    ray: str | None = None
    options: dict[str, str | int | None]
    runs: tuple[SweptRun, ...]

    @property
    def journal(self) -> Path:
        """The file that says which run was started on which node of a cluster."""
        return SWEEPS.file_of(self.id).with_suffix(".nodes")


SWEEPS = RecordFiles("sweep", Sweep, see="harness sweep list")


@dataclass(frozen=True)
class SweepProgress:
    """The runs of a sweep by their state. unfinished: lost, stopped, crashed or damaged; `--resume` continues them."""

    finished: tuple[SweptRun, ...]
    running: tuple[SweptRun, ...]
    unfinished: tuple[SweptRun, ...]
    missing: tuple[SweptRun, ...]


COUNTED = (Status.FINISHED, Status.OUT_OF_TIME)
"""The final statuses of runs that are not run again."""


def begin_sweep(draft: Sweep) -> Sweep:
    """Give a draft and each of its runs an id, and write the record. Raises HarnessError if it cannot be written."""
    id_ = new_run_id(draft.id)
    # The runs have the letters of the sweep and a number, because random letters would clash in a large sweep.
    tag, digits = id_.partition("-")[0], len(str(len(draft.runs)))
    runs = tuple(
        run.model_copy(update={"run": f"{tag}-{number:0{digits}}-{_label(run)}"})
        for number, run in enumerate(draft.runs, start=1)
    )
    sweep = draft.model_copy(update={"id": id_, "created_at": time.time(), "runs": runs})
    SWEEPS.write(sweep.id, sweep)
    return sweep


def sweep_named(name: str) -> Sweep:
    """Return the sweep called `name`: an id, an unambiguous beginning of one, or `latest`.

    Raises HarnessError if there is none, if there are several, or if its record cannot be read.
    """
    if name == "latest":
        if not (known := SWEEPS.ids()):
            raise HarnessError("there is no sweep yet. Start one with harness sweep run FILE.")
        name = known[0]
    return SWEEPS.named(name)


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
    if status in COUNTED:
        return "finished"
    return "unfinished" if status.is_over else "running"


def _label(run: SweptRun) -> str:
    return f"{run.attack}-{Path(run.round).stem.replace(':', '-')}"
