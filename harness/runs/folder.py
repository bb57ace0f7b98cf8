"""A run's directory: what lies where, and where runs are found."""

import contextlib
import operator
import secrets
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import HarnessError, unknown_name
from harness.core.files import remove_tree
from harness.core.paths import runs_home
from harness.core.spec import AttackSpec, AuditSpec, read_spec
from harness.core.text import shorten
from harness.runs.errors import as_harness_error

_ID_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"


@dataclass(frozen=True)
class RunFolder:
    """The directory of one run."""

    path: Path

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def spec_file(self) -> Path:
        return self.path / "spec.json"

    @property
    def code(self) -> Path:
        """The attack's source as it ran."""
        return self.path / "code"

    @property
    def store(self) -> Path:
        return self.path / "run.db"

    @property
    def journal(self) -> Path:
        """What is committed and not in run.db yet (SQLite's write-ahead log); absent once the run has ended."""
        return self.path / "run.db-wal"

    @property
    def standby(self) -> Path:
        """What the run has spent, while a full disk keeps the ledger from saying it; absent once the run has ended."""
        return self.path / "standby"

    @property
    def reserve(self) -> Path:
        """Room that is kept for the run's ending; absent once that is written."""
        return self.path / "reserve"

    @property
    def log(self) -> Path:
        return self.path / "worker.log"

    @property
    def supervisor_log(self) -> Path:
        return self.path / "supervisor.log"

    @property
    def submission(self) -> Path:
        return self.path / "submission.csv"

    @property
    def scorecard(self) -> Path:
        return self.path / "scorecard.json"

    @property
    def note(self) -> Path:
        return self.path / "note.txt"

    @property
    def record(self) -> tuple[Path, ...]:
        """Every file that what is said of the run comes from."""
        return (self.spec_file, self.store, self.journal, self.standby, self.scorecard, self.note)

    @property
    def tokenizer(self) -> Path:
        """A copy of the target's tokenizer.json, so that guesses can be read as text; absent where there was none."""
        return self.path / "tokenizer.json"

    @property
    def lock(self) -> Path:
        """Held by the supervisor as long as it lives."""
        return self.path / "lock"

    @property
    def scratch(self) -> Path:
        """The worker's own folder, all that it may write to."""
        return self.path / "scratch"

    @property
    def inputs(self) -> Path:
        """What an audit measures with, as it was read; an attack's run has none."""
        return self.path / "inputs"

    def job(self) -> AttackSpec | AuditSpec:
        """The spec of whatever runs here. Raises HarnessError when it cannot be read."""
        return read_spec(self.spec_file)

    def spec(self) -> AttackSpec:
        """The spec of an attack's run. Raises HarnessError when it cannot be read, or when this is an audit."""
        spec = self.job()
        if isinstance(spec, AuditSpec):
            raise HarnessError(f"{self.id} is an audit, and has no guesses; harness audit show {self.id} tells it.")
        return spec

    def audit(self) -> AuditSpec:
        """The spec of an audit. Raises HarnessError when it cannot be read, or when this is an attack's run."""
        spec = self.job()
        if isinstance(spec, AttackSpec):
            raise HarnessError(f"{self.id} is a run of the attack {spec.attack.name}, and no audit.")
        return spec


def new_run_id(label: str) -> str:
    """An id that begins with four random letters which no run's id begins with, so that those are enough to name it."""
    while True:
        tag = "".join(secrets.choice(_ID_ALPHABET) for _ in range(4))
        if not any(runs_home().glob(f"{tag}-*")):
            return f"{tag}-{label}"


def all_run_folders() -> list[RunFolder]:
    """Every run that has a spec, newest first. Raises HarnessError when they cannot be listed."""
    home = runs_home()
    found: list[tuple[int, RunFolder]] = []
    with as_harness_error(home):
        for folder in map(RunFolder, home.iterdir() if home.is_dir() else ()):
            # One may go while they are listed.
            with contextlib.suppress(OSError):
                if folder.spec_file.is_file():
                    found.append((folder.spec_file.stat().st_mtime_ns, folder))
    return [folder for _, folder in sorted(found, key=operator.itemgetter(0), reverse=True)]


def run_folder(name: str) -> RunFolder:
    """The run called `name`: an id, its unambiguous start, or `latest`.

    Raises HarnessError when there is none, or more than one.
    """
    folders = all_run_folders()
    if name == "latest":
        if not folders:
            raise HarnessError("there is no run yet: harness run starts one.")
        return folders[0]
    matches = [folder for folder in folders if folder.id == name] or [
        folder for folder in folders if name and folder.id.startswith(name)
    ]
    if len(matches) > 1:
        names = ", ".join(folder.id for folder in matches[:5])
        raise HarnessError(f"{shorten(name)!r} is the start of several runs: {names}.")
    if not matches:
        raise unknown_name("run", name, [folder.id for folder in folders], see="harness runs")
    return matches[0]


def remove_run(folder: RunFolder) -> None:
    """Delete a run: first its spec, so that a half-deleted one is no run."""
    folder.spec_file.unlink(missing_ok=True)
    remove_tree(folder.path)
