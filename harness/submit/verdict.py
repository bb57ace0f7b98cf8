"""What verification says of a bundle: each thing that was looked at, and one word for the whole."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.core.errors import HarnessError
from harness.submit.differences import Agreement


class Outcome(StrEnum):
    """The word for the whole.

    reproduced: the code produced the submission, byte for byte; reproduced_up_to_ties: but for the order of equal
    scores; measured: it did not, and was not promised to, and by how much is told; ran: code alone, which ran within
    the budget; same_code, other_code: nothing was run, and the code is the frozen code, or not; refused: a check
    failed.
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
        """As people read it."""
        return self.value.replace("_", " ")

    @property
    def exit_code(self) -> int:
        """What `harness verify` exits with."""
        return {Outcome.REFUSED: 1, Outcome.MEASURED: 3, Outcome.OTHER_CODE: 3}.get(self, 0)


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. holds: None where it is told and decides nothing."""

    name: str
    holds: bool | None
    sentence: str


@dataclass(frozen=True)
class Verdict:
    """What verification came to. Times in seconds; scores as `Score.as_json` has them, by `submitted` and `produced`.

    produced_sha256: of the CSV that the code wrote; hardware, versions: of the machine that verified; sandbox: the
    means that held the code, None where nothing ran.
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
    seconds: float | None = None
    budget: float | None = None
    sandbox: str | None = None
    code_changes: dict[str, str] = field(default_factory=dict)
    hardware: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON has them."""
        return asdict(self)


class StoredVerdict(BaseModel):
    """What is taken from a verdict that was written before."""

    model_config = ConfigDict(extra="ignore")

    bundle_sha256: str
    outcome: Outcome
    sentence: str
    produced_sha256: str | None = None
    seconds: float | None = None
    hardware: dict[str, Any] = {}
    scores: dict[str, dict[str, Any]] = {}


def verdict_path(bundle: Path) -> Path:
    """Where the verdict on the bundle at `bundle` lies unless it was sent elsewhere."""
    return bundle.with_name(f"{bundle.stem}.verdict.json")


def produced_path(bundle: Path) -> Path:
    """Where what the code of the bundle at `bundle` produced lies, beside the verdict."""
    return bundle.with_name(f"{bundle.stem}.produced.csv")


def load_verdict(bundle: Path, sha256: str) -> StoredVerdict | None:
    """The verdict beside the bundle, if it is one on these very bytes. Raises HarnessError when it cannot be read."""
    path = verdict_path(bundle)
    if not path.is_file():
        return None
    try:
        stored = StoredVerdict.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        raise HarnessError(f"{path}: no verdict that can be read; delete it, and verify again.") from None
    return stored if stored.bundle_sha256 == sha256 else None
