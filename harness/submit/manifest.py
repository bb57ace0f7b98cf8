"""The files of a bundle that describe it: MANIFEST.json, with the hash of every file, and the team's team.toml."""

import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from harness.core.errors import HarnessError
from harness.core.files import file_sha256
from harness.core.inputs import read_bounded_json, read_bounded_text, read_bounded_toml, validate_fields
from harness.core.text import pluralize, shorten

MANIFEST = "MANIFEST.json"
SUBMISSION = "submission.csv"
_MAX_BYTES = 8 << 20
Sha256 = str
MODEL_NAMES = {"target": "target", "reference": "reference model"}
"""The names of a bundle's models in messages, by the name of their option."""
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class BundleModel(BaseModel):
    """A record in a file of a bundle."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class RunRecord(BundleModel):
    """The run that made the submission.

    `batch_sizes` are the measured sizes of the batches of each loop. `unpromised` lists the reasons why another run may
    not give the same bytes.
    """

    id: str
    status: str
    reason: str
    spent_s: Seconds
    budget_s: Seconds
    examples: int
    sandbox: str | None
    hardware: dict[str, Any]
    versions: dict[str, str]
    unpromised: list[str]
    batch_sizes: dict[str, Annotated[int, Field(gt=0)]] = Field({}, max_length=1000)


class AcceptedCheck(BundleModel):
    """A failed check of the packaging checklist that the team accepted."""

    check: str
    sentence: str


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


_MAX_TEAM_BYTES = 1 << 16
_Line = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200, pattern=r"^[^\n\r\x00]*$")
]
_Address = Annotated[str, StringConstraints(strip_whitespace=True, max_length=200, pattern=r"^[^@\s]+@[^@\s]+$")]


class Member(BundleModel):
    """A member of the team."""

    name: _Line
    affiliation: _Line | None = None
    email: _Address | None = None

    @property
    def name_and_affiliation(self) -> str:
        return self.name if self.affiliation is None else f"{self.name}, {self.affiliation}"


class Team(BundleModel):
    """A team: its members, and optionally its name and contact."""

    name: _Line | None = None
    contact: _Line | None = None
    members: tuple[Member, ...] = Field(min_length=1, max_length=100)

    @property
    def title(self) -> str:
        """The team's name, or the names of its members."""
        return self.name or ", ".join(member.name for member in self.members)


def load_team(path: Path) -> Team:
    """Load a team file. Raises HarnessError, with file and field, if it is not valid."""
    if not path.exists():
        raise HarnessError(f"{path}: no such file. A team file has a table [[members]] with a name for each member.")
    return validate_fields(Team, read_bounded_toml(path, limit=_MAX_TEAM_BYTES), path)


SUBMISSIONS = Path("submissions")
TEAM, DESCRIPTION = "team.toml", "description.md"


_MAX_DESCRIPTION_BYTES = 1 << 16  # typesetting a megabyte would take a minute
_FEWEST_WORDS = 400


def description_length(path: Path) -> tuple[str, bool]:
    """Return a clause with the number of words outside tables, quotes and code, and True if they are too few.

    Two pages of text have 400 words or more. A word has a letter. Raises HarnessError if the file is empty or cannot be
    read.
    """
    from markdown_it import MarkdownIt  # Only packaging and verification need it.

    markdown = read_bounded_text(path, limit=_MAX_DESCRIPTION_BYTES)
    if not markdown.strip():
        raise HarnessError(f"{path}: the file is empty.")
    depth = words = 0
    for token in MarkdownIt("commonmark").enable("table").parse(markdown):
        if token.type.startswith(("table_", "blockquote_")):
            depth += token.nesting
        elif token.type == "inline" and not depth:
            words += sum(any(map(str.isalpha, word)) for word in token.content.split())
    sentence = f"the description has {pluralize(words, 'word')}"
    if words >= _FEWEST_WORDS:
        return sentence, False
    return f"{sentence} outside tables and examples; two to five pages have at least {_FEWEST_WORDS}", True


def default_file(name: str) -> Path | None:
    """Return the file `name` in the current directory or in submissions/, or None."""
    return next((path for path in (Path(name), SUBMISSIONS / name) if path.is_file()), None)


def bundle_path(out: Path | None, name: str) -> Path:
    """Return the path of the zip `name`: `out` if it ends in .zip, otherwise inside `out` or submissions/."""
    return out if out is not None and out.suffix == ".zip" else (out or SUBMISSIONS) / name
