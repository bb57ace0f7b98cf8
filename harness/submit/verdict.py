"""The verdict of a verification: the finding of each check, and one outcome for the whole bundle."""

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Never

from pydantic import TypeAdapter, ValidationError

from harness.core.errors import HarnessError
from harness.core.text import shorten
from harness.submit.differences import Agreement


class Outcome(StrEnum):
    """The outcome of a verification.

    REPRODUCED: the code produced the submission byte for byte. REPRODUCED_UP_TO_TIES: only rows with equal scores
    changed places. MEASURED: the result differs, which was allowed, and the difference is reported. RAN: the bundle
    contains code only, and the code ran within the budget. SAME_CODE, OTHER_CODE: nothing ran; the code is, or is not,
    the frozen code. REFUSED: a check failed.
    """

    REPRODUCED = "reproduced"
    REPRODUCED_UP_TO_TIES = "reproduced_up_to_ties"
    MEASURED = "measured"
    RAN = "ran"
    SAME_CODE = "same_code"
    OTHER_CODE = "other_code"
    REFUSED = "refused"

    @property
    def words(self) -> str:
        """The outcome with spaces instead of underscores."""
        return self.value.replace("_", " ")

    @property
    def exit_code(self) -> int:
        """The exit code of `harness verify`."""
        return {Outcome.REFUSED: 1, Outcome.MEASURED: 3, Outcome.OTHER_CODE: 3}.get(self, 0)


@dataclass(frozen=True)
class Finding:
    """The result of one check. `holds` is None for information that decides nothing."""

    name: str
    holds: bool | None
    sentence: str


def unexpected(error: Exception) -> str:
    """Return a clause about an error that nobody foresaw. It must not end the work on other bundles."""
    return f"internal error ({type(error).__name__}: {shorten(str(error), 120)})"


class CheckFailed(Exception):
    """A check failed, which ends the verification. The last finding gives the reason."""


class FindingLog:
    """The findings of a verification, in the order of the checks."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def check(self, name: str, holds: bool, sentence: str, otherwise: str) -> None:
        """Record `sentence` if the check holds. Otherwise record `otherwise` and raise CheckFailed."""
        if not holds:
            self.fail(name, otherwise)
        self.record(name, sentence)

    def record(self, name: str, sentence: str) -> None:
        """Record a check that holds."""
        self.findings.append(Finding(name, True, sentence))

    def fail(self, name: str, sentence: str) -> Never:
        """Record a check that fails, and raise CheckFailed."""
        self.findings.append(Finding(name, False, sentence))
        raise CheckFailed

    def note(self, name: str, sentence: str) -> None:
        """Record information that decides nothing."""
        self.findings.append(Finding(name, None, sentence))


@dataclass(frozen=True)
class Verdict:
    """The result of a verification. Earlier files call the times `seconds` and `budget`.

    `scores` maps `submitted` and `produced` to `Score.as_json`. `produced_sha256` is the hash of the CSV that the code
    wrote. `elapsed_s` is in wall seconds; `budget_s` is too, or in standard seconds of `budget_machine`.
    `official_per_s` is the calibrated rate of the verifier's device, None if it is not calibrated. `hardware` and
    `versions` describe the machine that verified the bundle. `sandbox` names the backend, and is None if nothing ran.
    """

    bundle: str
    bundle_sha256: str
    kind: str
    attack: str
    round: str
    outcome: Outcome
    sentence: str
    findings: tuple[Finding, ...]
    agreement: Agreement | None = None
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)
    produced_sha256: str | None = None
    elapsed_s: float | None = None
    budget_machine: str | None = None
    official_per_s: float | None = None
    budget_s: float | None = None
    sandbox: str | None = None
    code_changes: dict[str, str] = field(default_factory=dict)
    hardware: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


def verdict_path(bundle: Path) -> Path:
    """Return the default path of the verdict on a bundle."""
    return bundle.with_name(f"{bundle.stem}.verdict.json")


def produced_path(bundle: Path) -> Path:
    """Return the default path of the submission that a bundle's code produced."""
    return bundle.with_name(f"{bundle.stem}.produced.csv")


def load_verdict(bundle: Path, sha256: str) -> Verdict | None:
    """Return the verdict stored next to a bundle, or None if there is none for a bundle with this SHA-256.

    Raises HarnessError if the file cannot be read.
    """
    path = verdict_path(bundle)
    if not path.is_file():
        return None
    try:
        stored = TypeAdapter(Verdict).validate_json(path.read_bytes())
    except (OSError, ValidationError):
        raise HarnessError(f"{path}: not a verdict. Delete the file and verify the bundle again.") from None
    return stored if stored.bundle_sha256 == sha256 else None
