"""Find the runs, tunings and sweeps that commands name by an id; all ids are distinct."""

from typing import TypeAlias

from harness.core.errors import HarnessError
from harness.core.paths import require_state_home, runs_home
from harness.core.spec import JobSpec
from harness.runs.folder import RecordFiles, RunFolder, all_run_folders, matching_id, run_folder
from harness.runs.trash import Deleted, restorable
from harness.sweeps.record import SWEEPS, Sweep
from harness.sweeps.tuning import TUNINGS, Tuning, runs_of

Kind: TypeAlias = type[JobSpec] | RecordFiles[Tuning] | RecordFiles[Sweep]
_PARENTS: dict[str, RecordFiles[Tuning] | RecordFiles[Sweep]] = {"tuning": TUNINGS, "sweep": SWEEPS}


def all_record_ids() -> list[str]:
    """Return the ids of all runs, tunings and sweeps."""
    return [
        *(folder.id for folder in all_run_folders()),
        *(id_ for records in _PARENTS.values() for id_ in records.ids()),
    ]


def find_record(name: str, kind: Kind | None = None, *, also_damaged: bool = False) -> RunFolder | Tuning | Sweep:
    """Return the run, tuning or sweep called `name`: an id, an unambiguous beginning of one, or `latest`.

    `latest` is the newest of its `kind`. Without a kind it is the newest of all, and if that is a run of a tuning or a
    sweep, that tuning or sweep.
    also_damaged: a directory of a run counts even if it has no spec.
    Raises HarnessError if there is none, or more than one.
    """
    require_state_home()
    parents = {id_: records for records in _PARENTS.values() for id_ in records.ids()}
    if name == "latest" and isinstance(kind, RecordFiles):
        if not (ids := kind.ids()):
            noun = next(noun for noun, records in _PARENTS.items() if records is kind)
            raise HarnessError(f"the option needs a {noun}, and there is none yet. Remove the option.")
        return kind.read(ids[0])
    if name == "latest" and kind is not None:
        assert isinstance(kind, type)
        return run_folder(name, kind)
    if name == "latest":
        begun = [records.read(ids[0]) for records in _PARENTS.values() if (ids := records.ids())]
        last = max(begun, key=lambda record: record.created_at, default=None)
        runs = all_run_folders()
        # A sweep on a cluster may have no run here yet.
        if last is not None and not any(folder.spec().created_at >= last.created_at for folder in runs[:1]):
            return last
        newest = run_folder(name)
        parent = newest.spec().parent
        return parents[parent].read(parent) if parent in parents else newest
    folders = {folder.id: folder for folder in all_run_folders()}
    if also_damaged:
        folders |= {path.name: RunFolder(path) for path in runs_home().glob("*/")}
    id_ = matching_id("run", name, [*folders, *parents], see="harness list runs")
    return folders[id_] if id_ in folders else parents[id_].read(id_)


def is_of_kind(record: object, kind: Kind) -> bool:
    """Return True if a run, a tuning or a sweep is of the `kind`. Anything else is of none."""
    if isinstance(record, RunFolder):
        return isinstance(kind, type) and isinstance(record.spec(), kind)
    return (isinstance(record, Tuning) and kind is TUNINGS) or (isinstance(record, Sweep) and kind is SWEEPS)


def deletion_named(name: str) -> list[Deleted]:
    """Return the deletion that restores the id of a deleted run, tuning or sweep, or an unambiguous beginning of one.

    With a tuning or a sweep comes all that the same command deleted. Raises HarnessError if there is none, or more than
    one.
    """
    require_state_home()
    deletions = restorable()
    id_ = matching_id("deleted run", name, {deleted.id for deleted in deletions}, see="harness list deleted")
    newest = next(deleted for deleted in deletions if deleted.id == id_)
    if newest.kind == "runs":
        return [newest]
    return [deleted for deleted in deletions if deleted.deleted_at == newest.deleted_at]


def noun_of_parent(id_: str) -> str:
    """Return `tuning` or `sweep` for the id of one, else `group`."""
    return next((noun for noun, records in _PARENTS.items() if id_ in records.ids()), "group")


def runs_under(parent: Tuning | Sweep) -> list[RunFolder]:
    """Return the runs of a tuning or a sweep that have begun."""
    if isinstance(parent, Tuning):
        return [run.folder for run in runs_of(parent.id)]
    folders = [RunFolder.of(run.run) for run in parent.runs]
    return [folder for folder in folders if folder.spec_file.is_file()]


def delete_parent(parent: Tuning | Sweep, deleted_at: int) -> list[Deleted]:
    """Move the record of a tuning or a sweep to the trash. Its runs stay. Raises HarnessError if that fails."""
    return (TUNINGS if isinstance(parent, Tuning) else SWEEPS).delete(parent.id, deleted_at)
