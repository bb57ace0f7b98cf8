"""MANIFEST.json: the hash of every file of a bundle, and of what they were made from."""

import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.core.errors import HarnessError
from harness.core.files import file_sha256
from harness.core.text import shorten

MANIFEST = "MANIFEST.json"
_MAX_BYTES = 8 << 20
Sha256 = str
_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NamedTarget(_Record):
    """The model that was attacked: what it is called, and the hash of its weights. No path of anybody's machine."""

    id: str
    revision: str
    commit: str | None
    weights_sha256: Sha256
    is_folder: bool = Field(description="It was named by a folder, of which `id` is the last part.")


class RanOn(_Record):
    """The run that a submission comes from. Times in seconds; `unpromised`: why its bytes may not come out again."""

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
    versions: dict[str, str]
    unpromised: list[str]


class Mark(_Record):
    """A refusal that the team overrode."""

    check: str
    sentence: str


class Manifest(_Record):
    """What a bundle holds. `files` maps each file but this one to its SHA-256.

    kind: `submission`, or `code` for one that was made before its prefixes were known; code_bundle_sha256: of the zip
    that `harness package ATTACK --round R --code-only` makes of this code; prefixes_sha256: of the attacked token ids
    as little-endian integers of the vocabulary's width, row after row; torch: version and build.
    """

    format: Literal[1] = 1
    kind: Literal["submission", "code"]
    harness: str
    attack: str
    attack_sha256: Sha256
    round: str
    prefixes_sha256: Sha256 | None
    target: NamedTarget | None
    data_sha256: dict[str, Sha256]
    lock_sha256: Sha256
    torch: str
    code_bundle_sha256: Sha256 | None
    run: RanOn | None
    marks: list[Mark]
    files: dict[str, Sha256]

    def json_bytes(self) -> bytes:
        """The manifest as it stands in a bundle."""
        return (self.model_dump_json(indent=2) + "\n").encode()


def hashes_of(files: dict[str, bytes]) -> dict[str, Sha256]:
    """The SHA-256 of each content, by name, sorted."""
    return {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)}


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the bundle unpacked in `folder`. Raises HarnessError when it has none that can be read."""
    path = folder / MANIFEST
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise HarnessError(f"{MANIFEST} is larger than any manifest.")
        return Manifest.model_validate_json(path.read_bytes())
    except OSError:
        raise HarnessError(f"it holds no {MANIFEST}: no bundle of this harness.") from None
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise HarnessError(f"{MANIFEST}: {shorten(where)}: {shorten(fault['msg'], 120)}.") from None


def manifest_faults(manifest: Manifest, folder: Path, names: list[str]) -> list[str]:
    """What in `folder`, which holds the files `names`, is not as the manifest says; a clause each."""
    there = set(names) - {MANIFEST}
    listed = set(manifest.files)
    faults = [f"{shorten(name)} is listed and missing" for name in sorted(listed - there)]
    faults += [f"{shorten(name)} is there and not listed" for name in sorted(there - listed)]
    faults += [
        f"{shorten(name)} is altered: its SHA-256 is {sha256[:12]}…, the manifest says {manifest.files[name][:12]}…"
        for name in sorted(listed & there)
        if (sha256 := file_sha256(folder / name)) != manifest.files[name]
    ]
    return faults
