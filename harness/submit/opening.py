"""A bundle opened and looked at, before any of it runs: its files, its papers, its code and its rules."""

import hashlib
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import HarnessError
from harness.core.files import file_sha256
from harness.core.rounds import Round
from harness.core.times import format_duration
from harness.submit.archive import unpack
from harness.submit.code import REQUIREMENTS
from harness.submit.code_spec import SPEC, CodeSpec, read_code_spec
from harness.submit.findings import Findings
from harness.submit.frozen import CodeDifference, code_difference
from harness.submit.lock import require_plain_lock
from harness.submit.manifest import Manifest, manifest_faults, read_manifest
from harness.submit.rerun import round_of_code
from harness.submit.team import load_team
from harness.submit.wheel import harness_wheel

_RULES = ("prefix_length", "suffix_length", "vocabulary", "error_cap", "row_cap")
_CHALLENGE = {"error_cap": 100, "row_cap": 100_000}
_MOST_LOCK_BYTES = 8 << 20


class ReadCode(NamedTuple):
    """The code's spec, and the rules that its submission is judged by."""

    spec: CodeSpec
    rules: Round


def opened(bundle: Path, folder: Path, findings: Findings) -> Manifest:
    """The manifest of the bundle, unpacked into `folder`, once every file is as it says."""
    folder.mkdir(parents=True)
    try:
        names = unpack(bundle, folder)
        manifest = read_manifest(folder)
    except HarnessError as error:
        findings.fail("archive", str(error).rstrip("."))
    faults = manifest_faults(manifest, folder, names)
    findings.check(
        "manifest",
        not faults,
        f"all {len(manifest.files):,} files are as the manifest says",
        "; ".join(faults[:3]) + (f"; and {len(faults) - 3:,} more" if len(faults) > 3 else ""),
    )
    for mark in manifest.marks:
        findings.tell("accepted", f"{mark.check}: {mark.sentence}")
    return manifest


def look_at_papers(folder: Path, findings: Findings) -> None:
    """Find the team and the description of a submission's bundle."""
    try:
        team = load_team(folder / "team.toml")
    except HarnessError as error:
        findings.fail("team", in_bundle(error, folder))
    findings.tell("team", team.title)
    pdf = folder / "description.pdf"
    is_pdf = pdf.is_file() and pdf.read_bytes()[:5] == b"%PDF-"
    findings.check("description", is_pdf, "description.pdf is there", "there is no description.pdf")


def difference_from_frozen(
    folder: Path, frozen: Path, manifest: Manifest, place: Path, findings: Findings
) -> CodeDifference:
    """How the code in `folder` differs from that of the zip `frozen`, which is unpacked into `place`.

    A difference is told and not refused: a contest may allow a patch. Raises HarnessError when the zip cannot be read.
    """
    place.mkdir()
    unpack(frozen, place)
    names = manifest.code_bundle_sha256 == file_sha256(frozen)
    difference = code_difference(folder, place, names_frozen=names)
    if difference.is_same:
        findings.check("frozen", True, difference.in_words, "")
    else:
        findings.tell("frozen", difference.in_words)
    return difference


def read_code(folder: Path, manifest: Manifest, round_: Round | None, findings: Findings) -> ReadCode:
    """The code's spec and rules: the organizers' if they name a round, else the bundle's with the challenge's caps."""
    code = folder / "code"
    try:
        spec, rules = read_code_spec(code), round_of_code(code)
        require_plain_lock(_lock_in(code))
    except HarnessError as error:
        findings.fail("code", in_bundle(error, folder))
    is_named = (
        spec.attack.sha256 == manifest.attack_sha256
        and file_sha256(code / REQUIREMENTS) == manifest.lock_sha256
        and (None if spec.target is None else spec.target.named) == manifest.target
    )
    findings.check(
        "code",
        is_named,
        f"{SPEC} and lock are those of the manifest",
        f"{SPEC} or lock is another than the manifest's",
    )
    _tell_of_harness(code, findings)
    if round_ is None:
        rules = rules.model_copy(update=_CHALLENGE)
        caps = f"{rules.error_cap:,} errors, {rules.row_cap:,} rows"
        findings.tell("rules", f"lengths and vocabulary are the bundle's, caps the challenge's: {caps}")
        return ReadCode(spec, rules)
    differing = [name for name in _RULES if getattr(round_, name) != getattr(rules, name)]
    findings.check(
        "rules",
        not differing,
        f"the rules are those of {round_.name}, {format_duration(round_.budget)}",
        f"the bundle's rules are not those of {round_.name}: {', '.join(differing)}",
    )
    return ReadCode(spec, round_)


def in_bundle(error: HarnessError, folder: Path) -> str:
    """The error as a clause that names files as they lie in the bundle."""
    return str(error).replace(f"{folder}/", "").partition("; name the folder")[0].rstrip(".")


def _lock_in(code: Path) -> str:
    path = code / REQUIREMENTS
    try:
        if path.stat().st_size > _MOST_LOCK_BYTES:
            raise HarnessError(f"{path}: larger than any lock.")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise HarnessError(f"{path}: is missing, or no text.") from None


def _tell_of_harness(code: Path, findings: Findings) -> None:
    """Whether the bundle's harness is the one that verifies: what a team changed in it is a team's code."""
    name, content = harness_wheel()
    theirs = code / name
    is_ours = theirs.is_file() and file_sha256(theirs) == hashlib.sha256(content).hexdigest()
    words = "is the one that verifies" if is_ours else "is another than the one that verifies, or was changed"
    findings.tell("harness", f"the bundle's harness {words}")
