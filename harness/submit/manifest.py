"""MANIFEST.json, which describes a bundle and names the hash of every other file."""

import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from harness.core.errors import HarnessError
from harness.core.files import file_sha256
from harness.core.inputs import read_bounded_json
from harness.core.text import shorten

MANIFEST = "MANIFEST.json"
SUBMISSION = "submission.csv"
_MAX_BYTES = 8 << 20
Sha256 = str
MODEL_NAMES = {"target": "target", "reference": "reference model"}
"""The names of a bundle's models in messages, by the name of their option."""
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class BundleModel(BaseModel, frozen=True, extra="forbid"):
    """A record in a file of a bundle."""


class RunRecord(BundleModel):
    """The run that made the submission.

    `examples` is the number of attacked examples, the first ones of the round. `batch_sizes` are the measured sizes of
    the batches of each loop. `unpromised` lists the reasons why another run may not give the same bytes.
    """

    id: str
    status: str
    reason: str
    spent_s: Seconds
    budget_s: Seconds
    examples: Annotated[int, Field(gt=0)]
    sandbox: str | None
    hardware: dict[str, Any]
    versions: dict[str, str]
    unpromised: list[str]
    batch_sizes: dict[str, Annotated[int, Field(gt=0)]] = Field({}, max_length=1000)


class AcceptedCheck(BundleModel):
    """A failed check of the packaging checklist that the team accepted."""

    check: str
    """Name of the check."""
    sentence: str
    """State in words."""


class Manifest(BundleModel):
    """The contents of a bundle. code/spec.json names the attack. `files` maps each other file to its SHA-256."""

    format: Literal[1] = 1
    kind: Literal["submission", "code"]
    """`submission`, or `code` for one that was made before its prefixes were known."""
    harness: str
    prefixes_sha256: Sha256 | None = None
    """SHA-256 of the attacked token ids as little-endian integers of the vocabulary's width, row after row."""
    data_sha256: dict[str, Sha256]
    code_bundle_sha256: Sha256 | None = None
    """SHA-256 of the zip that `harness bundle code ATTACK --round R` makes of this code."""
    run: RunRecord | None = None
    marks: list[AcceptedCheck] = []
    files: dict[str, Sha256]

    def partial_words(self, examples: int) -> str:
        """Return, for example, "partial, 12 of 20" for a run on some of the `examples` of a round; empty for all."""
        attacked = examples if self.run is None else self.run.examples
        return f"partial, {attacked:,} of {examples:,}" if attacked < examples else ""

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
