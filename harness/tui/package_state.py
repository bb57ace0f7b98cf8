"""The state of the Package screen: the fields, the checklist, what blocks the packaging, and the command.

It knows nothing of widgets.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from harness.core.errors import HarnessError
from harness.core.paths import expand_home
from harness.core.text import format_score, pluralize, shorten
from harness.runs.errors import as_harness_error
from harness.runs.folder import RunFolder
from harness.runs.summary import RunSummary, run_summary
from harness.submit.checklist import Check, checklist, refusal
from harness.submit.manifest import DESCRIPTION, SUBMISSIONS, TEAM, AcceptedCheck, bundle_path, default_file
from harness.tui.form import Field, FieldKind, changed_values, option_field
from harness.tui.form_history import load_values, save_values
from harness.tui.validation import validation_error

_TEAM = option_field(
    "team",
    FieldKind.FILE,
    "",
    "The team: a TOML file with a table [[members]] for each person.",
    empty_means=f"{TEAM}, here or in {SUBMISSIONS}/",
)
_DESCRIPTION = option_field(
    "description",
    FieldKind.FILE,
    "",
    "What is new about the attack, as Markdown; the run's plots and tables are added.",
    empty_means=f"{DESCRIPTION}, here or in {SUBMISSIONS}/",
)
_OUT = option_field(
    "out",
    FieldKind.DESTINATION,
    "",
    "Where to write the zip: a directory, or a name that ends in .zip.",
    empty_means=f"{SUBMISSIONS}/",
)
_REDACT = option_field(
    "redact", FieldKind.SWITCH, "false", "Replace suffixes in the description with their length and hash."
)
FIELDS = (_TEAM, _DESCRIPTION, _OUT, _REDACT)
# The name of an attack never contains a space.
_HISTORY_KEY = "harness bundle create"


class CheckState(StrEnum):
    """The state of one check, and the sign that shows it."""

    MET = "✓"
    UNMET = "✗"
    ACCEPTED = "–"


@dataclass(frozen=True)
class PackageSnapshot:
    """A run and the files to package with it at one moment.

    values: the texts of the fields at that moment, by key. team, description: the files that they name, or None.
    out_error: why the zip cannot be written there. fault: why the run cannot be read now, in which case summary and
    checks are those read last.
    """

    values: Mapping[str, str]
    team: Path | None
    description: Path | None
    out_error: str | None = None
    summary: RunSummary | None = None
    checks: tuple[Check, ...] = ()
    fault: str | None = None


@dataclass(frozen=True)
class PackageState:
    """The texts of the fields, the last snapshot, and the names of the unmet checks that the user accepts."""

    run_id: str
    values: Mapping[str, str]
    snapshot: PackageSnapshot | None = None
    accepted: frozenset[str] = frozenset()

    def with_values(self, values: Mapping[str, str]) -> "PackageState":
        """Return this state with other texts, which no snapshot describes yet."""
        return replace(self, values=dict(values))

    def with_snapshot(self, snapshot: PackageSnapshot) -> "PackageState":
        """Return this state with a newer snapshot. A check stays accepted while its sentence stays the same."""
        if snapshot.fault is not None:
            summary = None if self.snapshot is None else self.snapshot.summary
            return replace(self, snapshot=replace(snapshot, summary=summary, checks=self.checks))
        before = {check.name: check.sentence for check in self.checks}
        same = {
            check.name for check in snapshot.checks if not check.is_met and before.get(check.name) == check.sentence
        }
        return replace(self, snapshot=snapshot, accepted=self.accepted & same)

    def with_accepted_toggled(self, name: str) -> "PackageState":
        """Return this state with the check `name` accepted, or no longer. Raises HarnessError if it cannot be."""
        check = next(check for check in self.checks if check.name == name)
        if check.is_met:
            raise HarnessError(f"{name} is met: there is nothing to accept.")
        if not check.can_be_accepted:
            raise HarnessError(f"{name} cannot be accepted: {check.sentence}; {check.fix}.")
        return replace(self, accepted=self.accepted ^ {name})

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checklist of the last snapshot."""
        return () if self.snapshot is None else self.snapshot.checks

    def check_state(self, check: Check) -> CheckState:
        """Return whether `check` is met, unmet or accepted."""
        if check.is_met:
            return CheckState.MET
        return CheckState.ACCEPTED if check.can_be_accepted and check.name in self.accepted else CheckState.UNMET

    @property
    def counts(self) -> str:
        """The number of checks that are met, and that are accepted."""
        if not self.checks:
            return "not checked yet"
        states = [self.check_state(check) for check in self.checks]
        met, accepted = states.count(CheckState.MET), states.count(CheckState.ACCEPTED)
        return f"{met} of {len(states)} met" + (f", {accepted} accepted" if accepted else "")

    @property
    def is_current(self) -> bool:
        """True if the last snapshot describes the texts of the fields."""
        return self.snapshot is not None and self.snapshot.values == self.values

    @property
    def unmet(self) -> list[str]:
        """The names of the checks that block the packaging."""
        return [check.name for check in self.checks if self.check_state(check) is CheckState.UNMET]

    @property
    def blocker(self) -> str | None:
        """The reason why the run cannot be packaged now; None if it can."""
        if self.snapshot is None or not self.is_current:
            return "checking …"
        if self.snapshot.fault is not None:
            return self.snapshot.fault
        if self.snapshot.out_error is not None:
            return f"out: {self.snapshot.out_error}."
        error = refusal(list(self.checks), self.accepted)
        return None if error is None else str(error)

    @property
    def status(self) -> str:
        """The unmet checks, another blocker, or that the run can be packaged."""
        if self.unmet and self.is_current:
            return f"unmet: {', '.join(self.unmet)}"
        return self.blocker or "ready."

    @property
    def destination(self) -> Path:
        """The zip that would be written."""
        return bundle_path(_path_in(self.values, _OUT), f"{self.run_id}.zip")

    def command_line(self, *, force: bool = False) -> list[str]:
        """Return the arguments of `harness` that package the run; defaults of the command are left out."""
        snapshot = self.snapshot
        files = {
            _TEAM.key: _path_in(self.values, _TEAM) or (snapshot and snapshot.team),
            _DESCRIPTION.key: _path_in(self.values, _DESCRIPTION) or (snapshot and snapshot.description),
            _OUT.key: _path_in(self.values, _OUT),
        }
        command = ["bundle", "create", self.run_id]
        for option, path in files.items():
            command += [option, str(path)] if path is not None else []
        for check in self.checks:
            command += ["--accept", check.name] if self.check_state(check) is CheckState.ACCEPTED else []
        command += [_REDACT.key] if _REDACT.value_of(self.values[_REDACT.key]) else []
        return [*command, "--force"] if force else command


class PackageResult(BaseModel):
    """The answer of `harness bundle create --json` about the zip that it wrote."""

    bundle: Path
    sha256: str
    bytes: int
    files: int
    pages: int | None
    marks: tuple[AcceptedCheck, ...]

    @property
    def lines(self) -> list[str]:
        """The path of the zip, its SHA-256, its contents, and each accepted check."""
        pages = pluralize(self.pages or 0, "page")
        size = f"{self.bytes / 1e6:,.1f} MB"
        return [
            str(self.bundle),
            f"SHA-256 {self.sha256}",
            f"{pluralize(self.files, 'file')}, description of {pages}, {size}, {pluralize(len(self.marks), 'mark')}",
            *(f"accepted: {mark.check} – {mark.sentence}" for mark in self.marks),
        ]


def parse_result(answer: Mapping[str, Any]) -> PackageResult:
    """Return the command's answer. Raises HarnessError if it does not describe a zip."""
    try:
        return PackageResult.model_validate(answer)
    except ValidationError:
        raise HarnessError("harness bundle create --json did not describe the zip.") from None


def initial_values() -> dict[str, str]:
    """Return the texts that the fields open with: those of the last packaging, or the files that exist."""
    existing = {_TEAM.key: default_file(TEAM), _DESCRIPTION.key: default_file(DESCRIPTION)}
    values = {field.key: field.default or "" for field in FIELDS}
    values |= {key: str(path) for key, path in existing.items() if path is not None}
    return values | load_values(_HISTORY_KEY, FIELDS)


def save_initial_values(texts: Mapping[str, str]) -> None:
    """Save the texts that the next Package screen opens with."""
    save_values(_HISTORY_KEY, changed_values(FIELDS, texts))


def read_snapshot(folder: RunFolder, values: Mapping[str, str]) -> PackageSnapshot:
    """Return a snapshot for these texts. This hashes the run's inputs, so it may take a while."""
    team = _path_in(values, _TEAM) or default_file(TEAM)
    description = _path_in(values, _DESCRIPTION) or default_file(DESCRIPTION)
    out_error = validation_error(_OUT, values[_OUT.key])
    try:
        with as_harness_error(folder.path):
            summary, checks = run_summary(folder), checklist(folder, team=team, description=description)
    except HarnessError as error:
        return PackageSnapshot(values, team, description, out_error, fault=str(error))
    return PackageSnapshot(values, team, description, out_error, summary, tuple(checks))


def run_header(summary: RunSummary) -> tuple[str, str]:
    """Return two lines: the attack, the round and the score; the run's id, status and note."""
    score = "no score yet"
    if summary.is_blind:
        score = "blind round"
    elif summary.known_recall is not None:
        score = f"Recall@{summary.error_cap} {format_score(summary.known_recall)}{summary.interval_text}"
    note = (shorten(summary.note, 200),) if summary.note else ()
    return (
        f"{summary.shown_attack} on {summary.round}, {score}",
        " · ".join((summary.id, summary.status.words, *note)),
    )


def _path_in(values: Mapping[str, str], field: Field) -> Path | None:
    text = field.value_of(values[field.key])
    if text is None:
        return None
    try:
        return expand_home(text)
    except HarnessError:
        # The checklist then says that the file does not exist.
        return Path(text)
