"""MANIFEST.json: the hash of every file of a bundle and of the inputs that the bundle was made from."""

import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.core.calibration import BudgetMachine
from harness.core.errors import HarnessError
from harness.core.files import file_sha256
from harness.core.rounds import ROUND_NAME
from harness.core.text import shorten
from harness.core.untrusted_files import read_bounded_json
from harness.plugins.declarations import NAME

MANIFEST = "MANIFEST.json"
SUBMISSION = "submission.csv"
_MAX_BYTES = 8 << 20
Sha256 = str
MODEL_NAMES = {"target": "target", "reference": "reference model"}
"""The names of a bundle's models in messages, by the name of their option."""
_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class BundleModel(BaseModel):
    """A record in a file of a bundle."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TargetIdentity(BundleModel):
    """The target or the reference model: its name and the hash of its weights, without any local path."""

    id: str
    revision: str
    commit: str | None
    weights_sha256: Sha256
    is_folder: bool = Field(description="The model was a local folder, and `id` is the folder's name.")


class EarlySubmission(BundleModel):
    """The submission of the run after `share` of the round's budget, `standard_s` standard seconds; file: its name."""

    share: Annotated[float, Field(gt=0, le=1)]
    standard_s: _Seconds
    file: str = Field(pattern=r"^(submission|early/[0-9]{1,3}-percent)\.csv$")


class RunRecord(BundleModel):
    """The run that made the submission.

    `spent_s` and `budget_s` are in wall seconds, or in standard seconds of `budget_machine`; `wall_s` is `spent_s` in
    wall seconds. `official_per_s` is the calibrated rate of the run's devices. `early` is empty without a calibration.
    `batch_sizes` are the measured sizes of the batches of each loop. `unpromised` lists the reasons why another run may
    not give the same bytes.
    """

    id: str
    status: str
    reason: str
    spent_s: _Seconds
    budget_s: _Seconds
    examples: int
    round_examples: int
    sandbox: str | None
    hardware: dict[str, Any]
    target_as_loaded: dict[str, Any] | None
    reference_as_loaded: dict[str, Any] | None = None
    versions: dict[str, str]
    unpromised: list[str]
    budget_machine: BudgetMachine | None = None
    wall_s: _Seconds | None = None
    official_per_s: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None
    early: list[EarlySubmission] = Field([], max_length=10)
    batch_sizes: dict[str, Annotated[int, Field(gt=0)]] = Field({}, max_length=1000)

    @property
    def wall_seconds(self) -> float:
        """The wall seconds of the run."""
        return self.spent_s if self.wall_s is None else self.wall_s


class AcceptedCheck(BundleModel):
    """A failed check of the packaging checklist that the team accepted."""

    check: str
    sentence: str


class Manifest(BundleModel):
    """The content of a bundle. `files` maps each file except the manifest to its SHA-256.

    kind: `submission`, or `code` for one that was made before its prefixes were known. code_bundle_sha256: of the zip
    that `harness package code ATTACK --round R` makes of this code. prefixes_sha256: of the attacked token ids
    as little-endian integers of the vocabulary's width, row after row. torch: version and build.
    """

    format: Literal[1] = 1
    kind: Literal["submission", "code"]
    harness: str
    attack: str = Field(pattern=rf"^{NAME.pattern}$")
    attack_sha256: Sha256
    round: str = Field(pattern=ROUND_NAME)
    prefixes_sha256: Sha256 | None = None
    target: TargetIdentity | None
    reference: TargetIdentity | None = None
    data_sha256: dict[str, Sha256]
    lock_sha256: Sha256
    torch: str
    code_bundle_sha256: Sha256 | None = None
    run: RunRecord | None = None
    marks: list[AcceptedCheck] = []
    files: dict[str, Sha256]

    def json_bytes(self) -> bytes:
        """Return the manifest as it is stored in a bundle."""
        return (self.model_dump_json(indent=2) + "\n").encode()


def hashes_of(files: dict[str, bytes]) -> dict[str, Sha256]:
    """Return the SHA-256 of each content, sorted by file name."""
    return {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)}


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of an unpacked bundle. Raises HarnessError if it is missing or not valid."""
    path = folder / MANIFEST
    if not path.exists():
        raise HarnessError(f"{path} is missing: this is not a bundle of this harness.")
    return read_bounded_json(Manifest, path, limit=_MAX_BYTES)


def manifest_faults(manifest: Manifest, folder: Path, names: list[str]) -> list[str]:
    """Return the differences between the manifest and the files `names` in `folder`, one clause each."""
    present = set(names) - {MANIFEST}
    listed = set(manifest.files)
    faults = [f"{shorten(name)} is listed but missing" for name in sorted(listed - present)]
    faults += [f"{shorten(name)} is present but not listed" for name in sorted(present - listed)]
    faults += [
        f"{shorten(name)} was changed: its SHA-256 is {sha256[:12]}…, the manifest says {manifest.files[name][:12]}…"
        for name in sorted(listed & present)
        if (sha256 := file_sha256(folder / name)) != manifest.files[name]
    ]
    return faults
