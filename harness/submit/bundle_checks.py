"""The checks on a bundle before its code runs: the archive, the manifest, the documents, the code and the rules."""

import codecs
import json
import tokenize
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from harness.core.arrays import tokens_sha256
from harness.core.errors import HarnessError
from harness.core.files import file_errors, file_sha256, open_regular, read_start
from harness.core.inputs import read_bounded_text, require_file
from harness.core.rounds import Round
from harness.core.submission_reader import SubmissionRows, read_submission
from harness.core.text import list_first, shorten
from harness.core.times import format_duration
from harness.core.version import __version__
from harness.engine.resolving import ResolvedTarget
from harness.submit.archive import unpack
from harness.submit.code_folder import FIXED_FILES, REQUIREMENTS, RUN_SH, TRAIN, is_model_file, other_models, rendered
from harness.submit.code_spec import SPEC, CodeSpec, CodeTarget, read_code_spec
from harness.submit.frozen_code import CodeDifference, compare_code
from harness.submit.judging import JudgingData
from harness.submit.lock_file import read_pins
from harness.submit.manifest import MODEL_NAMES, SUBMISSION, Manifest, manifest_faults, read_manifest
from harness.submit.rerun import read_round_rules
from harness.submit.team import description_length, load_team
from harness.submit.verdict import FindingLog, error_in_bundle
from harness.submit.wheel import WHEEL, harness_wheel

FindModel = Callable[[str, CodeTarget], ResolvedTarget]
"""Returns the verifier's own copy of a model that a bundle names. Its role is `target` or `reference`."""
_RULES = ("prefix_length", "suffix_length", "vocabulary", "error_cap", "row_cap")
_CHALLENGE_CAPS = {"error_cap": 100, "row_cap": 100_000}
_MAX_LOCK_BYTES = 8 << 20
_MAX_BATCH_SIZES = 1000
"""Bytes of JSON. A run has a few batch sizes, and 1,000 bytes hold the answers of some ten examples."""
_PLAIN_ENCODINGS = ("utf-8", "utf-8-sig", "ascii")


class FrozenCode(NamedTuple):
    """The zip that a team sent before the prefixes were known, and the change of it that the organizers approved."""

    zip: Path
    patch: Path | None = None


class UnpackedBundle(NamedTuple):
    """A folder with the files of a bundle, and what they say: the manifest, the spec of the code, the round's rules."""

    folder: Path
    manifest: Manifest
    spec: CodeSpec
    rules: Round
    difference: CodeDifference | None
    """The difference of the code from the frozen code, None without frozen code."""


def bundle_sha256(bundle: Path) -> str:
    """Return the SHA-256 of a bundle. Raises HarnessError if it is not a regular file or cannot be read."""
    require_file(bundle)
    with file_errors(bundle):
        return file_sha256(bundle)


def open_bundle(bundle: Path, work: Path, frozen: FrozenCode | None, log: FindingLog) -> UnpackedBundle:
    """Unpack a bundle into `work`/bundle, check every file against the manifest, and read what the bundle says.

    The code is compared with the `frozen` code. Raises HarnessError if the frozen code or its patch cannot be read.
    """
    folder = work / "bundle"
    folder.mkdir(parents=True)
    with log.fail_on_error("archive", folder):
        names = unpack(bundle, folder)
        manifest = read_manifest(folder)
    faults = manifest_faults(manifest, folder, names)
    matches = f"all {len(manifest.files):,} files match the manifest"
    log.check("manifest", not faults, matches, list_first(faults, 3, separator="; "))
    with log.fail_on_error("code", folder):
        spec, rules = read_code_spec(folder / "code"), read_round_rules(folder / "code")
    for mark in manifest.marks:
        log.note("accepted", f"{mark.check}: {mark.sentence}")
    difference = None
    if frozen is not None:
        require_file(frozen.zip)
        (frozen_folder := work / "frozen").mkdir()
        unpack(frozen.zip, frozen_folder)
        names_frozen = manifest.code_bundle_sha256 == file_sha256(frozen.zip)
        difference = compare_code(folder, frozen_folder, names_frozen=names_frozen, patch=frozen.patch)
    return UnpackedBundle(folder, manifest, spec, rules, difference)


def check_documents(folder: Path, log: FindingLog) -> None:
    """Check the team file and the description of a submission bundle."""
    with log.fail_on_error("team", folder):
        log.note("team", load_team(folder / "team.toml").title)
    pdf = folder / "description.pdf"
    is_pdf = pdf.is_file() and read_start(pdf, 5) == b"%PDF-"
    log.check("description", is_pdf, "description.pdf is present", "description.pdf is missing or not a PDF")
    try:
        sentence, is_short = description_length(folder / "description" / "method.md")
    except HarnessError as error:
        sentence, is_short = f"its words cannot be counted: {error_in_bundle(error, folder)}", True
    if is_short:
        log.note("description", sentence)


def check_frozen(bundle: UnpackedBundle, log: FindingLog) -> None:
    """Check that the code is the frozen code if there is one, and that the manifest does not bring more with it."""
    difference, run = bundle.difference, bundle.manifest.run
    if difference is None:
        return
    log.check("frozen", difference.is_accepted, difference.summary, difference.summary)
    size = 0 if run is None else len(json.dumps(run.batch_sizes))
    if size > _MAX_BATCH_SIZES:
        sentence = f"the manifest passes {size:,} bytes of batch sizes to the frozen code, which could be answers"
        log.fail("frozen", f"{sentence}. At most {_MAX_BATCH_SIZES:,} are allowed")


def check_other_models(bundle: UnpackedBundle, round_: Round, log: FindingLog) -> None:
    """Check the names of the attack's models, except the target, against the rules of the round."""
    if not round_.forbidden_models:
        return
    if (forbidden := round_.forbidden_model(other_models(bundle.spec))) is not None:
        log.fail("models", f"the round forbids the model {shorten(forbidden)}")
    log.record("models", "the attack names no model that the round forbids")
    inside = [name for name in bundle.manifest.files if name.startswith("code/") and is_model_file(name)]
    if inside:
        log.note("models", f"a model in the bundle may be one that the round forbids: {shorten(inside[0])}")


def check_code(bundle: UnpackedBundle, round_: Round | None, log: FindingLog) -> Round:
    """Check the code's lock, sources and rules, and return the rules that its submission is scored by.

    They are those of `round_`. Without a round, lengths and vocabulary come from the bundle, and the caps are those of
    the challenge.
    """
    folder, manifest, spec, rules, _ = bundle
    code = folder / "code"
    with log.fail_on_error("code", folder):
        read_pins(read_bounded_text(code / REQUIREMENTS, limit=_MAX_LOCK_BYTES))
        for name in manifest.files:
            if name.startswith("code/") and name.endswith(".py"):
                _check_encoding(folder / name)
    source = f"code/attack/{spec.attack.file}"
    log.check(
        "code",
        manifest.files.get(source) == spec.attack.sha256,
        f"{SPEC} and {REQUIREMENTS} are valid, and the attack's source is the one that {SPEC} names",
        f"{shorten(source)} is missing, or is not the source that {SPEC} names",
    )
    reference = "none" if spec.reference is None else spec.reference.id
    if reference != (declared := spec.attack.reference_model or "none"):
        log.note("reference", f"the reference model is {shorten(reference)}, the attack declares {shorten(declared)}")
    _note_harness_version(code, manifest.harness, log)
    _note_other_files(bundle, log)
    if round_ is None:
        rules = rules.model_copy(update=_CHALLENGE_CAPS)
        caps = f"{rules.error_cap:,} errors, {rules.row_cap:,} rows"
        log.note("rules", f"lengths and vocabulary come from the bundle, caps from the challenge: {caps}")
        return rules
    if rules.name != round_.name:
        log.note("round", f"the bundle was made for the round {rules.name}, not for {round_.name}")
    differing = [name for name in _RULES if getattr(round_, name) != getattr(rules, name)]
    log.check(
        "rules",
        not differing,
        f"the rules are those of {round_.name}, {format_duration(round_.budget)}",
        f"the bundle's rules differ from those of {round_.name}: {', '.join(differing)}",
    )
    check_other_models(bundle, round_, log)
    data = sum(file.stat().st_size for file in (code / "paths").rglob("*") if file.is_file())
    if data and round_.training_data_search == "forbidden":
        log.note("paths", f"the attack reads {data:,} bytes in code/paths, which must not be searched training data")
    return round_


def read_submitted(bundle: UnpackedBundle, judging: JudgingData, log: FindingLog) -> SubmissionRows | None:
    """Return the submission of the bundle, or None if it contains code only."""
    if bundle.manifest.kind == "code":
        return None
    log.check(
        "prefixes",
        bundle.manifest.prefixes_sha256 == tokens_sha256(judging.prefixes, judging.round.vocabulary),
        f"the submission is for these {len(judging.prefixes):,} prefixes",
        "the submission was made for other prefixes",
    )
    with log.fail_on_error("submission", bundle.folder):
        submitted = read_submission(bundle.folder / SUBMISSION, judging.submission_rules)
    log.record("submission", f"{len(submitted.ids):,} rows follow the round's rules")
    return submitted


def check_models(spec: CodeSpec, find: FindModel, log: FindingLog) -> dict[str, Path]:
    """Return the directories of the verifier's copies of the bundle's models, by `target`, `reference` and `base`.

    The weights of a copy must be those that the bundle names.
    """
    if spec.target is None:
        log.note("target", "the attack does not use a target")
    folders = {}
    for role, model in (("target", spec.target), ("reference", spec.reference)):
        if model is not None:
            local_model = find(role, model)
            expected = f"{shorten(model.id)}, weights {model.weights_sha256[:12]}…"
            log.check(
                role,
                local_model.weights_sha256 == model.weights_sha256,
                f"the {MODEL_NAMES[role]} is {expected}",
                f"the bundle names {expected}, but the weights here hash to {local_model.weights_sha256[:12]}…",
            )
            folders[role] = local_model.path
            if local_model.adapter is not None:
                folders |= {role: local_model.adapter.path, "base": local_model.path}
    return folders


def _check_encoding(source: Path) -> None:
    """Raise HarnessError if Python would read another text in a source file than its reviewers."""
    try:
        with open_regular(source) as file:
            encoding = codecs.lookup(tokenize.detect_encoding(file.readline)[0]).name
    except (SyntaxError, LookupError):
        encoding = "unknown"
    if encoding not in _PLAIN_ENCODINGS:
        raise HarnessError(f"{source}: declares another encoding than UTF-8.")


def _note_other_files(bundle: UnpackedBundle, log: FindingLog) -> None:
    """Note files of code/ that `harness bundle` writes differently or not at all: the result may come from them."""
    spec = bundle.spec
    if not _has_content(bundle.folder / "code" / RUN_SH, rendered(RUN_SH, spec, bundle.rules)):
        log.note("code", f"{RUN_SH} is not the one that harness bundle writes")
    expected = (*FIXED_FILES, f"attack/{spec.attack.file}", *([TRAIN] if spec.trains else []))
    folders = tuple(f"paths/{name}/{kind}/" for name in spec.paths for kind in ("file", "folder"))
    names = [name.removeprefix("code/") for name in sorted(bundle.manifest.files) if name.startswith("code/")]
    extra = [n for n in names if n not in expected and not n.startswith(folders) and not WHEEL.fullmatch(n)]
    if extra:
        listed = list_first([shorten(name) for name in extra], 3)
        log.note("code", f"code/ contains files that harness bundle does not write: {listed}")


def _has_content(file: Path, content: bytes) -> bool:
    return file.is_file() and read_start(file, len(content) + 1) == content


def _note_harness_version(code: Path, version: str, log: FindingLog) -> None:
    """Note whether the bundle's harness is the one that verifies. A team may have changed its copy."""
    name, content = harness_wheel()
    sentence = "the bundle's harness is the one that verifies"
    if not _has_content(code / name, content):
        sentence = (
            f"the bundle's harness ({shorten(version)}) is another build than the one that verifies ({__version__}), "
            "which scores the result; this does no harm if the submission is reproduced"
        )
    log.note("harness", sentence)
