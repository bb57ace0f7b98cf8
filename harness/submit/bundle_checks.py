"""The checks on a bundle before its code runs: the archive, the manifest, the documents, the code and the rules."""

from pathlib import Path
from typing import NamedTuple

from harness.core.errors import HarnessError
from harness.core.files import file_sha256
from harness.core.rounds import Round
from harness.core.times import format_duration
from harness.submit.archive import unpack
from harness.submit.code_folder import REQUIREMENTS
from harness.submit.code_spec import SPEC, CodeSpec, read_code_spec
from harness.submit.differences import CodeDifference, compare_code
from harness.submit.lock_file import require_plain_lock
from harness.submit.manifest import Manifest, manifest_faults, read_manifest
from harness.submit.rerun import read_round_rules
from harness.submit.team import load_team
from harness.submit.untrusted_files import read_bounded_text
from harness.submit.verdict import FindingLog
from harness.submit.wheel import harness_wheel

_RULES = ("prefix_length", "suffix_length", "vocabulary", "error_cap", "row_cap")
_CHALLENGE_CAPS = {"error_cap": 100, "row_cap": 100_000}
_MAX_LOCK_BYTES = 8 << 20


class CheckedCode(NamedTuple):
    """The spec of a bundle's code, and the rules that its submission is scored by."""

    spec: CodeSpec
    rules: Round


def open_bundle(bundle: Path, folder: Path, log: FindingLog) -> Manifest:
    """Unpack a bundle into `folder`, check every file against the manifest, and return the manifest."""
    folder.mkdir(parents=True)
    try:
        names = unpack(bundle, folder)
        manifest = read_manifest(folder)
    except HarnessError as error:
        log.fail("archive", error_in_bundle(error, folder))
    faults = manifest_faults(manifest, folder, names)
    more = f"; and {len(faults) - 3:,} more" if len(faults) > 3 else ""
    log.check(
        "manifest",
        not faults,
        f"all {len(manifest.files):,} files match the manifest",
        "; ".join(faults[:3]) + more,
    )
    for mark in manifest.marks:
        log.note("accepted", f"{mark.check}: {mark.sentence}")
    return manifest


def check_documents(folder: Path, log: FindingLog) -> None:
    """Check the team file and the description of a submission bundle."""
    try:
        team = load_team(folder / "team.toml")
    except HarnessError as error:
        log.fail("team", error_in_bundle(error, folder))
    log.note("team", team.title)
    pdf = folder / "description.pdf"
    is_pdf = pdf.is_file() and pdf.read_bytes()[:5] == b"%PDF-"
    log.check("description", is_pdf, "description.pdf is present", "description.pdf is missing or not a PDF")


def compare_with_frozen(folder: Path, frozen: Path, manifest: Manifest, work: Path, log: FindingLog) -> CodeDifference:
    """Compare the code in `folder` with the zip `frozen`, which is unpacked into `work`.

    A difference is noted but does not fail the verification: a contest may allow a patch. Raises HarnessError if the
    zip cannot be unpacked.
    """
    work.mkdir()
    unpack(frozen, work)
    difference = compare_code(folder, work, names_frozen=manifest.code_bundle_sha256 == file_sha256(frozen))
    (log.record if difference.is_same else log.note)("frozen", difference.summary)
    return difference


def check_code(folder: Path, manifest: Manifest, round_: Round | None, log: FindingLog) -> CheckedCode:
    """Check the code's spec, lock and rules.

    The rules are those of `round_`. Without a round, lengths and vocabulary come from the bundle, and the caps are
    those of the challenge.
    """
    code = folder / "code"
    try:
        spec, rules = read_code_spec(code), read_round_rules(code)
        require_plain_lock(read_bounded_text(code / REQUIREMENTS, limit=_MAX_LOCK_BYTES))
    except HarnessError as error:
        log.fail("code", error_in_bundle(error, folder))
    is_in_manifest = (
        spec.attack.sha256 == manifest.attack_sha256
        and file_sha256(code / REQUIREMENTS) == manifest.lock_sha256
        and (None if spec.target is None else spec.target.identity) == manifest.target
    )
    log.check(
        "code",
        is_in_manifest,
        f"{SPEC} and {REQUIREMENTS} match the manifest",
        f"{SPEC} or {REQUIREMENTS} does not match the manifest",
    )
    _note_harness_version(code, log)
    if round_ is None:
        rules = rules.model_copy(update=_CHALLENGE_CAPS)
        caps = f"{rules.error_cap:,} errors, {rules.row_cap:,} rows"
        log.note("rules", f"lengths and vocabulary come from the bundle, caps from the challenge: {caps}")
        return CheckedCode(spec, rules)
    differing = [name for name in _RULES if getattr(round_, name) != getattr(rules, name)]
    log.check(
        "rules",
        not differing,
        f"the rules are those of {round_.name}, {format_duration(round_.budget)}",
        f"the bundle's rules differ from those of {round_.name}: {', '.join(differing)}",
    )
    return CheckedCode(spec, round_)


def error_in_bundle(error: HarnessError, folder: Path) -> str:
    """Return the error as a clause, with paths relative to the unpacked bundle."""
    return str(error).replace(f"{folder}/", "").rstrip(".")


def _note_harness_version(code: Path, log: FindingLog) -> None:
    """Note whether the bundle's harness is the one that verifies. A team may have changed its copy."""
    name, content = harness_wheel()
    wheel = code / name
    is_same = wheel.is_file() and wheel.stat().st_size == len(content) and wheel.read_bytes() == content
    log.note("harness", f"the bundle's harness {'equals' if is_same else 'differs from'} the one that verifies")
