"""What the Package screen knows and decides: what is met or accepted, what still holds the run back, and the command.

Widgets are unknown here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from harness.core.errors import HarnessError
from harness.core.paths import expand_home
from harness.core.text import pluralize, shorten
from harness.runs.errors import as_harness_error
from harness.runs.folder import RunFolder
from harness.runs.summary import RunSummary, run_summary
from harness.submit.checklist import Check, checklist, refusal
from harness.submit.default_paths import DESCRIPTION, SUBMISSIONS, TEAM, bundle_path, default_file
from harness.tui.faults import fault_in
from harness.tui.form import Field, Kind
from harness.tui.remembered import remember_values, remembered_values

_TEAM = Field(
    "team",
    Kind.FILE,
    "",
    description="Who submits: a TOML file with a table [[members]] for each person.",
    left_out=f"{TEAM}, here or in {SUBMISSIONS}/",
    is_option=True,
)
_DESCRIPTION = Field(
    "description",
    Kind.FILE,
    "",
    description="What is new about the attack, as Markdown; figures and tables of the run come by themselves.",
    left_out=f"{DESCRIPTION}, here or in {SUBMISSIONS}/",
    is_option=True,
)
_OUT = Field(
    "out",
    Kind.DESTINATION,
    "",
    description="Where the zip goes: a folder, or a name that ends in .zip.",
    left_out=f"{SUBMISSIONS}/",
    is_option=True,
)
_REDACT = Field(
    "redact",
    Kind.SWITCH,
    "false",
    description="Whether the description shows suffixes as their length and hash alone.",
    is_option=True,
)
FIELDS = (_TEAM, _DESCRIPTION, _OUT, _REDACT)
# No attack's name holds a space.
_REMEMBERED_AS = "harness package"


class CheckState(StrEnum):
    """How a point of the checklist stands, as the sign before it."""

    MET = "✓"
    UNMET = "✗"
    ACCEPTED = "–"


@dataclass(frozen=True)
class Look:
    """A run and the files that are to go with it, at one moment.

    values: the fields' texts by key, as they then were; team, description: what those stand for, None where nothing was
    found; out_fault: why the zip cannot go there; fault: why the run cannot be read right now, summary and checks then
    being what was read last.
    """

    values: Mapping[str, str]
    team: Path | None
    description: Path | None
    out_fault: str | None = None
    summary: RunSummary | None = None
    checks: tuple[Check, ...] = ()
    fault: str | None = None


@dataclass(frozen=True)
class Packaging:
    """A run on its way into a zip: what is typed, what was last found, and which unmet points are accepted, by name."""

    run_id: str
    values: Mapping[str, str]
    look: Look | None = None
    accepted: frozenset[str] = frozenset()

    def edited(self, values: Mapping[str, str]) -> "Packaging":
        """The same with other texts, which nobody has looked at yet."""
        return replace(self, values=dict(values))

    def looked_at(self, look: Look) -> "Packaging":
        """The same after another look. A point stays accepted for as long as it says what it said then."""
        if look.fault is not None:
            summary = None if self.look is None else self.look.summary
            return replace(self, look=replace(look, summary=summary, checks=self.checks))
        before = {check.name: check.sentence for check in self.checks}
        still = {check.name for check in look.checks if not check.is_met and before.get(check.name) == check.sentence}
        return replace(self, look=look, accepted=self.accepted & still)

    def toggled(self, name: str) -> "Packaging":
        """The same with the point `name` accepted, or no longer. Raises HarnessError where it cannot be."""
        check = next(check for check in self.checks if check.name == name)
        if check.is_met:
            raise HarnessError(f"{name} is met: there is nothing to accept.")
        if not check.can_be_accepted:
            raise HarnessError(f"{name} cannot be accepted: {check.sentence}; {check.mend}.")
        return replace(self, accepted=self.accepted ^ {name})

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checklist as it was last found."""
        return () if self.look is None else self.look.checks

    def standing(self, check: Check) -> CheckState:
        """Whether `check` is met, or accepted as it is."""
        if check.is_met:
            return CheckState.MET
        return CheckState.ACCEPTED if check.can_be_accepted and check.name in self.accepted else CheckState.UNMET

    @property
    def tally(self) -> str:
        """How many points are met, and how many accepted."""
        if not self.checks:
            return "nothing is known yet"
        standings = [self.standing(check) for check in self.checks]
        met, accepted = standings.count(CheckState.MET), standings.count(CheckState.ACCEPTED)
        return f"{met} of {len(standings)} met" + (f", {accepted} accepted" if accepted else "")

    @property
    def is_looked_at(self) -> bool:
        """What was last found is about what is typed now."""
        return self.look is not None and self.look.values == self.values

    @property
    def first_unmet(self) -> str | None:
        """The first point that holds the run back."""
        return next((check.name for check in self.checks if self.standing(check) is CheckState.UNMET), None)

    @property
    def hindrance(self) -> str | None:
        """Why the run cannot be packaged right now; None when it can."""
        if self.look is None or self.look.values != self.values:
            return "still checking …"
        if self.look.fault is not None:
            return self.look.fault
        if self.look.out_fault is not None:
            return f"out: {self.look.out_fault}."
        refused = refusal(list(self.checks), self.accepted)
        return None if refused is None else str(refused)

    @property
    def awaited(self) -> str:
        """What is still open, in short."""
        names = [check.name for check in self.checks if self.standing(check) is CheckState.UNMET]
        if names and self.is_looked_at:
            return f"open: {', '.join(names)}"
        return self.hindrance or "ready."

    @property
    def destination(self) -> Path:
        """The zip that would be written."""
        return bundle_path(self._typed(_OUT), f"{self.run_id}.zip")

    def command_line(self, *, force: bool = False) -> list[str]:
        """The arguments of `harness` that package the run; what is left to the command's own default is left out."""
        look = self.look
        files = {
            _TEAM.key: self._typed(_TEAM) or (look and look.team),
            _DESCRIPTION.key: self._typed(_DESCRIPTION) or (look and look.description),
            _OUT.key: self._typed(_OUT),
        }
        command = ["package", self.run_id]
        for option, path in files.items():
            command += [option, str(path)] if path is not None else []
        for check in self.checks:
            command += ["--accept", check.name] if self.standing(check) is CheckState.ACCEPTED else []
        command += [_REDACT.key] if _REDACT.given(self.values[_REDACT.key]) else []
        return [*command, "--force"] if force else command

    def _typed(self, field: Field) -> Path | None:
        return _typed(self.values, field)


class _Mark(BaseModel):
    check: str
    sentence: str


class Packaged(BaseModel):
    """What `harness package --json` tells of the zip that it has written."""

    bundle: Path
    sha256: str
    bytes: int
    files: int
    pages: int | None
    marks: tuple[_Mark, ...]

    @property
    def lines(self) -> list[str]:
        """The zip's path, its SHA-256, what is in it, and each point that was accepted."""
        pages = pluralize(self.pages or 0, "page")
        size = f"{self.bytes / 1e6:,.1f} MB"
        return [
            str(self.bundle),
            f"SHA-256 {self.sha256}",
            f"{pluralize(self.files, 'file')}, description of {pages}, {size}, {pluralize(len(self.marks), 'mark')}",
            *(f"accepted: {mark.check} – {mark.sentence}" for mark in self.marks),
        ]


def packaged(told: Mapping[str, Any]) -> Packaged:
    """The zip that the command tells of. Raises HarnessError when it tells of none."""
    try:
        return Packaged.model_validate(told)
    except ValidationError:
        raise HarnessError("harness package ended well, and yet told of no zip.") from None


def opening_values() -> dict[str, str]:
    """The texts that the fields open with: what was last packaged with, else the files that are found."""
    found = {_TEAM.key: default_file(TEAM), _DESCRIPTION.key: default_file(DESCRIPTION)}
    values = {field.key: field.default or "" for field in FIELDS}
    values |= {key: str(path) for key, path in found.items() if path is not None}
    return values | remembered_values(_REMEMBERED_AS, FIELDS)


def remember(values: Mapping[str, str]) -> None:
    """Let the next Package screen of this machine open with `values`."""
    given = {field.key: field.given(values[field.key]) for field in FIELDS}
    remember_values(_REMEMBERED_AS, {key: text for key, text in given.items() if text is not None})


def look_at(folder: RunFolder, values: Mapping[str, str]) -> Look:
    """What there is now, for the fields' texts `values`. Hashes what the run was given, so it may take a while."""
    team = _typed(values, _TEAM) or default_file(TEAM)
    description = _typed(values, _DESCRIPTION) or default_file(DESCRIPTION)
    out_fault = fault_in(_OUT, values[_OUT.key])
    try:
        with as_harness_error(folder.path):
            summary, checks = run_summary(folder), checklist(folder, team=team, description=description)
    except HarnessError as error:
        return Look(values, team, description, out_fault, fault=str(error))
    return Look(values, team, description, out_fault, summary, tuple(checks))


def run_in_words(summary: RunSummary) -> tuple[str, str]:
    """The attack, the round and the score; then the run's id, how it stands, and its note."""
    score = "no score yet"
    if summary.is_blind:
        score = "which is blind"
    elif summary.recall_at_cap is not None:
        interval = summary.recall_interval
        bounds = "" if interval is None else f" [{interval[0]:.3f}, {interval[1]:.3f}]"
        score = f"recall at {summary.error_cap} errors {summary.recall_at_cap:.3f}{bounds}"
    note = (shorten(summary.note, 200),) if summary.note else ()
    return (
        f"{summary.shown_attack} on {summary.round}, {score}",
        " · ".join((summary.id, summary.status.words, *note)),
    )


def _typed(values: Mapping[str, str], field: Field) -> Path | None:
    text = field.given(values[field.key])
    if text is None:
        return None
    try:
        return expand_home(text)
    except HarnessError:
        # The look at it says that it is not there.
        return Path(text)
