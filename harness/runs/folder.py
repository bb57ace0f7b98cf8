"""The directory of a run: its files, its lock, and how runs are found and deleted."""

import contextlib
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from pydantic import BaseModel

from harness.core.errors import HarnessError, unknown_name
from harness.core.files import (
    create_folder,
    file_errors,
    is_locked,
    read_start,
    try_lock,
    write_atomically,
)
from harness.core.inputs import as_harness_error
from harness.core.paths import require_state_home, runs_home, state_home
from harness.core.spec import JobSpec
from harness.core.text import shorten
from harness.runs.specs import AttackSpec, AuditSpec, RunSpec, read_spec
from harness.runs.trash import Deleted, free, move_to_trash

ModelType = TypeVar("ModelType", bound=BaseModel)
_ID_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
_DELETE_SECONDS = 6.0
_SUFFIXES = (".json", ".db", ".log", ".csv", ".txt", ".py", ".npz", "lock", "reserve")
"""The ends of the names of files in the directory of a run."""
SpecType = TypeVar("SpecType", bound=JobSpec)


class RecordFiles(Generic[ModelType]):
    """The records of one kind, in a directory beside that of the runs."""

    def __init__(self, noun: str, model: type[ModelType], *, see: str) -> None:
        """`noun` names a record, in the plural also the directory. The command `see` lists the records."""
        self._noun = noun
        self._model = model
        self._see = see

    def file_of(self, id_: str) -> Path:
        """Return the file of the record `id_`, which may not exist."""
        return state_home() / f"{self._noun}s" / f"{id_}.json"

    def write(self, id_: str, record: ModelType) -> None:
        """Write a record. Raises HarnessError if it cannot be written."""
        file = self.file_of(id_)
        with file_errors(file, "written", "Set --home to another directory."):
            create_folder(file.parent)
            write_atomically(file, record.model_dump_json(indent=2) + "\n")

    def ids(self) -> list[str]:
        """Return the ids of all records, newest first."""
        return [file.stem for file in _newest_first(self.file_of("").parent.glob("*.json"))]

    def read(self, name: str) -> ModelType:
        """Return the record called `name`: an id, or an unambiguous beginning of one.

        Raises HarnessError if there is none, if there are several, or if the record cannot be read.
        """
        file = self.file_of(matching_id(self._noun, name, self.ids(), see=self._see))
        with as_harness_error(file):
            return self._model.model_validate_json(read_start(file))

    def delete(self, id_: str, deleted_at: int) -> list[Deleted]:
        """Move a record and the files beside it to the trash. Its runs stay. Raises HarnessError if that fails."""
        return [move_to_trash(file, deleted_at) for file in self.file_of(id_).parent.glob(f"{id_}.*")]


class _Inside:
    """The path with this name inside the directory of a run."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, folder: "RunFolder", owner: object) -> Path:
        return folder.path / self.name


@dataclass(frozen=True)
class RunFolder:
    """The directory of one run."""

    path: Path

    spec_file = _Inside("spec.json")
    code = _Inside("code")
    """A copy of the attack's source, made when the run began."""
    store = _Inside("run.db")
    write_ahead_log = _Inside("run.db-wal")
    """Committed rows that are not in run.db yet. The file is absent once the run has ended."""
    reserve = _Inside("reserve")
    """Disk space for the end of the run. The file is absent once the end is written."""
    log = _Inside("worker.log")
    supervisor_log = _Inside("supervisor.log")
    submission = _Inside("submission.csv")
    scorecard = _Inside("scorecard.json")
    note = _Inside("note.txt")
    tags = _Inside("tags")
    """A directory with one empty file per tag, so that two commands can change tags at the same time."""
    summary = _Inside("summary.json")
    """A cache of the summary of a run that is over, valid for the present state of `record`."""
    tokenizer = _Inside("tokenizer.json")
    """A copy of the target's tokenizer.json, to decode guesses; absent if the target has none."""
    lock = _Inside("lock")
    """Locked by the supervisor as long as it lives."""
    queue_lock = _Inside("queue.lock")
    """Locked by the supervisor as long as the run waits for a device. The file is absent afterwards."""
    scratch = _Inside("scratch")
    """The directories of the workers. A worker can write to its own one alone."""
    shared = _Inside("shared")
    """The results that several workers of a run store for each other. The directory is absent after the run."""
    inputs = _Inside("inputs")
    """The inputs of an audit, or of an attack run on a node of a cluster; other attack runs have none."""

    # The names are needed a thousand times for a list of runs.
    _directories: ClassVar[frozenset[str]] = frozenset(part.name for part in (code, inputs, tags, scratch, shared))
    record: ClassVar[tuple[str, ...]] = tuple(
        part.name for part in (spec_file, store, write_ahead_log, scorecard, note)
    )
    """The name of every file that the summary of the run is read from."""

    @classmethod
    def of(cls, run_id: str) -> "RunFolder":
        """Return the directory of the run with this complete id, which may not exist."""
        return cls(runs_home() / run_id)

    @property
    def id(self) -> str:
        return self.path.name

    def scratch_of(self, worker: int) -> Path:
        """Return the directory that the worker with this number, from 0, can write to."""
        return self.scratch / str(worker)

    @property
    def is_alive(self) -> bool:
        """True if a supervisor works on the run, in this PID namespace or any other."""
        return is_locked(self.lock)

    def check_files(self) -> None:
        """Raise HarnessError if something else is in place of a file or a directory of the run.

        Reading a named pipe in place of a file would wait for ever.
        """
        with as_harness_error(self.path):
            for directory in (self.path, self.code, self.inputs):
                with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
                    for entry in entries:
                        is_folder = entry.name in self._directories and directory == self.path
                        # A user may keep directories of other names here.
                        is_file = not is_folder and entry.name.endswith(_SUFFIXES)
                        is_valid = (entry.is_dir() and not is_file) or (entry.is_file() and not is_folder)
                        if not is_valid and os.path.lexists(entry.path):
                            raise HarnessError(
                                f"{entry.path}: cannot be read (not a {'directory' if is_folder else 'regular file'}). "
                                f"Remove it, or delete the run with harness runs rm {self.id}."
                            )

    def spec(self) -> RunSpec:
        """Return the spec of the run. Raises HarnessError if it cannot be read."""
        self.check_files()
        return read_spec(self.spec_file)

    def attack_spec(self) -> AttackSpec:
        """Return the spec of an attack run. Raises HarnessError if it cannot be read or is of another kind."""
        return self.spec_as(AttackSpec)

    def audit_spec(self) -> AuditSpec:
        """Return the spec of an audit. Raises HarnessError if it cannot be read or is of another kind."""
        return self.spec_as(AuditSpec)

    def spec_as(self, spec_type: type[SpecType]) -> SpecType:
        """Return the spec of a run of one kind. Raises HarnessError if it cannot be read or is of another kind."""
        spec = self.spec()
        if not isinstance(spec, spec_type):
            expected = spec_type.model_fields["kind"].default
            raise HarnessError(
                f"{self.id}: expected a run of kind {expected}, found kind {spec.kind}. "
                f"`harness show {self.id}` shows it."
            )
        return spec


def new_run_id(label: str) -> str:
    """Return a new id: four random letters that no other run's id begins with, and `label`."""
    while True:
        tag = "".join(secrets.choice(_ID_ALPHABET) for _ in range(4))
        if not any(runs_home().glob(f"{tag}-*")):
            return f"{tag}-{label}"


def all_run_folders() -> list[RunFolder]:
    """Return every run that has a spec, newest first. Raises HarnessError if the directory cannot be listed."""
    home = runs_home()
    with as_harness_error(home):
        specs = _newest_first(RunFolder(path).spec_file for path in (home.iterdir() if home.is_dir() else ()))
    return [RunFolder(file.parent) for file in specs]


def _newest_first(files: Iterable[Path]) -> list[Path]:
    """Return the files that exist, the last changed first. One can be deleted during the listing."""
    changed = {}
    for file in files:
        with contextlib.suppress(OSError):
            changed[file] = file.stat().st_mtime_ns
    return sorted(changed, key=changed.__getitem__, reverse=True)


def attack_runs() -> Iterator[tuple[RunFolder, AttackSpec]]:
    """Yield every attack run whose spec can be read, newest first."""
    for folder in all_run_folders():
        with contextlib.suppress(HarnessError):
            yield folder, folder.attack_spec()


def run_folder(name: str, spec_type: type[JobSpec] = JobSpec) -> RunFolder:
    """Return the run called `name`: an id, an unambiguous beginning of one, or `latest`, the newest one of this kind.

    Raises HarnessError if there is none, or more than one, or if a newer one than the latest of this kind is damaged.
    """
    require_state_home()
    folders = {folder.id: folder for folder in all_run_folders()}
    if name != "latest":
        return folders[matching_id("run", name, folders, see="harness list runs")]
    for folder in folders.values():
        if spec_type is JobSpec or isinstance(folder.spec(), spec_type):
            return folder
    raise HarnessError(f"there is no {spec_type.noun} yet. Start one with {spec_type.command}.")


def matching_id(kind: str, name: str, ids: Iterable[str], *, see: str) -> str:
    """Return the id of a `kind` among `ids` that is `name`, or else begins with it.

    Raises HarnessError, which names the command `see`, if there is none, or more than one.
    """
    ids = list(ids)
    matches = [name] if name in ids else [id_ for id_ in ids if name and id_.startswith(name)]
    if len(matches) > 1:
        raise HarnessError(
            f"{shorten(name)!r} matches several {kind}s: {', '.join(matches[:5])}. Give more letters of the id."
        )
    if not matches:
        raise unknown_name(kind, name, ids, see=see)
    return matches[0]


def delete_run(folder: RunFolder, deleted_at: int) -> Deleted:
    """Move a run to the trash; `deleted_at` is in nanoseconds since the epoch.

    Raises HarnessError if its supervisor holds the lock, or if it cannot be moved.
    """
    with contextlib.suppress(OSError):
        # The owner may need this permission for the rename.
        folder.path.chmod(0o700)
    if folder.lock.is_dir():
        # No supervisor can hold it.
        return move_to_trash(folder.path, deleted_at)
    with file_errors(folder.path, "deleted"):
        # The supervisor of a run that is over holds the lock until it has closed the store.
        lock = try_lock(folder.lock, patience=_DELETE_SECONDS)
    if lock is None:
        raise HarnessError(f"{folder.id} is still running and was not deleted. Stop it first.")
    with lock:
        return move_to_trash(folder.path, deleted_at)


def remove_run(folder: RunFolder) -> None:
    """Delete a run for good, if it exists. Raises as `delete_run` does."""
    if folder.path.exists():
        free(delete_run(folder, time.time_ns()))
