"""The state of the Package screen: the fields, the checklist, what blocks the packaging, and the command.

It knows nothing about widgets.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.core.errors import HarnessError
from harness.core.inputs import as_harness_error
from harness.core.text import format_score, pluralize, shorten
from harness.runs.folder import RunFolder
from harness.runs.summary import RunSummary, run_summary
from harness.submit.checklist import Check, checklist, refusal
from harness.submit.package_options import PackageOptions
from harness.submit.team import DESCRIPTION, TEAM, bundle_path, default_file
from harness.tui.form import Form, option_fields
from harness.tui.saved_state import load_values

_TEAM, _DESCRIPTION, _OUT = "--team", "--description", "--out"
# The name of an attack never contains a space.
_HISTORY_KEY = "harness bundle create"


FIELDS = tuple(option_fields(PackageOptions))
EDITED_FILES = {"team": TEAM, "description": DESCRIPTION}
"""The file that the user writes for a check, by the check's name."""


@dataclass(frozen=True)
class PackageState:
    """A run, and the files to package with it.

    values: the texts of the fields, by key.
    checked_values: the texts at the time of the checklist; None before the first one.
    summary, checks: of the last time that the run could be read.
    fault: why the run cannot be read now.
    accepted: the names of the unmet checks that the user accepts.
    """

    folder: RunFolder
    values: Mapping[str, str]
    checked_values: Mapping[str, str] | None = None
    summary: RunSummary | None = None
    checks: tuple[Check, ...] = ()
    fault: str | None = None
    accepted: frozenset[str] = frozenset()

    def check(self) -> "PackageState":
        """Return this state with a new checklist. This hashes the run's inputs, so it may take a while."""
        state = replace(self, checked_values=self.values, fault=None)
        try:
            with as_harness_error(self.folder.path):
                team = self._path(_TEAM) or default_file(TEAM)
                description = self._path(_DESCRIPTION) or default_file(DESCRIPTION)
                checks = checklist(self.folder, team=team, description=description)
                return replace(state, summary=run_summary(self.folder), checks=tuple(checks))
        except HarnessError as error:
            return replace(state, fault=str(error))

    def with_checks_of(self, state: "PackageState") -> "PackageState":
        """Return this state with the checklist of `state`. A check stays accepted while its sentence is the same."""
        before = {check.name: check.sentence for check in self.checks}
        same = {check.name for check in state.checks if not check.is_met and before.get(check.name) == check.sentence}
        return replace(state, values=self.values, accepted=self.accepted & same)

    def with_accepted_toggled(self, name: str) -> "PackageState":
        """Return this state with the check `name` accepted, or no longer. Raises HarnessError if it cannot be."""
        check = next(check for check in self.checks if check.name == name)
        if not check.can_be_accepted:
            raise HarnessError(f"{name} cannot be accepted: {check.sentence}; {check.fix}.")
        return replace(self, accepted=self.accepted ^ {name})

    def sign(self, check: Check) -> str:
        """Return the sign of a check, – for an accepted one."""
        return "–" if check.name in self.accepted else check.sign

    @property
    def counts(self) -> str:
        """The number of checks that are met, and that are accepted."""
        if not self.checks:
            return "not checked yet"
        accepted = f", {len(self.accepted)} accepted" if self.accepted else ""
        return f"{sum(check.is_met for check in self.checks)} of {len(self.checks)} met{accepted}"

    @property
    def is_current(self) -> bool:
        """True if the checklist is about the texts of the fields."""
        return self.checked_values == self.values

    @property
    def unmet(self) -> list[str]:
        """The names of the checks that block the packaging."""
        return [check.name for check in self.checks if self.sign(check) == "✗"]

    @property
    def blocker(self) -> str | None:
        """The reason why the run cannot be packaged now; None if it can."""
        if not self.is_current:
            return "checking …"
        error = self.fault or refusal(list(self.checks), self.accepted)
        return None if error is None else str(error)

    @property
    def status(self) -> str:
        """The unmet checks, another blocker, or that the run can be packaged."""
        return f"unmet: {', '.join(self.unmet)}" if self.unmet and self.is_current else self.blocker or "ready."

    @property
    def destination(self) -> Path:
        """The zip that would be written."""
        return bundle_path(self._path(_OUT), f"{self.folder.id}.zip")

    @property
    def options(self) -> list[str]:
        """The options of `harness bundle create` that accept checks."""
        return [word for check in self.checks if check.name in self.accepted for word in ("--accept", check.name)]

    def edited_file(self, check: str) -> Path:
        """Return the file of a check, which may not exist yet."""
        name = EDITED_FILES[check]
        return self._path(f"--{check}") or default_file(name) or Path(name)

    def header(self) -> tuple[str, str]:
        """Return two lines: the attack, the round and the score; the run's id, status and note."""
        summary = self.summary
        if summary is None:
            return self.folder.id, self.fault or "reading …"
        score = "blind round" if summary.is_blind else "no score yet"
        if not summary.is_blind and summary.known_recall is not None:
            score = f"Recall@{summary.error_cap} {format_score(summary.known_recall)}{summary.interval_text}"
        facts = (summary.id, summary.status.words, shorten(summary.note, 200))
        return f"{summary.shown_attack} on {summary.round}, {score}", self.fault or " · ".join(filter(None, facts))

    def _path(self, key: str) -> Path | None:
        field = next(field for field in FIELDS if field.key == key)
        value = field.value_of(self.values[key])
        return None if value is None else Path(field.words(value)[-1])


def package_form(folder: RunFolder) -> Form:
    """Return the form of `harness bundle create`."""
    return Form(("bundle", "create", folder.id), _HISTORY_KEY, FIELDS)


def result_lines(answer: Mapping[str, Any]) -> list[str]:
    """Return the output of `harness bundle create --json`: the zip, its SHA-256, its contents, each accepted check."""
    marks = answer["marks"]
    contents = (
        pluralize(answer["files"], "file"),
        f"description of {pluralize(answer['pages'] or 0, 'page')}",
        f"{answer['bytes'] / 1e6:,.1f} MB",
        pluralize(len(marks), "mark"),
    )
    accepted = [f"accepted: {mark['check']} – {mark['sentence']}" for mark in marks]
    return [answer["bundle"], f"SHA-256 {answer['sha256']}", ", ".join(contents), *accepted]


def initial_values() -> dict[str, str]:
    """Return the texts that the fields open with: those of the last packaging, or the files that exist."""
    values = {field.key: field.default or "" for field in FIELDS}
    files = {_TEAM: default_file(TEAM), _DESCRIPTION: default_file(DESCRIPTION)}
    existing = {key: str(path) for key, path in files.items() if path is not None}
    return values | existing | load_values(_HISTORY_KEY, FIELDS)
