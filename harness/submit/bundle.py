"""A run, or an attack before its run, made into the zip that its organizers get."""

import hashlib
import io
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness import __version__
from harness.core.arrays import Tokens
from harness.core.examples import load_prefixes, load_training
from harness.core.rounds import FILE_FIELDS
from harness.core.submission import write_submission
from harness.core.submission_reader import SubmissionRules, read_submission
from harness.jobs.attack.results import scorecard_of, submission_now
from harness.jobs.attack.spec import AttackSpec
from harness.plugins.declarations import declaration_in
from harness.runs.folder import RunFolder
from harness.runs.reader import RunReader
from harness.runs.summary import nondeterminism_reasons, run_summary
from harness.submit.archive import archive_bytes
from harness.submit.checklist import Check, reads_training
from harness.submit.code import README, REQUIREMENTS, Code, code_bundle, code_files, readme
from harness.submit.code_spec import code_spec_of
from harness.submit.lock import torch_build
from harness.submit.manifest import MANIFEST, Manifest, Mark, RanOn, hashes_of
from harness.submit.prefixes import tokens_sha256
from harness.submit.team import load_team


@dataclass(frozen=True)
class Bundle:
    """A zip's bytes and what it says of itself; `pages` are its description's, 0 for code alone."""

    content: bytes
    manifest: Manifest
    pages: int = 0

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def code_only_bundle(spec: AttackSpec, source: bytes) -> Bundle:
    """The code of an attack that has not run yet, as `spec` plans it. Raises HarnessError as `code_files` does."""
    files = code_files(_code(spec, source))
    manifest = _code_manifest(spec, files)
    return Bundle(code_bundle(files, manifest.json_bytes()), manifest)


def submission_bundle(folder: RunFolder, *, team: Path, description: Path, unmet: list[Check], redact: bool) -> Bundle:
    """The submission of a run with its code, description and team. `unmet`: what of the checklist was accepted.

    The same run, team and description give the same bytes. Raises HarnessError when the submission breaks a rule of its
    round, the description does not fit, or as `code_files` does.
    """
    spec = folder.spec()
    source = (folder.code / spec.attack.file).read_bytes()
    prefixes = load_prefixes(spec.round)
    ran_on = _ran_on(folder, spec)
    code = _code(spec, source)
    within = code_files(code)
    frozen = code_bundle(within, _code_manifest(spec, within).json_bytes())
    (wheel,) = (name for name in within if name.endswith(".whl") and "/" not in name)
    within[README] = readme(code, wheel, ran_on)
    files = {f"code/{name}": content for name, content in within.items()}
    submission = submission_now(folder)
    content = io.BytesIO()
    write_submission(content, submission.ids, submission.suffixes)
    files["submission.csv"] = content.getvalue()
    _require_rules(spec, files["submission.csv"], prefixes)
    if not spec.round.is_blind:
        files["scorecard.json"] = (json.dumps(scorecard_of(spec, submission), indent=2) + "\n").encode()
    files["team.toml"] = team.read_bytes()
    written, pages = _description(folder, team, description, redact=redact)
    files |= written
    manifest = Manifest(
        kind="submission",
        prefixes_sha256=tokens_sha256(prefixes, spec.round.vocabulary),
        code_bundle_sha256=hashlib.sha256(frozen).hexdigest(),
        run=ran_on,
        marks=[Mark(check=check.name, sentence=check.sentence) for check in unmet],
        files=hashes_of(files),
        **_named_in_both(spec, within),
    )
    return Bundle(archive_bytes(files | {MANIFEST: manifest.json_bytes()}), manifest, pages)


def _code(spec: AttackSpec, source: bytes) -> Code:
    training = load_training(spec.round) if reads_training(source) else None
    return Code(
        spec=code_spec_of(spec, trains=training is not None),
        round=spec.round,
        source=source,
        summary=declaration_in(source).summary,
        training=training,
        paths={name: record.path for name, record in spec.paths.items()},
    )


def _code_manifest(spec: AttackSpec, files: dict[str, bytes]) -> Manifest:
    return Manifest(
        kind="code",
        prefixes_sha256=None,
        code_bundle_sha256=None,
        run=None,
        marks=[],
        files=hashes_of({f"code/{name}": content for name, content in files.items()}),
        **_named_in_both(spec, files, without_round=True),
    )


def _named_in_both(spec: AttackSpec, files: dict[str, bytes], *, without_round: bool = False) -> dict[str, object]:
    """What either kind of bundle names. The attacked rows are not yet known to code that is packaged before them."""
    target = code_spec_of(spec, trains=False).target
    fields = [field for field in FILE_FIELDS if not without_round or field.startswith("train_")]
    data = {field: spec.data_sha256.get(str(getattr(spec.round, field))) for field in fields}
    return {
        "harness": __version__,
        "attack": spec.attack.name,
        "attack_sha256": spec.attack.sha256,
        "round": spec.round.name,
        "target": None if target is None else target.named,
        "data_sha256": {field: sha256 for field, sha256 in data.items() if sha256 is not None},
        "lock_sha256": hashlib.sha256(files[REQUIREMENTS]).hexdigest(),
        "torch": torch_build(),
    }


def _ran_on(folder: RunFolder, spec: AttackSpec) -> RanOn:
    summary = run_summary(folder)
    with RunReader(folder.store) as reader:
        loaded = reader.last_event("worker_target")
    return RanOn(
        id=spec.id,
        status=summary.status,
        reason=summary.reason,
        spent_s=summary.elapsed_s,
        budget_s=spec.budget,
        examples=spec.examples,
        round_examples=spec.round_examples,
        sandbox=summary.sandbox,
        hardware=spec.hardware,
        target_as_loaded=loaded,
        versions=spec.versions,
        unpromised=nondeterminism_reasons(folder),
    )


def _require_rules(spec: AttackSpec, submission: bytes, prefixes: Tokens) -> None:
    """Raise HarnessError unless the CSV, as it will be read, keeps every rule of the round."""
    rules = SubmissionRules(len(prefixes), spec.round.suffix_length, spec.round.vocabulary, spec.round.row_cap)
    with tempfile.TemporaryDirectory(prefix="harness-package-") as folder:
        path = Path(folder) / "submission.csv"
        path.write_bytes(submission)
        read_submission(path, rules)


def _description(folder: RunFolder, team: Path, description: Path, *, redact: bool) -> tuple[dict[str, bytes], int]:
    """description.pdf, and its sources below description/."""
    # Here: code alone needs no typesetter and no figures.
    from harness.submit.description import write_description
    from harness.submit.facts import run_facts

    with tempfile.TemporaryDirectory(prefix="harness-package-") as name:
        place = Path(name)
        pages = write_description(
            run_facts(folder), load_team(team).byline, description.read_text(encoding="utf-8"), place, redact=redact
        )
        written = {path.relative_to(place).as_posix(): path.read_bytes() for path in place.rglob("*") if path.is_file()}
    pdf = written.pop("description.pdf")
    return {"description.pdf": pdf} | {f"description/{name}": content for name, content in written.items()}, pages
